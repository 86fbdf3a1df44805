"""Reads about artifacts: the files that experiments left, and their bytes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, QuerySet, Sum

from accounts.actor import Actor
from accounts.permissions import require
from experiments import permissions
from experiments.adapters.artifact_folder import artifact_store
from experiments.errors import ArtifactNotFound
from experiments.models import Artifact, Experiment


@dataclass(frozen=True)
class Left:
    """How much one experiment left."""

    source_id: str
    files: int
    size_bytes: int


def list_artifacts(*, actor: Actor, experiment: Experiment) -> QuerySet[Artifact]:
    """Return the files that an experiment left, by path."""
    require(actor, permissions.VIEW_EXPERIMENTS, experiment.project_id)
    return Artifact.objects.filter(experiment=experiment).order_by("path")


def list_artifacts_of(*, actor: Actor, experiments: Sequence[Experiment]) -> QuerySet[Artifact]:
    """Return the files that several experiments left, by path."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    return Artifact.objects.filter(experiment__in=[row.pk for row in experiments]).order_by("path", "pk")


def open_artifact(*, actor: Actor, experiment: Experiment, path: str) -> tuple[Artifact, Iterator[bytes]]:
    """Return a file that an experiment left, and its bytes. Raises ArtifactNotFound."""
    artifact = list_artifacts(actor=actor, experiment=experiment).filter(path=path).first()
    if artifact is None:
        raise ArtifactNotFound(f"The experiment has no file '{path}'.")
    try:
        return artifact, artifact_store().read(artifact.content_hash)
    except FileNotFoundError as error:
        raise ArtifactNotFound(f"The bytes of '{path}' are gone from the artifact store.") from error


def sum_artifacts(*, actor: Actor, project_id: str, run_id: str, step_keys: Collection[str]) -> Sequence[Left]:
    """Return how much each experiment of some steps of a run left, in one query; none for those that left nothing."""
    require(actor, permissions.VIEW_EXPERIMENTS, project_id)
    rows = Artifact.objects.filter(
        experiment__project=project_id, experiment__run_id=run_id, experiment__step_key__in=step_keys
    )
    sums = rows.order_by().values_list("experiment__source_id").annotate(Count("pk"), Sum("size_bytes"))
    return [Left(source_id or "", files, size_bytes) for source_id, files, size_bytes in sums]


def hashes_of(job_id: str) -> Mapping[str, str]:
    """Return the content hash of every file that a job left, by path. For the platform itself."""
    return dict(Artifact.objects.filter(experiment__job=job_id).values_list("path", "content_hash"))


def is_storing(run_id: str) -> bool:
    """Whether outputs of a run are still to be stored. For the platform itself."""
    return Experiment.objects.filter(run_id=run_id, artifacts_wanted=True).exists()
