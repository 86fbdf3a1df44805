"""Keeps the memory of a transfer from falling to pieces, so that a sync of any length takes the same."""

from contextlib import suppress

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# What is free at the end of the heap stays there up to this: it is taken again soon.
_MOST_FREE_BYTES = 256 << 20
_OWN_MAPPING_BYTES = 4 << 20


def keep_large_pieces_apart() -> None:
    """Let each piece of 4 MiB or more, as are most chunks, be a mapping of its own, which goes when it is freed.

    By default glibc stops doing so for pieces of a size once one was freed. What stays then lies between large pieces
    that went, and their memory is lost: a third of what a large first sync takes. Smaller pieces stay together: to map
    each of them anew takes a third more CPU. Other C libraries have no such call.
    """
    import ctypes  # noqa: PLC0415 (only what moves data needs it)

    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_FREE_BYTES)
