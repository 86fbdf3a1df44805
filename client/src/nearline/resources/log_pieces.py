"""Logs are read piece by piece, and followed by asking again after pauses that grow while nothing comes."""

import time
from collections.abc import Callable, Iterator

PIECE_BYTES = 256 * 1024
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0

Piece = tuple[str, int, bool]
"""A text, the offset of what follows it, and whether nothing can."""


def follow(
    read: Callable[[int], Piece], *, is_following: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Yield the texts from offset 0 on to what there is now; when following, until nothing can follow."""
    offset, pause_s = 0, _FIRST_PAUSE_S
    while True:
        text, next_offset, is_complete = read(offset)
        if text:
            yield text
        has_moved = next_offset > offset
        offset = next_offset
        if has_moved:
            pause_s = _FIRST_PAUSE_S
        elif is_complete or not is_following:
            return
        else:
            sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
