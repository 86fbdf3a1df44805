"""Reads about experiments: lists with last values, one in full, several side by side."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import QuerySet

from accounts.permissions import Actor, require
from accounts.selectors import get_project
from compute.selectors import job_rows, usage
from core.errors import InvalidInput
from core.times import Times
from experiments import permissions
from experiments.errors import ExperimentNotFound
from experiments.models import Experiment
from experiments.selectors import recorded

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

    With `is_recorded` only those that recorded something, instead of every attempt and every job.
    """
    rows = with_relations(Experiment.objects.filter(deleted_at=None))
    if not actor.sees_everything:
        rows = rows.filter(project_id__in=actor.project_ids)
    if project is not None:
        rows = rows.filter(project=get_project(actor=actor, name=project))
    if run is not None:
        rows = rows.filter(run_id=run)
    if is_recorded:
        rows = rows.filter(is_recorded=True)
    return rows.order_by("-pk")


def with_relations(rows: QuerySet[Experiment]) -> QuerySet[Experiment]:
    """Fetch along what every list shows beside an experiment's own row."""
    return rows.select_related("project")


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
    by_id = {row.pk: row for row in list_experiments(actor=actor).filter(pk__in=experiment_ids)}
    missing = [experiment_id for experiment_id in experiment_ids if experiment_id not in by_id]
    if missing:
        raise ExperimentNotFound(
            f"There is no experiment {', '.join(missing)}, or you are not a member of its project."
        )
    return [by_id[experiment_id] for experiment_id in experiment_ids]


def parameters_of(experiment: Experiment) -> dict[str, object]:
    """Return what the experiment was given, and what its code recorded as its own choice."""
    return {**experiment.parameters, **experiment.logged}


def metrics_of(experiments: Sequence[Experiment]) -> Mapping[str, dict[str, float | str]]:
    """Return the last values of all metrics by experiment, in one query."""
    return recorded.last_values([experiment.pk for experiment in experiments])


def times_of(experiments: Collection[Experiment]) -> Mapping[str, Times | None]:
    """Return by id how long experiments waited, ran and were suspended, with the runs before an eviction."""
    histories = job_rows.find_histories({row.job_id for row in experiments if row.job_id is not None})
    return {row.pk: job_rows.measure_job(row, histories.get(row.job_id or "")) for row in experiments}


def list_usage(*, actor: Actor, experiment: Experiment) -> Sequence[object]:
    """Return the CPU and memory that the experiment's job used over time."""
    require(actor, permissions.VIEW_EXPERIMENTS, experiment.project_id)
    return [] if experiment.job is None else usage.read_usage(actor=actor, job=experiment.job)


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
