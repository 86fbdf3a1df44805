"""What jobs left and the store holds, read wherever they ran and whether or not their own files are still there.

Where people look at it, the secrets of the job are masked.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import QuerySet, Sum

from accounts.permissions import Actor, require
from accounts.services import secrets
from compute import permissions, signals
from compute.engine.job_spec import JobSpec, Tree
from compute.engine.masking import Mask
from compute.engine.secret_forms import forms_of
from compute.engine.states import JobState
from compute.errors import OutputEmpty, OutputGone, OutputNotStored
from compute.models import Job
from compute.selectors.jobs import require_no_parts
from core import orm
from datasets.errors import FileNotInCommit, TreeNotFound
from datasets.selectors import files, trees
from nearline.content.paths import show_path, to_bytes, to_text

_SYSTEM = Actor.system("outputs of jobs")


def holder_of(job_id: str) -> str:
    """Return the name by which a job holds its stored output."""
    return f"{job_id}/output"


@dataclass(frozen=True)
class StoredFile:
    """A file that a job left. `content_hash` is the BLAKE3 of its bytes.

    In `path` bytes that are no text are shown as escapes. A file with such a name is read by its tree alone.
    """

    path: str
    size_bytes: int
    content_hash: str


def list_first_files(*, actor: Actor, jobs: Sequence[Job], limit: int) -> Mapping[str, Sequence[StoredFile]]:
    """Return the first files of the outputs of several jobs by the job's id, in one query; none without a tree."""
    trees_by_root = trees.list_trees(actor, {job.output_root for job in jobs if job.output_root})
    by_root = {(tree.dataset.project_id, tree.root): tree for tree in trees_by_root}
    return {
        job.pk: [_stored(entry) for entry in islice(trees.list_entries(tree), limit)]
        for job in jobs
        if (tree := by_root.get((job.project_id, job.output_root))) is not None
    }


def find_trees(job_ids: Collection[str]) -> Mapping[str, Tree]:
    """Return the outputs that the store holds, for other jobs to mount, by job. For the platform itself."""
    jobs = Job.objects.filter(pk__in=job_ids).exclude(output_root="").only("project_id", "output_root")
    trees_by_root = trees.list_trees(_SYSTEM, {job.output_root for job in jobs})
    by_root = {(tree.dataset.project_id, tree.root): Tree(tree.dataset_id, tree.root) for tree in trees_by_root}
    return {job.pk: by_root[key] for job in jobs if (key := (job.project_id, job.output_root)) in by_root}


def find_lost(job_ids: Collection[str], *, stored_in_part: Collection[str]) -> set[str]:
    """Return which jobs left what no other job can read any more: their files are gone, and the store lacks some of it.

    A job that ran in a folder was read there, with what the store leaves out: see `output_error`, and by the patterns
    of those that are `stored_in_part`. All others are read in the store alone. For the platform itself.
    """
    lost: set[str] = set()
    for batch in orm.in_batches(sorted(job_ids)):
        jobs = Job.objects.filter(pk__in=batch, files_deleted_at__isnull=False).defer("spec")
        stored = find_trees([job.pk for job in jobs])
        for job in jobs:
            was_read_whole = job.output_folder and (job.output_error or job.pk in stored_in_part)
            if was_read_whole or not (job.left_nothing or job.pk in stored):
                lost.add(job.pk)
    return lost


def open_file(*, actor: Actor, job: Job, path: str) -> tuple[StoredFile, Iterator[bytes]] | None:
    """Return a file of a job's output and its bytes, verified as they are read; None when there is none."""
    require(actor, permissions.VIEW_JOBS, job.project_id)
    if not job.output_root:
        return None
    tree = trees.get_tree_of(actor, job.project_id, job.output_root)
    try:
        content = files.open_file(actor, tree, path=to_bytes(path))
    except FileNotInCommit:
        return None
    return _stored(content.entry), content.read()


