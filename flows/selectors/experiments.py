"""Reads about experiments: lists with last values, one in full, several side by side, files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.permissions import require
from compute.selectors import jobs as job_selectors
from core.errors import InvalidInput
from flows import permissions
from flows.adapters.artifact_folder import artifact_store
from flows.errors import ArtifactNotFound, ExperimentNotFound
from flows.models import Artifact, Experiment
from flows.selectors import measurements

MAX_COMPARED = 50


@dataclass(frozen=True)
class Comparison:
    """Experiments side by side: for each parameter and metric that one of them has, the value of each (or None)."""

    experiments: Sequence[Experiment]
    parameters: Mapping[str, Sequence[object]]
    metrics: Mapping[str, Sequence[object]]
    tags: Mapping[str, Sequence[object]]


def list_experiments(
    *, actor: Actor, project: str | None = None, run: str | None = None, is_recorded: bool = False
) -> QuerySet[Experiment]:
    """Return the experiments that the actor may see, newest first; of one project or one run where asked for.

    With `is_recorded` only those that recorded something, instead of every attempt of every step.
    """
    rows = with_relations(Experiment.objects.all())
    if not actor.sees_everything:
        rows = rows.filter(project_id__in=actor.project_ids)
    if project is not None:
        rows = rows.filter(project__name=project)
    if run is not None:
        rows = rows.filter(run=run)
    if is_recorded:
        rows = rows.filter(is_recorded=True)
    return rows.order_by("-pk")


def with_relations(rows: QuerySet[Experiment]) -> QuerySet[Experiment]:
    """Fetch along what every list shows of an experiment's run and job."""
    return rows.select_related("project", "run__flow", "step", "attempt__job__resource").defer("attempt__job__spec")


def get_experiment(*, actor: Actor, experiment_id: str) -> Experiment:
    """Return an experiment. Raises ExperimentNotFound, also to those who are not members of its project."""
    row = list_experiments(actor=actor).filter(pk=experiment_id).first()
    if row is None:
        raise ExperimentNotFound(f"There is no experiment '{experiment_id}', or you are not a member of its project.")
    return row


def get_many(*, actor: Actor, experiment_ids: Sequence[str]) -> list[Experiment]:
    """Return several experiments in the order given. Raises ExperimentNotFound and InvalidInput."""
    if not 0 < len(experiment_ids) <= MAX_COMPARED:
        raise InvalidInput(f"Between 1 and {MAX_COMPARED} experiments can be compared at once.")
    found = {row.pk: row for row in list_experiments(actor=actor).filter(pk__in=experiment_ids)}
    missing = [experiment_id for experiment_id in experiment_ids if experiment_id not in found]
    if missing:
        raise ExperimentNotFound(
            f"There is no experiment {', '.join(missing)}, or you are not a member of its project."
        )
    return [found[experiment_id] for experiment_id in experiment_ids]


def parameters_of(experiment: Experiment) -> dict[str, object]:
    """Return what the experiment was given, and what its code said it chose itself."""
    return {**experiment.parameters, **experiment.logged}


def metrics_of(experiments: Sequence[Experiment]) -> Mapping[str, dict[str, float | str]]:
    """Return the last values of all metrics by experiment, in one query."""
    return measurements.last_values([experiment.pk for experiment in experiments])


def list_artifacts(*, actor: Actor, experiment: Experiment) -> QuerySet[Artifact]:
    """Return the files that an experiment left, by path."""
    require(actor, permissions.VIEW_FLOWS, experiment.project_id)
    return Artifact.objects.filter(experiment=experiment).order_by("path")


def list_artifacts_of(*, actor: Actor, experiments: Sequence[Experiment]) -> QuerySet[Artifact]:
    """Return the files that several experiments left, by path."""
    for project_id in {experiment.project_id for experiment in experiments}:
        require(actor, permissions.VIEW_FLOWS, project_id)
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


def list_usage(*, actor: Actor, experiment: Experiment) -> Sequence[object]:
    """Return the CPU and memory that the experiment's job used over time."""
    require(actor, permissions.VIEW_FLOWS, experiment.project_id)
    job = experiment.attempt.job
    return [] if job is None else job_selectors.usage(actor=actor, job=job)


def compare(*, actor: Actor, experiment_ids: Sequence[str]) -> Comparison:
    """Put several experiments side by side, in the order given. Raises what `get_many` does."""
    rows = get_many(actor=actor, experiment_ids=experiment_ids)
    metrics = metrics_of(rows)
    return Comparison(
        experiments=rows,
        parameters=_side_by_side([parameters_of(row) for row in rows]),
        metrics=_side_by_side([metrics[row.pk] for row in rows]),
        tags=_side_by_side([row.tags for row in rows]),
    )


def url_of(experiment: Experiment) -> str:
    """Return the address of an experiment's page."""
    return f"{settings.NEARLINE.url}/experiments/{experiment.pk}/"


def _side_by_side(columns: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    keys = sorted({key for column in columns for key in column})
    return {key: [column.get(key) for column in columns] for key in keys}
