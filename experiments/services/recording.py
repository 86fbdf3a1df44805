"""Experiments that stand alone: a program that runs elsewhere creates one, records measurements, and finishes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock, units
from core.errors import InvalidInput
from experiments import permissions
from experiments.engine import recorded
from experiments.engine.columns import MAX_KEY, Kind
from experiments.engine.recorded import Record, RecordKind
from experiments.engine.states import ExperimentState
from experiments.errors import ExperimentHasEnded, NotStandalone
from experiments.models import Experiment, MetricLast
from experiments.services import record_writing

MAX_TITLE = 300
# JSON and the pages' scripts hold whole numbers exactly below this.
_WHOLE_BELOW = 2**53


@dataclass(frozen=True)
class Point:
    """One measurement. Without a step it follows the last one; without a moment it was made now."""

    key: str
    value: float
    step: int | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Values:
    """What is recorded together."""

    parameters: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, object] = field(default_factory=dict)
    metrics: Sequence[Point] = ()


@transaction.atomic
def create_experiment(*, actor: Actor, project: Project, title: str, values: Values) -> Experiment:
    """Create an experiment that belongs to no job, and runs from now on. Raises InvalidInput."""
    require(actor, permissions.RECORD, project.pk)
    title = " ".join(title.replace("\0", "").split())
    if not 0 < len(title) <= MAX_TITLE:
        raise InvalidInput(f"An experiment has a title of at most {MAX_TITLE} characters.")
    row = Experiment.objects.create(
        project=project,
        title=title,
        created_by=actor.name[:200],
        state=ExperimentState.RUNNING,
        started_at=clock.now(),
        is_recorded=True,
    )
    _record(row, values)
    audit.record(actor, "experiments.create", row)
    return row


@transaction.atomic
def record_values(*, actor: Actor, experiment: Experiment, values: Values) -> Experiment:
    """Add parameters, tags and measurements; a key that is there gets its new value.

    Raises NotStandalone, ExperimentHasEnded and InvalidInput, and then records nothing.
    """
    require(actor, permissions.RECORD, experiment.project_id)
    row = _lock(experiment)
    _record(row, values)
    audit.record(actor, "experiments.record", row, metrics=len(values.metrics))
    return row


@transaction.atomic
def finish_experiment(*, actor: Actor, experiment: Experiment, state: str, reason: str = "") -> Experiment:
    """End an experiment as succeeded, failed or cancelled. Raises NotStandalone and ExperimentHasEnded."""
    require(actor, permissions.RECORD, experiment.project_id)
    row = _lock(experiment)
    row.state, row.reason, row.finished_at = ExperimentState(state), reason, clock.now()
    row.save(update_fields=["state", "reason", "finished_at"])
    audit.record(actor, "experiments.finish", row, state=state)
    return row


def _lock(experiment: Experiment) -> Experiment:
    """Return the row, held until the transaction ends."""
    rows = Experiment.objects.select_for_update(of=("self",)).select_related("project")
    row = rows.get(pk=experiment.pk)
    if row.source_id is not None:
        raise NotStandalone(f"'{row.title}' records a job; only its log says what it measured.")
    if row.finished_at is not None:
        raise ExperimentHasEnded(f"'{row.title}' was finished as {row.state}.")
    return row


def _record(row: Experiment, values: Values) -> None:
    for kind, name, given in ((Kind.PARAM, "logged", values.parameters), (Kind.TAG, "tags", values.tags)):
        _check_keys(given)
        storable = {key: record_writing.storable(value) for key, value in given.items()}
        merged, excess = recorded.merge(getattr(row, name), storable)
        if excess:
            most = f"{recorded.MAX_VALUES:,} parameters of together {units.format_bytes(recorded.MAX_BYTES)}"
            raise InvalidInput(f"An experiment holds at most {most}, and as many tags; '{excess[0]}' does not fit.")
        setattr(row, name, merged)
        record_writing.write_facts([(row, kind, given)])
    row.save(update_fields=["logged", "tags"])
    _check_metrics(row, values.metrics)
    points = [Record(RecordKind.METRIC, point.key, point.value, point.step, point.at) for point in values.metrics]
    record_writing.write_points([(row, points)], clock.now())


def _check_metrics(row: Experiment, points: Sequence[Point]) -> None:
    _check_keys({point.key: None for point in points})
    if any(point.step is not None and abs(point.step) >= _WHOLE_BELOW for point in points):
        raise InvalidInput(f"A step of a metric lies between -{_WHOLE_BELOW - 1:,} and {_WHOLE_BELOW - 1:,}.")
    names = set(MetricLast.objects.filter(experiment=row).values_list("key", flat=True))
    if recorded.find_excess(names, (point.key for point in points)):
        raise InvalidInput(f"An experiment holds at most {recorded.MAX_VALUES:,} metrics.")


def _check_keys(values: Mapping[str, object]) -> None:
    if any(not 0 < len(key) <= MAX_KEY for key in values):
        raise InvalidInput(f"Parameters, tags and metrics have names of at most {MAX_KEY} characters.")
