"""From the bytes of a log to the text that people read and search, and to the lines that say why its job failed.

No character is cut in two, and no line of the platform's own is among the text. A filter of the three-byte sequences in
each part of a long log says which parts a search need not read.
"""

import codecs
import re
import zlib
from dataclasses import dataclass, replace

import numpy as np

from compute.engine.ports import LogChunk

PROTOCOL = b"::nearline {"
"""How lines begin by which a job records something. They are the platform's own, and no part of what is shown."""

_INDEX_BITS = 1 << 16
_INDEX_SPREAD = 2_654_435_761
# A shorter part is read sooner than its filter.
_SHORTEST_INDEXED = 16 * 1024
_SEQUENCE = 3

_MOST_LINES, _LONGEST_LINE = 12, 300
_TRACEBACK = "Traceback (most recent call last):"
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RECORDING = ("::nearline ", "cnvrg_tag_", "cnvrg_linechart_")


@dataclass(frozen=True)
class LogText:
    """Part of a log as text. `next_offset` counts bytes, and never points into the middle of a character.

    `size_bytes` is how long the log is now.
    """

    text: str
    next_offset: int
    is_complete: bool
    size_bytes: int


def decode(chunk: LogChunk) -> LogText:
    """Read a chunk as UTF-8. Bytes that are none become U+FFFD; a character that is not all there yet is left."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(chunk.data, final=chunk.is_complete)
    pending = len(decoder.getstate()[0])
    return LogText(text, chunk.next_offset - pending, chunk.is_complete, chunk.size_bytes)


def hide_protocol(chunk: LogChunk, line_so_far: bytes) -> LogChunk:
    """Return a chunk without the lines, and parts of lines, that are the platform's own.

    `line_so_far` is what precedes the chunk in its first line. A last line that may yet become one of ours is left for
    the next chunk.
    """
    lines = (line_so_far + chunk.data).split(b"\n")
    ends = [b"\n"] * (len(lines) - 1) + [b""]
    printed = [line + end for line, end in zip(lines, ends, strict=True) if not line.startswith(PROTOCOL)]
    data = b"".join(printed)
    if line_so_far and not lines[0].startswith(PROTOCOL):
        data = data[len(line_so_far) :]
    is_unsure = lines[-1] != PROTOCOL and PROTOCOL.startswith(lines[-1]) and not chunk.is_complete
    unsure = min(len(lines[-1]), len(chunk.data)) if is_unsure else 0
    return replace(chunk, data=data[: len(data) - unsure], next_offset=chunk.next_offset - unsure)


def blank_protocol(lines: bytes) -> bytes:
    """Return lines with the platform's own overwritten by NUL, so that every other byte stays where it is."""
    return b"\n".join(b"\0" * len(line) if line.startswith(PROTOCOL) else line for line in lines.split(b"\n"))


def skip_to_line(data: bytes) -> int:
    """Return how many bytes come before the first line that begins in `data`, which was cut out of a longer log.

    A line longer than all of it is cut where a character begins.
    """
    end = data.find(b"\n")
    if 0 <= end < len(data) - 1:
        return end + 1
    return next((place for place, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)  # noqa: PLR2004 (UTF-8)


def build_index(text: bytes) -> bytes:
    """Return the filter of a text, at most 8 KiB however long the text is; empty for a short one."""
    if len(text) < _SHORTEST_INDEXED:
        return b""
    data = np.frombuffer(text, dtype=np.uint8).astype(np.uint32)
    sequences = (data[:-2] << 16) | (data[1:-1] << 8) | data[2:]
    bits = np.zeros(_INDEX_BITS, dtype=np.uint8)
    bits[(sequences * np.uint32(_INDEX_SPREAD)) >> np.uint32(16)] = 1
    return zlib.compress(np.packbits(bits).tobytes(), 1)


def may_hold(index: bytes, text: bytes) -> bool:
    """Whether a text may occur in what the filter was built from. Never wrong when it says no."""
    if not index:
        return True
    bits = zlib.decompress(index)
    sequences = (int.from_bytes(text[start : start + _SEQUENCE]) for start in range(len(text) - _SEQUENCE + 1))
    places = ((sequence * _INDEX_SPREAD & 0xFFFF_FFFF) >> 16 for sequence in sequences)
    return all(bits[place >> 3] & (0x80 >> (place & 7)) for place in places)


@dataclass(frozen=True)
class Excerpt:
    """`headline` is the line that says most, empty without any; `lines` are the last ones, up to it or to the end."""

    headline: str
    lines: tuple[str, ...]


def find_excerpt(log_end: str) -> Excerpt:
    """Read the end of a log. Lines for the platform and empty ones are left out; of a progress bar its last state.

    The headline is the exception of the last Python traceback, else the last line.
    """
    lines = [
        line for raw in log_end.split("\n") if (line := _clean_line(raw)).strip() and not line.startswith(_RECORDING)
    ]
    if not lines:
        return Excerpt("", ())
    place = _exception_in(lines)
    end = len(lines) - 1 if place is None else place
    return Excerpt(_cut_line(lines[end].strip()), tuple(map(_cut_line, lines[max(0, end + 1 - _MOST_LINES) : end + 1])))


def _exception_in(lines: list[str]) -> int | None:
    """Return where the exception of the last traceback stands: the first line after it that is not indented."""
    begins = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    if not begins:
        return None
    # A launcher may put the same in front of every line, such as `[rank0]: `.
    prefix = lines[begins[-1]].removesuffix(_TRACEBACK)
    for number in range(begins[-1] + 1, len(lines)):
        message = lines[number].removeprefix(prefix)
        if not message.startswith((" ", "\t")):
            return number
    return None


def _clean_line(line: str) -> str:
    shown = _COLOUR.sub("", line.rstrip("\r")).rpartition("\r")[2]
    return "".join(char for char in shown if char.isprintable() or char == "\t").rstrip()


def _cut_line(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
