"""Reads about artifacts: the files that experiments left, and their bytes.

They are the stored outputs of jobs. What the first release stored is read from its folder until it is moved.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet, Sum

from accounts.permissions import Actor, require
from compute.selectors import jobs as job_selectors
from compute.selectors import outputs
from experiments import permissions
from experiments.adapters import artifact_folder
from experiments.errors import ArtifactNotFound
from experiments.models import Artifact, Experiment

MOST_LISTED = 10_000
_SYSTEM = Actor.system("experiments")


@dataclass(frozen=True)
class ArtifactFile:
    """A file that an experiment left. `content_hash` is the BLAKE3 of its bytes."""

    experiment_id: str
    path: str
    size_bytes: int
    content_hash: str


@dataclass(frozen=True)
class Left:
    """How much one experiment left."""

    source_id: str
    files: int
    size_bytes: int


def list_artifacts(*, actor: Actor, experiment: Experiment, limit: int = MOST_LISTED) -> Sequence[ArtifactFile]:
    """Return the first files that an experiment left, by path."""
    return list_artifacts_of(actor=actor, experiments=[experiment], limit=limit)


def count_artifacts(*, actor: Actor, experiment: Experiment) -> int:
    """Return how many files an experiment left."""
    require(actor, permissions.VIEW_EXPERIMENTS, experiment.project_id)
    if experiment.job is not None and experiment.job.output_root:
        return experiment.job.output_files
    return Artifact.objects.filter(experiment=experiment).count()


def list_artifacts_of(
    *, actor: Actor, experiments: Sequence[Experiment], limit: int = MOST_LISTED
) -> Sequence[ArtifactFile]:
    """Return the first files that each of several experiments left, by path."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    jobs = job_selectors.list_by_id([row.job_id for row in experiments if row.job_id is not None])
    stored = outputs.list_first_files(actor=actor, jobs=list(jobs.values()), limit=limit)
    files = [
        ArtifactFile(row.pk, file.path, file.size_bytes, file.content_hash)
        for row in experiments
        for file in stored.get(row.job_id or "", ())
    ]
    old = Artifact.objects.filter(experiment__in=[row.pk for row in experiments]).order_by("path", "pk")
    files += [ArtifactFile(row.experiment_id, row.path, row.size_bytes, row.content_hash) for row in old[:limit]]
    return sorted(files, key=lambda file: (file.path, file.experiment_id))


def open_artifact(*, actor: Actor, experiment: Experiment, path: str) -> tuple[ArtifactFile, Iterator[bytes]]:
    """Return a file that an experiment left, and its bytes. Raises ArtifactNotFound."""
    require(actor, permissions.VIEW_EXPERIMENTS, experiment.project_id)
    stored = outputs.open_file(actor=actor, job=experiment.job, path=path) if experiment.job is not None else None
    if stored is not None:
        file, pieces = stored
        return ArtifactFile(experiment.pk, path, file.size_bytes, file.content_hash), pieces
    row = Artifact.objects.filter(experiment=experiment, path=path).first()
    if row is None:
        raise ArtifactNotFound(f"The experiment has no file '{path}'.")
    try:
        pieces = artifact_folder.read(row.content_hash)
    except FileNotFoundError as error:
        raise ArtifactNotFound(f"The bytes of '{path}' are gone from the artifact folder.") from error
    return ArtifactFile(experiment.pk, path, row.size_bytes, row.content_hash), pieces


def sum_artifacts(*, actor: Actor, project_id: str, run_id: str, step_keys: Collection[str]) -> Sequence[Left]:
    """Return how much each experiment of some steps of a run left; none for those that left nothing."""
    require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    rows = Experiment.objects.filter(project=project_id, run_id=run_id, step_key__in=step_keys)
    sources = dict(rows.filter(job__isnull=False).values_list("job_id", "source_id"))
    sizes = outputs.sum_outputs(actor=actor, job_ids=list(sources))
    stored = [Left(sources[size.job_id] or "", size.files, size.size_bytes) for size in sizes]
    old = Artifact.objects.filter(experiment__in=rows).order_by().values_list("experiment__source_id")
    sums = old.annotate(Count("pk"), Sum("size_bytes"))
    return [*stored, *(Left(source_id or "", files, size_bytes) for source_id, files, size_bytes in sums)]


def hashes_of(job_id: str) -> Mapping[str, str]:
    """Return the content hash of every file that a job left, by path. For the platform itself."""
    if hashes := outputs.list_hashes(job_id):
        return hashes
    return dict(Artifact.objects.filter(experiment__job=job_id).values_list("path", "content_hash"))


def read_output(job_id: str, path: str) -> Iterator[bytes]:
    """Return the bytes of a file that a job left. For the platform itself. Raises ArtifactNotFound."""
    experiment = Experiment.objects.get(job=job_id)
    return open_artifact(actor=_SYSTEM, experiment=experiment, path=path)[1]


def is_storing(run_id: str) -> bool:
    """Whether a run waits for outputs that are still to be stored. For the platform itself."""
    return _awaited().filter(run_id=run_id).exists()


def find_storing(run_ids: Collection[str]) -> set[str]:
    """Return those of some runs that wait for outputs which are still to be stored. For the platform itself."""
    return set(_awaited().filter(run_id__in=run_ids).values_list("run_id", flat=True))


def _awaited() -> QuerySet[Experiment]:
    """Return the experiments for whose outputs a run waits: those that could not be stored for long are late."""
    return Experiment.objects.filter(artifacts_wanted=True, artifacts_error="")
