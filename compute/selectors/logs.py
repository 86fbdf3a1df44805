"""Long logs: the part before a place, read from its end on, and where in the whole of it a text occurs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accounts.permissions import Actor
from compute.engine import log_text
from compute.engine.log_text import LogText
from compute.engine.ports import LogChunk
from compute.models import Job
from compute.selectors import jobs, stored_logs
from core.errors import InvalidInput

MOST_PLACES = 2000
_LONGEST_SEARCH = 200
_LONGEST_LINE = 256 * 1024
"""So far back it is looked for the beginning of a line."""
_MOST_HIDDEN = 4 << 20
"""So much that is not shown is passed over at once. A job that measures a lot prints hardly anything else."""


@dataclass(frozen=True)
class LogPart:
    """Part of a log that begins at the byte `offset`."""

    offset: int
    text: LogText


@dataclass(frozen=True)
class Places:
    """Where a text occurs: how often in all, and the bytes at which the last ones begin, at most `MOST_PLACES`."""

    count: int
    offsets: list[int]


def read_text(*, actor: Actor, job: Job, offset: int, limit: int) -> LogText:
    """Return what a job printed, from a byte offset, as people read it: without the platform's own lines."""
    text = _text_of(actor, job, offset, jobs.read_log(actor=actor, job=job, offset=offset, limit=limit))
    if text.next_offset > offset or limit >= len(log_text.PROTOCOL):
        return text
    # Less than the beginning of such a line does not tell what it is.
    limit = len(log_text.PROTOCOL)
    return _text_of(actor, job, offset, jobs.read_log(actor=actor, job=job, offset=offset, limit=limit))


def read_part(*, actor: Actor, job: Job, offset: int, limit: int) -> LogPart:
    """Return what was printed from a byte on; whole lines as long as more follows."""
    chunk = jobs.read_log(actor=actor, job=job, offset=offset, limit=limit)
    end = chunk.data.rfind(b"\n") + 1
    if end and chunk.next_offset < chunk.size_bytes:
        chunk = replace(chunk, data=chunk.data[:end], next_offset=offset + end)
    return LogPart(offset, _text_of(actor, job, offset, chunk))


def read_before(*, actor: Actor, job: Job, before: int | None, limit: int) -> LogPart:
    """Return the lines that end before a byte; None: the last lines of all. At most `limit` bytes.

    Where the platform's own lines stand there alone, those before them are looked through in larger pieces.
    """
    size = jobs.read_log(actor=actor, job=job, offset=0, limit=0).size_bytes
    end = size if before is None else min(before, size)
    last = part = _lines_before(actor, job, end, limit)
    while not part.text.text and part.offset > 0 and end - part.offset < _MOST_HIDDEN:
        part = _lines_before(actor, job, part.offset, max(limit, jobs.MAX_LOG_BYTES))
    return LogPart(part.offset, replace(last.text, text=part.text.text))


def _lines_before(actor: Actor, job: Job, end: int, limit: int) -> LogPart:
    start = max(0, end - limit)
    chunk = jobs.read_log(actor=actor, job=job, offset=start, limit=end - start)
    skipped = log_text.skip_to_line(chunk.data) if start else 0
    offset = start + skipped
    return LogPart(offset, _text_of(actor, job, offset, replace(chunk, data=chunk.data[skipped:])))


def _text_of(actor: Actor, job: Job, offset: int, chunk: LogChunk) -> LogText:
    return log_text.decode(log_text.hide_protocol(chunk, _line_before(actor, job, offset)))


def _line_before(actor: Actor, job: Job, offset: int) -> bytes:
    """Return what stands before an offset in its line."""
    for length in (1, _LONGEST_LINE):  # mostly an offset is where a line begins
        start = max(0, offset - length)
        data = jobs.read_log(actor=actor, job=job, offset=start, limit=offset - start).data
        if b"\n" in data or start == 0:
            return data[data.rfind(b"\n") + 1 :]
    return b""


def find_in_log(*, actor: Actor, job: Job, text: str) -> Places:
    """Return where a text occurs in the whole log so far, whatever the case of its ASCII letters."""
    needle = text.encode().lower()
    if not needle or len(needle) > _LONGEST_SEARCH:
        raise InvalidInput(f"Search for 1 to {_LONGEST_SEARCH} bytes.")
    count, offsets = 0, []
    for place in _places(actor, job, needle):
        count += 1
        offsets.append(place)
        if len(offsets) == 2 * MOST_PLACES:
            del offsets[:MOST_PLACES]
    return Places(count, offsets[-MOST_PLACES:])


def _places(actor: Actor, job: Job, needle: bytes) -> Iterator[int]:
    passed, tail = 0, b""
    for offset, piece in _blanked_lines(actor, job, needle):
        if offset != passed:  # what lies between does not hold the text
            tail = b""
        data = tail + piece.lower()
        start = offset - len(tail)
        position = data.find(needle)
        past = 0
        while position >= 0:
            yield start + position
            past = position + len(needle)
            position = data.find(needle, past)
        # What a match may begin with is looked at again with what follows, but no match twice.
        tail = data[max(past, len(data) - len(needle) + 1) :]
        passed = offset + len(piece)


def _blanked_lines(actor: Actor, job: Job, needle: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield what may hold a text, in pieces with their offsets.

    The platform's own lines are made blank, so that nothing is found in them.
    """
    for span in stored_logs.list_spans(job, needle):
        offset, rest = span.start, b""
        while span.end is None or offset < span.end:
            limit = jobs.MAX_LOG_BYTES if span.end is None else min(jobs.MAX_LOG_BYTES, span.end - offset)
            chunk = jobs.read_log(actor=actor, job=job, offset=offset, limit=limit)
            if not chunk.data:
                break
            data = rest + chunk.data
            end = data.rfind(b"\n") + 1 or (len(data) if len(data) > _LONGEST_LINE else 0)
            yield offset - len(rest), log_text.blank_protocol(data[:end])
            offset, rest = chunk.next_offset, data[end:]
        yield offset - len(rest), log_text.blank_protocol(rest)
