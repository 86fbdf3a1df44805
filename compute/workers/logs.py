"""Logs are written to their project's store while jobs run, so that they outlive the resources on which they ran.

Level-triggered: each pass compares what a job has printed with what is stored of it. The logs of jobs that have ended
are stored together, as most are short. A job that runs gets a chunk after each MiB, or every five minutes.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.models import Project
from accounts.permissions import Actor
from compute.engine import log_text
from compute.engine.ports import LogChunk
from compute.engine.states import HOLDING, JOB_STATES, JobState
from compute.models import Job, ResourceState, StoredLogChunk
from compute.selectors import failures, log_polls
from compute.selectors import jobs as job_selectors
from compute.selectors.stored_logs import MOST_CHUNK_BYTES, path_of
from core import clock, hosts, isolation
from datasets.errors import StoreUnreachable
from datasets.selectors import trees as tree_selectors
from datasets.services import trees
from datasets.services.trees import SourceFile, StoredTree

LOG_HOLDER = "log:"
"""What the names of those begin with that hold trees of logs."""

_SYSTEM = Actor.system("logs")
_PURPOSE = "store"
_STORE_AFTER = timedelta(minutes=5)
# So long after a job has ended its resource may still say more of its log, unless that calls it complete.
_REST_WITHIN = timedelta(hours=1)
# A chunk that is shorter is written again together with what follows it, so that a long log has few.
_SHORT_CHUNK_BYTES = MOST_CHUNK_BYTES // 4
_BATCH_BYTES = 16 << 20
_MOST_JOBS, _MOST_RUNNING = 500, 10_000


@dataclass(frozen=True)
class _Piece:
    """Bytes of a job's log that go to the store. `is_last`: nothing follows them, and the job has ended."""

    job: Job
    offset: int
    data: bytes
    is_last: bool

    @property
    def holder(self) -> str:
        return f"{LOG_HOLDER}{self.job.pk}:{self.offset}"


def find_unstored() -> list[QuerySet[Job]]:
    """Return the jobs that have ended, and those that run, of whose logs not all is stored."""
    # A query of its own is answered from the index of just these jobs, whatever else is asked of them.
    unstored = Job.objects.filter(pk__in=Job.objects.filter(log_stored_at=None).order_by().values("pk"))
    return [unstored.filter(state__in=sorted(JOB_STATES.final)), unstored.filter(state__in=sorted(HOLDING))]


def store_logs(*, limit: int = _MOST_JOBS) -> None:
    """Store what jobs have printed, of at most `limit` jobs of each project. The rest waits for the next run."""
    ended, running = find_unstored()
    ended.filter(node_name="", evictions=0).update(log_stored_at=clock.now())  # they were never placed
    due_ids = log_polls.list_due(running.order_by("pk").values_list("pk", flat=True), _PURPOSE)
    running = running.filter(pk__in=due_ids[:_MOST_RUNNING])
    for due in (ended, running):
        reachable = due.filter(resource__state=ResourceState.READY, resource__host__in=hosts.here())
        undeleted = Project.objects.filter(Q(deleted_at=None) | Q(restore_ends_at__isnull=False))
        projects = undeleted.filter(pk__in=reachable.order_by().values("project")).order_by("pk")
        isolation.for_each("compute.store_logs", projects, partial(_store_project, reachable, limit))


def _store_project(due: QuerySet[Job], limit: int, project: Project) -> None:
    """Store what some jobs of a project have printed: of those that have ended together, else each for itself."""
    pieces: list[_Piece] = []

    def store_read() -> None:
        read = pieces.copy()
        pieces.clear()
        if read:
            _store(project, read)

    def read(job: Job) -> None:
        for piece in _read_pieces(job):
            pieces.append(piece)
            if sum(len(each.data) for each in pieces) >= _BATCH_BYTES:
                break
        if not job.has_ended or sum(len(each.data) for each in pieces) >= _BATCH_BYTES:
            store_read()

    jobs = isolation.take(
        failures.STORE_LOG, due.filter(project=project).select_related("resource").order_by("pk"), limit
    )
    isolation.for_each(failures.STORE_LOG, jobs, read, concerns_all=(StoreUnreachable,))
    store_read()


