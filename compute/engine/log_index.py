"""Which parts of a long log a search need not read: a filter of the three-byte sequences in each part."""

import zlib

import numpy as np

_BITS = 1 << 16
_SPREAD = 2_654_435_761
# A shorter part is read sooner than its filter.
_SHORTEST = 16 * 1024
_SEQUENCE = 3


def build_index(text: bytes) -> bytes:
    """Return the filter of a text, at most 8 KiB however long the text is; empty for a short one."""
    if len(text) < _SHORTEST:
        return b""
    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint32)
    sequences = (data[:-2] << 16) | (data[1:-1] << 8) | data[2:]
    bits = np.zeros(_BITS, dtype=np.uint8)
    bits[(sequences * np.uint32(_SPREAD)) >> np.uint32(16)] = 1
    return zlib.compress(np.packbits(bits).tobytes(), 1)


def may_hold(index: bytes, text: bytes) -> bool:
    """Whether a text may occur in what the filter was built from. Never wrong when it says no."""
    if not index:
        return True
    bits = zlib.decompress(index)
    sequences = (int.from_bytes(text[start : start + _SEQUENCE]) for start in range(len(text) - _SEQUENCE + 1))
    places = ((sequence * _SPREAD & 0xFFFF_FFFF) >> 16 for sequence in sequences)
    return all(bits[place >> 3] & (0x80 >> (place & 7)) for place in places)
