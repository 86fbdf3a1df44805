"""From the bytes of a log to the text that people read: no character is cut in two, no line of our own is among it."""

import codecs
from dataclasses import dataclass, replace

from compute.engine.ports import LogChunk

PROTOCOL = b"::nearline {"
"""How lines begin by which a job records something. They are the platform's own, and no part of what is shown."""


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