def _read_pieces(job: Job) -> Iterator[_Piece]:
    """Yield what a job has printed since its last chunk, if that is enough; of lines that go on nothing."""
    newest = (
        StoredLogChunk.objects.filter(job=job).defer("index").order_by("-offset").first() if job.log_bytes else None
    )
    if not (job.has_ended or log_polls.is_due(job, _PURPOSE)):
        return
    chunk = job_selectors.read_live_log(job, job.log_bytes, 0)
    size_bytes = chunk.size_bytes
    log_polls.note(job, _PURPOSE, size_bytes)
    if size_bytes <= job.log_bytes:
        # A log may have become shorter, as after a crash of its host: what is stored stays.
        if _is_last(job, chunk):
            yield _Piece(job, job.log_bytes, b"", is_last=True)
        return
    is_long_ago = clock.now() - (newest or job).created_at >= _STORE_AFTER
    if not job.has_ended and size_bytes - job.log_bytes < (1 if is_long_ago else MOST_CHUNK_BYTES):
        return
    offset = newest.offset if newest is not None and newest.size_bytes < _SHORT_CHUNK_BYTES else job.log_bytes
    while offset < size_bytes:
        chunk = job_selectors.read_live_log(job, offset, MOST_CHUNK_BYTES)
        data = chunk.data
        is_end = job.has_ended and offset + len(data) >= size_bytes
        line_end = data.rfind(b"\n") + 1
        if not is_end:
            data = data[:line_end] if line_end or len(data) < MOST_CHUNK_BYTES else data
        if not data:
            return
        yield _Piece(job, offset, data, is_end and _is_last(job, chunk))
        offset += len(data)


def _is_last(job: Job, chunk: LogChunk) -> bool:
    """Whether nothing follows a chunk at the end of what there is of a log."""
    if not job.has_ended:
        return False
    if chunk.is_complete or job.started_at is None or job.state == JobState.LOST:
        return True
    return clock.now() - (job.finished_at or job.started_at) >= _REST_WITHIN


def _store(project: Project, pieces: Sequence[_Piece]) -> None:
    """Put pieces into the store together, then note them."""
    # Those of jobs whose log could not be read before were read last.
    pieces = sorted(pieces, key=lambda piece: (piece.job.pk, piece.offset))
    files = [_file_of(piece) for piece in pieces if piece.data]
    holder = f"{pieces[0].holder}-{pieces[-1].holder}" if len(pieces) > 1 else pieces[0].holder
    tree = trees.store_tree(actor=_SYSTEM, project=project, holder=holder, files=files) if files else None
    noted = set(_note(pieces, tree, holder))
    for piece in pieces:
        if piece.holder in noted - {holder} and piece.offset < piece.job.log_bytes:  # it was held for itself before
            trees.release_tree(actor=_SYSTEM, holder=piece.holder)


@transaction.atomic
def _note(pieces: Sequence[_Piece], tree: StoredTree | None, holder: str) -> list[str]:
    """Note what is stored; return the holders of just these pieces. Where somebody else was quicker, theirs stays.

    What was purged meanwhile is not noted, and nothing is held for it.
    """
    now = clock.now()
    rows = Job.objects.select_for_update().filter(pk__in={piece.job.pk for piece in pieces}, purged_at=None)
    jobs = {job.pk: job for job in rows.only("log_bytes", "log_stored_at").order_by("pk")}
    chunks, noted = [], []
    for piece in pieces:
        job, end = jobs.get(piece.job.pk), piece.offset + len(piece.data)
        if job is None or piece.offset > job.log_bytes or end < job.log_bytes:
            continue
        noted.append(piece.holder)
        if piece.data and tree is not None:
            chunks.append(_chunk_of(piece, tree, now))
        job.log_bytes = end
        job.log_stored_at = now if piece.is_last else job.log_stored_at
    StoredLogChunk.objects.bulk_create(
        chunks,
        update_conflicts=True,
        unique_fields=["job", "offset"],
        update_fields=["size_bytes", "dataset_id", "root", "ends_line", "index", "created_at"],
    )
    Job.objects.bulk_update(jobs.values(), ["log_bytes", "log_stored_at"], batch_size=200)
    if tree is not None and not chunks:
        trees.release_tree(actor=_SYSTEM, holder=holder)
    held = tree if chunks or tree is None else _find_noted(pieces[0])
    if held is not None:  # somebody else may have stored something by the same name meanwhile
        trees.hold_tree(actor=_SYSTEM, tree=held, holder=holder)
    return noted


def _find_noted(piece: _Piece) -> StoredTree | None:
    """Return the tree that has the chunk of another one in place of a piece."""
    chunk = StoredLogChunk.objects.filter(job=piece.job, offset=piece.offset).first()
    return None if chunk is None else tree_selectors.get_tree_of(_SYSTEM, piece.job.project_id, chunk.root)


def _chunk_of(piece: _Piece, tree: StoredTree, now: datetime) -> StoredLogChunk:
    return StoredLogChunk(
        job=piece.job,
        offset=piece.offset,
        size_bytes=len(piece.data),
        dataset_id=tree.dataset_id,
        root=tree.root,
        ends_line=piece.data.endswith(b"\n"),
        index=log_text.build_index(log_text.blank_protocol(piece.data).lower()),
        created_at=now,
    )


def _file_of(piece: _Piece) -> SourceFile:
    path = path_of(piece.job.pk, piece.offset)
    return SourceFile(path, 0o644, len(piece.data), 0, lambda: io.BytesIO(piece.data))
