"""Reads about experiments: lists with last values, one in full, several side by side, curves, files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.permissions import require
from compute.selectors import jobs as job_selectors
from core.errors import InvalidInput
from flows import permissions
from flows.adapters.artifact_folder import artifact_store
from flows.errors import ArtifactNotFound, ExperimentNotFound
from flows.models import Artifact, Experiment, MetricPoint
from flows.selectors import measurements

MAX_COMPARED = 50
MAX_POINTS = 2000


@dataclass(frozen=True)
class Point:
    """One measurement. `value` is a text for NaN and the infinities."""

    step: int
    value: float | str
    at: datetime


@dataclass(frozen=True)
class Curve:
    """The points of one metric, thinned out where there are many: `total` counts all of them."""

    key: str
    points: Sequence[Point]
    total: int


@dataclass(frozen=True)
class Comparison:
    """Experiments side by side: for each parameter and metric that one of them has, the value of each (or None)."""

    experiments: Sequence[Experiment]
    parameters: Mapping[str, Sequence[object]]
    metrics: Mapping[str, Sequence[object]]
    tags: Mapping[str, Sequence[object]]


def list_experiments(*, actor: Actor, project: str | None = None, run: str | None = None) -> QuerySet[Experiment]:
    """Return the experiments that the actor may see, newest first; of one project or one run where asked for."""
    rows = with_relations(Experiment.objects.all())
    if not actor.sees_everything:
        rows = rows.filter(project_id__in=actor.project_ids)
    if project is not None:
        rows = rows.filter(project__name=project)
    if run is not None:
        rows = rows.filter(run=run)
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


def read_curve(*, actor: Actor, experiment: Experiment, key: str) -> Curve:
    """Return the points of a metric; of many, the lowest, the highest and the last of each stretch."""
    require(actor, permissions.VIEW_FLOWS, experiment.project_id)
    rows = list(
        MetricPoint.objects.filter(experiment=experiment, key=key).order_by("id").values_list("step", "value", "at")
    )
    kept = [Point(step, measurements.shown(value), at) for step, value, at in _thin_out(rows)]
    return Curve(key, kept, len(rows))


def compare(*, actor: Actor, experiment_ids: Sequence[str]) -> Comparison:
    """Put several experiments side by side, in the order given. Raises ExperimentNotFound and InvalidInput."""
    if not 0 < len(experiment_ids) <= MAX_COMPARED:
        raise InvalidInput(f"Between 1 and {MAX_COMPARED} experiments can be compared at once.")
    found = {row.pk: row for row in list_experiments(actor=actor).filter(pk__in=experiment_ids)}
    missing = [experiment_id for experiment_id in experiment_ids if experiment_id not in found]
    if missing:
        raise ExperimentNotFound(
            f"There is no experiment {', '.join(missing)}, or you are not a member of its project."
        )
    rows = [found[experiment_id] for experiment_id in experiment_ids]
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


Row = tuple[int, float | None, datetime]


def _thin_out(rows: list[Row]) -> list[Row]:
    if len(rows) <= MAX_POINTS:
        return rows
    stretches = MAX_POINTS // 3
    kept: list[Row] = []
    for number in range(stretches):
        start, end = number * len(rows) // stretches, (number + 1) * len(rows) // stretches
        places = range(start, end)
        measured = [place for place in places if rows[place][1] is not None] or list(places)
        lowest = min(measured, key=lambda place: rows[place][1] or 0.0)
        highest = max(measured, key=lambda place: rows[place][1] or 0.0)
        kept.extend(rows[place] for place in sorted({lowest, highest, end - 1}))
    return kept
