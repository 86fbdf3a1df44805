"""From the bytes of a log to text, without cutting a character in two."""

import codecs
from dataclasses import dataclass

from compute.engine.ports import LogChunk


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


def skip_to_line(data: bytes) -> int:
    """Return how many bytes come before the first line that begins in `data`, which was cut out of a longer log.

    A line longer than all of it is cut where a character begins.
    """
    end = data.find(b"\n")
    if 0 <= end < len(data) - 1:
        return end + 1
    return next((place for place, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)  # noqa: PLR2004 (UTF-8)