@dataclass(frozen=True)
class StoredOutput:
    """The output of a job as a tree of its project. `left_out` says what of it is not stored, and why."""

    job: str
    project: str
    tree: str
    root: str
    files: int
    size_bytes: int
    left_out: str


def get_output(*, actor: Actor, job: Job) -> StoredOutput:
    """Return what the store holds of a job's output.

    Raises OutputEmpty, OutputNotStored, OutputGone, and JobHasParts for a job whose parts have one each.
    """
    require(actor, permissions.VIEW_JOBS, job.project_id)
    require_no_parts(job)
    if job.left_nothing:
        raise OutputEmpty(f"{job.label} left no file in its output folder.")
    if not job.output_root:
        raise OutputNotStored(f"The store holds no output of {job.label}. {_explain_missing(job)}")
    try:
        tree = trees.get_tree_of(actor, job.project_id, job.output_root)
    except TreeNotFound as error:
        raise OutputGone(f"The output of {job.label} was stored, and has been deleted since.") from error
    return StoredOutput(
        job.name, job.project.name, tree.pk, tree.root, tree.files, tree.size_bytes, left_out=job.output_error
    )


def _explain_missing(job: Job) -> str:
    if job.output_error:
        return job.output_error
    if job.state != JobState.SUCCEEDED:
        return f"The job is {job.state}."
    answers: Any = signals.output_awaited.send(sender=None, job_id=job.pk)
    if any(is_awaited for _, is_awaited in answers):
        return "It is not stored yet, which takes longer the more it left."
    if job.files_deleted_at is not None:
        return "It was not stored before the files of the job were deleted."
    return "Nothing stores it any more; what the job left is in its folder until that is deleted."


@dataclass(frozen=True)
class OutputSize:
    """How much the store holds of a job's output."""

    job_id: str
    files: int
    size_bytes: int


def sum_outputs(*, actor: Actor, job_ids: Sequence[str]) -> Sequence[OutputSize]:
    """Return how much the store holds of the outputs of jobs that the actor may see; none for those without any."""
    rows = Job.objects.filter(output_files__gt=0)
    if not actor.sees_everything:
        rows = rows.filter(project__in=actor.project_ids)
    return [
        OutputSize(*values)
        for batch in orm.in_batches(job_ids)
        for values in rows.filter(pk__in=batch).values_list("pk", "output_files", "output_bytes")
    ]


@dataclass(frozen=True)
class StoredSize:
    """How much the store holds of the outputs of several jobs."""

    files: int
    size_bytes: int


def sum_stored(*, jobs: QuerySet[Any]) -> StoredSize:
    """Return how much the store holds of the outputs of some jobs, given by a query. For the platform itself."""
    sums = Job.objects.filter(pk__in=jobs).aggregate(files=Sum("output_files"), size_bytes=Sum("output_bytes"))
    return StoredSize(sums["files"] or 0, sums["size_bytes"] or 0)


def list_hashes(job_id: str) -> dict[str, str]:
    """Return the content hash of every stored file of a job's output, by path. For the platform itself."""
    job = Job.objects.only("project_id", "output_root").get(pk=job_id)
    if not job.output_root:
        return {}
    tree = trees.get_tree_of(_SYSTEM, job.project_id, job.output_root)
    return {to_text(entry.path): entry.content_id.hex() for entry in trees.list_entries(tree)}


def _stored(entry: Any) -> StoredFile:
    return StoredFile(show_path(entry.path), entry.size, entry.content_id.hex())


def mask_beginning(job: Job | None, data: bytes, *, is_cut: bool) -> bytes:
    """Return the beginning of a file with the job's secrets replaced, by their present values.

    `is_cut`: there is more of it; then an end that may be the beginning of a secret is left out.
    """
    names = JobSpec.from_json(job.spec).secret_names if job is not None else ()
    if job is None or not names:
        return data
    mask = Mask(forms_of(secrets.find_values(project_id=job.project_id, names=names).values()))
    shown = mask.feed(data)
    return shown if is_cut else shown + mask.finish()
