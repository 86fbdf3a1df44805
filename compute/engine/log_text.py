"""From the bytes of a log to text, without cutting a character in two."""

import codecs
from dataclasses import dataclass

from compute.engine.ports import LogChunk


@dataclass(frozen=True)
class LogText:
    """Part of a log as text. `next_offset` counts bytes, and never points into the middle of a character."""

    text: str
    next_offset: int
    is_complete: bool


def decode(chunk: LogChunk) -> LogText:
    """Read a chunk as UTF-8. Bytes that are none become U+FFFD; a character that is not all there yet is left."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(chunk.data, final=chunk.is_complete)
    pending = len(decoder.getstate()[0])
    return LogText(text, chunk.next_offset - pending, chunk.is_complete)
