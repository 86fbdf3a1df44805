"""Creating the experiments of sources, and following the sources' states, inside the transaction that changes those."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from django.db import models
from django.db.models import Case, F, QuerySet, Value, When

from accounts.permissions import Actor, require
from core import orm
from core.prepared import insert, prepared
from experiments import permissions
from experiments.engine.states import ExperimentState
from experiments.models import Experiment
from experiments.services import record_writing


@dataclass(frozen=True)
class Labels:
    """What an experiment is called in the app that created it. Experiments only show them and filter by them."""

    run_id: str = ""
    flow: str = ""
    run_number: int | None = None
    step_key: str = ""
    step_label: str = ""
    step_index: int | None = None
    attempt_number: int | None = None


@dataclass(frozen=True)
class NewExperiment:
    """What an experiment begins with. `source_id` names what it records within its kind; `job_id` None: no job yet."""

    project_id: str
    source_id: str
    title: str
    state: str
    created_by: str
    job_id: str | None = None
    job_name: str = ""
    template: str = ""
    is_simulated: bool = False
    labels: Labels = field(default_factory=Labels)
    parameters: Mapping[str, object] = field(default_factory=dict)
    datasets: Sequence[Mapping[str, object]] = ()
    code: Mapping[str, object] = field(default_factory=dict)
    output_patterns: Sequence[str] = ()


def create_experiments(*, actor: Actor, kind: str, experiments: Sequence[NewExperiment]) -> None:
    """Create the experiments of new sources of one kind."""
    rows = _new_rows(actor, kind, experiments)
    insert(rows)
    record_writing.write_given_facts(rows)


def _new_rows(actor: Actor, kind: str, experiments: Sequence[NewExperiment]) -> list[Experiment]:
    for project_id in {each.project_id for each in experiments}:
        require(actor, permissions.RECORD, project_id)
    return [
        Experiment(
            project_id=each.project_id,
            job_id=each.job_id,
            job_name=each.job_name,
            source_kind=kind,
            source_id=each.source_id,
            title=each.title,
            state=each.state,
            template=each.template,
            is_simulated=each.is_simulated,
            created_by=each.created_by,
            parameters=dict(each.parameters),
            datasets=[dict(item) for item in each.datasets],
            code=dict(each.code),
            output_patterns=list(each.output_patterns),
            **vars(each.labels),
        )
        for each in experiments
    ]


Field = Literal["state", "reason", "started_at", "finished_at", "job_id", "artifacts_wanted", "harvested_at"]


def update_experiments(*, actor: Actor, kind: str, changes: Mapping[str, Mapping[Field, object]]) -> None:
    """Write what changed of some sources of one kind, by source id: one statement for many of them.

    `artifacts_wanted` has the outputs stored, except those of simulated jobs, which left none.
    """
    ids = sorted(changes)
    for batch in orm.in_batches(ids):
        values: dict[str, dict[str, object]] = {}
        for source_id in batch:
            for name, value in changes[source_id].items():
                values.setdefault(name, {})[source_id] = value
        columns = {name: _by_source(name, each, batch) for name, each in values.items()}
        _of_sources.update(columns, kind, batch, None if actor.sees_everything else _writable_projects(actor))


def replace_experiment(
    *, actor: Actor, kind: str, row: Any, changes: Mapping[Field, object], new: Sequence[NewExperiment]
) -> None:
    """Do what `update_experiments` does for the source of one row, and `create_experiments`, in one statement."""
    require(actor, permissions.RECORD, row.project_id)
    for name, value in changes.items():
        setattr(row, name, value)
    row.artifacts_wanted = row.artifacts_wanted and not row.is_simulated
    rows = _new_rows(actor, kind, new)
    insert([row, *rows], update=sorted(changes))
    record_writing.write_given_facts(rows)


def cancel_experiments(*, actor: Actor, run_id: str, reason: str, at: datetime) -> None:
    """End all experiments of a run that have not ended. Outputs of those that have are stored all the same."""
    live = _writable(actor).filter(run_id=run_id, is_live=True)
    live.update(state=ExperimentState.CANCELLED, reason=reason, finished_at=at)


@prepared
def _of_sources(kind: str, source_ids: Collection[str], project_ids: Collection[str] | None) -> QuerySet[Experiment]:
    """Return the experiments of sources, in some projects only where these are named."""
    is_wanted = Case(When(is_simulated=False, then=Value(value=True)), default=F("artifacts_wanted"))
    rows = Experiment.objects.filter(source_kind=kind, source_id__in=source_ids).annotate(is_wanted=is_wanted)
    return rows if project_ids is None else rows.filter(project_id__in=project_ids)


def _writable(actor: Actor) -> QuerySet[Experiment]:
    rows = Experiment.objects.all()
    return rows if actor.sees_everything else rows.filter(project_id__in=_writable_projects(actor))


def _writable_projects(actor: Actor) -> list[str]:
    return [key for key, level in actor.levels.items() if level >= permissions.RECORD.level]


def _by_source(name: str, values: Mapping[str, object], batch: Sequence[str]) -> object:
    """Return what to write to a field: one value where all sources get the same, else the value of each."""
    conditions = {"is_simulated": False} if name == "artifacts_wanted" else {}
    first = next(iter(values.values()))
    if len(values) == len(batch) and all(value == first for value in values.values()):
        return F("is_wanted") if conditions and first else first
    column = next(field for field in Experiment._meta.concrete_fields if field.attname == name)
    field = column.target_field if isinstance(column, models.ForeignKey) else column
    cases = [
        When(source_id=source_id, **conditions, then=Value(value, output_field=field))
        for source_id, value in values.items()
    ]
    return Case(*cases, default=F(name), output_field=field)
