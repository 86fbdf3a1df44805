"""The chunks of logs that are in the store, read without the resource on which their jobs ran."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from accounts.permissions import Actor
from compute.engine import log_text
from compute.models import Job, StoredLogChunk
from datasets.selectors import files, trees

MOST_CHUNK_BYTES = 1 << 20
_SYSTEM = Actor.system("logs")


@dataclass(frozen=True)
class Span:
    """Bytes of a log, from `start` to before `end`; None: to where the log ends."""

    start: int
    end: int | None


def path_of(job_id: str, offset: int) -> bytes:
    """Return the path of a chunk in its tree."""
    return f"{job_id}/{offset:020}".encode()


def read(job: Job, offset: int, limit: int) -> bytes:
    """Return at most `limit` stored bytes of a log, from `offset`.

    Raises StoreUnreachable, and ContentCorrupt for a chunk that is damaged.
    """
    end = min(offset + limit, job.log_bytes)
    rows = StoredLogChunk.objects.filter(job=job, offset__gt=offset - MOST_CHUNK_BYTES, offset__lt=end)
    pieces: list[bytes] = []
    for row in rows.defer("index").order_by("offset"):
        first, last = max(0, offset - row.offset), min(row.size_bytes, end - row.offset)
        if first < last:
            tree = trees.get_tree(_SYSTEM, row.dataset_id, row.root)
            content = files.open_file(_SYSTEM, tree, path=path_of(job.pk, row.offset))
            pieces += content.read(first, last - first)
    return b"".join(pieces)


def stored_at(job: Job) -> datetime | None:
    """Return when a part of the log was last stored: what was written until then can be read without the resource."""
    if not job.log_bytes:
        return None
    return StoredLogChunk.objects.filter(job=job).order_by("-offset").values_list("created_at", flat=True).first()


def list_spans(job: Job, text: bytes) -> Iterator[Span]:
    """Yield what has to be read of a log to find a text in lower case, in order.

    A stored chunk is left out when its index says that the text is not in it, and no line goes on from or into it. A
    text with a line end can lie in two chunks, so all is read for it.
    """
    rows = StoredLogChunk.objects.filter(job=job).order_by("offset")
    start: int | None = 0
    end = 0
    begins_line = True
    if b"\n" not in text:
        for offset, size_bytes, ends_line, index in rows.values_list("offset", "size_bytes", "ends_line", "index"):
            if begins_line and ends_line and not log_text.may_hold(bytes(index), text):
                if start is not None and start < offset:
                    yield Span(start, offset)
                start = None
            elif start is None:
                start = offset
            begins_line, end = ends_line, offset + size_bytes
    yield Span(end if start is None else start, None)
