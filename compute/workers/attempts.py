"""What the pod of a job asks of the platform, with a token that is good for one run of one job while that runs.

It may read what the job's spec says that the job reads and the checkpoint that it goes on from, and store the job's
output: nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from accounts.errors import NotSignedIn
from accounts.models import Project
from accounts.permissions import Actor
from compute.adapters.job_tokens import read_attempt
from compute.engine.job_spec import JobSpec, Tree
from compute.engine.states import HOLDING
from compute.errors import MountNotFound
from compute.models import Checkpoint, Job, OutputState
from compute.selectors.outputs import holder_of
from datasets.selectors import trees
from datasets.services import tree_archives


class Readable(Protocol):
    """What can be read on in, such as the body of a request."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes."""


@dataclass(frozen=True)
class StoredOutput:
    """What the store holds of an output. `root` is empty where there is no file."""

    root: str
    files: int
    size_bytes: int


_SYSTEM = Actor.system("pods of jobs")


def authenticate(secret: str) -> Job:
    """Return the job whose present run a token belongs to. Raises NotSignedIn when that has ended, or never was."""
    attempt = read_attempt(secret)
    if attempt is None:
        raise NotSignedIn("This is no token of a running job.")
    job_id, token = attempt
    job = Job.objects.filter(pk=job_id, token=token, state__in=sorted(HOLDING)).select_related("resource").first()
    if job is None:
        raise NotSignedIn("The job that this token is for does not run any more.")
    return job


def read_tree(*, job: Job, kind: str, name: str) -> Iterator[bytes]:
    """Return one of the trees that a job reads as an archive; its checkpoint is called after its root.

    Raises MountNotFound, and TreeNotFound when it is not stored.
    """
    spec = JobSpec.from_json(job.spec)
    mounts = {"code": [spec.code] if spec.code is not None else [], "data": spec.data, "input": spec.inputs}
    for mount in mounts.get(kind, ()):
        if mount.name == name and isinstance(mount.source, Tree):
            tree = trees.get_mounted(_SYSTEM, mount.source.dataset_id, mount.source.root)
            return tree_archives.read_archive(actor=_SYSTEM, tree=tree)
    if kind == "checkpoint" and (checkpoint := Checkpoint.objects.filter(pk=job.checkpoint_id, root=name).first()):
        tree = trees.get_mounted(_SYSTEM, checkpoint.dataset_id, checkpoint.root)
        return tree_archives.read_archive(actor=_SYSTEM, tree=tree)
    raise MountNotFound(f"The job {job.name} reads no tree called '{kind}/{name}'.")


def store_output(*, job: Job, stream: Readable) -> StoredOutput:
    """Store the archive of what a job has left as its output. Repeated, the last one counts.

    Raises ArchiveUnreadable, and what `store_tree` raises.
    """
    project = Project.objects.get(pk=job.project_id)
    tree, left_out = tree_archives.store_archive(
        actor=_SYSTEM, project=project, holder=holder_of(job.pk), stream=stream
    )
    stored = StoredOutput("", 0, 0) if tree is None else StoredOutput(tree.root, tree.files, tree.size_bytes)
    Job.objects.filter(pk=job.pk, token=job.token).update(
        output_state=OutputState.STORED,
        output_root=stored.root,
        output_files=stored.files,
        output_bytes=stored.size_bytes,
        output_error=str(left_out),
    )
    return stored
