"""Reading what jobs say about themselves in their logs, from where it was read last, into their experiments.

Logs are read outside of any transaction; what they said is written in one, and only if nobody else read the same piece
meanwhile (the offset is compared and set). So pages are live, and nothing is counted twice.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from accounts.actor import Actor
from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from core import clock
from flows.engine import log_tags
from flows.engine.columns import Kind
from flows.engine.log_tags import Record, RecordKind
from flows.models import Attempt, Experiment, MetricLast, MetricPoint
from flows.models.run import LIVE_ATTEMPTS
from flows.services import facts

log = structlog.get_logger(__name__)

_SYSTEM = Actor.system("flow runs")
_ENDED_JOBS = ("succeeded", "failed", "lost", "cancelled")
_BATCH = 500
_READ_FIELDS = (
    "experiment__project_id",
    "experiment__log_offset",
    "job__name",
    "job__evictions",
    "job__project_id",
    "job__resource_id",
    "job__state",
    "job__finished_at",
)
# A log that cannot be read for so long after its job ended does not hold the run up any more.
_PATIENCE = timedelta(minutes=5)


@dataclass(frozen=True)
class _Reading:
    experiment: Experiment
    records: tuple[Record, ...]
    offset: int
    is_done: bool


def harvest_ended(run_id: str) -> None:
    """Read the logs of a run's jobs that have ended to their end."""
    ended = Attempt.objects.filter(run_id=run_id, state__in=LIVE_ATTEMPTS, job__state__in=_ENDED_JOBS)
    _harvest(ended.filter(experiment__harvested_at__isnull=True))


def harvest_running() -> None:
    """Read on in the logs of all jobs that run, so that pages are live."""
    _harvest(Attempt.objects.filter(state="running", job__state__in=("running", "leaving", "stopping")))


def _harvest(attempts: Any) -> None:
    rows = (
        attempts.select_related("experiment", "job")
        .prefetch_related("job__resource")
        .only(*_READ_FIELDS)
        .order_by("pk")
    )
    readings = [reading for row in rows if (reading := _read(row)) is not None]
    if readings:
        _write(readings, clock.now())


def _read(attempt: Attempt) -> _Reading | None:
    """Read on in one log; None when there is nothing new."""
    experiment, job = attempt.experiment, attempt.job
    if job is None:
        return None
    offset, rest, is_done = experiment.log_offset, b"", False
    records: list[Record] = []
    try:
        while True:
            chunk = job_selectors.read_log(actor=_SYSTEM, job=job, offset=offset + len(rest))
            is_done = chunk.is_complete
            found = log_tags.harvest(rest + chunk.data, is_complete=is_done)
            rest = (rest + chunk.data)[found.consumed :]
            records.extend(found.records)
            offset += found.consumed
            if is_done or not chunk.data:
                break
    except ResourceUnreachable as error:
        has_waited = job.finished_at is not None and clock.now() - job.finished_at > _PATIENCE
        log.warning("harvest.unreachable", job=job.name, error=error.message)
        is_done = has_waited
    if offset == experiment.log_offset and not is_done:
        return None
    return _Reading(experiment, tuple(records), offset, is_done)


@transaction.atomic
def _write(readings: Sequence[_Reading], now: datetime) -> None:
    silent = [reading.experiment.pk for reading in readings if not reading.records and reading.is_done]
    for start in range(0, len(silent), _BATCH):
        Experiment.objects.filter(pk__in=silent[start : start + _BATCH]).update(harvested_at=now)
    spoken = [reading for reading in readings if reading.records or not reading.is_done]
    records = _records_of([reading.experiment.pk for reading in spoken if _says(reading)])
    won = [reading for reading in spoken if _claim(reading, records, now)]
    facts.write(
        (reading.experiment, kind, said)
        for reading in won
        for kind, said in (
            (Kind.PARAM, _said(reading, RecordKind.PARAMETER)),
            (Kind.TAG, _said(reading, RecordKind.TAG)),
        )
    )
    _write_points([(reading.experiment, _of_kind(reading, RecordKind.METRIC)) for reading in won], now)


def _records_of(experiment_ids: Sequence[str]) -> Mapping[str, Experiment]:
    """Return what experiments recorded so far, held until the transaction ends: people add tags meanwhile."""
    found: dict[str, Experiment] = {}
    for start in range(0, len(experiment_ids), _BATCH):
        rows = Experiment.objects.select_for_update().only("tags", "logged").order_by("pk")
        found |= {row.pk: row for row in rows.filter(pk__in=experiment_ids[start : start + _BATCH])}
    return found


def _claim(reading: _Reading, records: Mapping[str, Experiment], now: datetime) -> bool:
    """Move the offset on, with the tags and parameters of the piece; False when somebody else read it before."""
    experiment = reading.experiment
    changes: dict[str, Any] = {"log_offset": reading.offset}
    if reading.is_done:
        changes["harvested_at"] = now
    if reading.records:
        changes["is_recorded"] = True
    for field, kind in (("tags", RecordKind.TAG), ("logged", RecordKind.PARAMETER)):
        if said := _said(reading, kind):
            changes[field] = {**getattr(records[experiment.pk], field), **said}
    unread = Experiment.objects.filter(pk=experiment.pk, log_offset=experiment.log_offset, harvested_at__isnull=True)
    return bool(unread.update(**changes))


def _says(reading: _Reading) -> bool:
    return any(record.kind in {RecordKind.TAG, RecordKind.PARAMETER} for record in reading.records)


def _said(reading: _Reading, kind: RecordKind) -> dict[str, object]:
    return {record.key: _storable(record.value) for record in _of_kind(reading, kind)}


def _write_points(measured: Iterable[tuple[Experiment, Sequence[Record]]], now: datetime) -> None:
    measured = [(experiment, records) for experiment, records in measured if records]
    before = _last_of([experiment.pk for experiment, _ in measured])
    points: list[MetricPoint] = []
    lasts: dict[tuple[str, str], MetricLast] = {}
    for experiment, records in measured:
        for record in records:
            name = (experiment.pk, record.key)
            last = lasts.get(name) or before.get(name)
            step = record.step if record.step is not None else (last.step + 1 if last else 0)
            value = float(record.value)
            point = MetricPoint(
                experiment=experiment,
                key=record.key,
                step=step,
                value=None if math.isnan(value) else value,
                at=record.at or now,
            )
            points.append(point)
            lasts[name] = MetricLast(
                experiment=experiment,
                key=record.key,
                step=step,
                value=point.value,
                at=point.at,
                points=(last.points if last else 0) + 1,
            )
    MetricPoint.objects.bulk_create(points, batch_size=_BATCH)
    MetricLast.objects.bulk_create(
        lasts.values(),
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["experiment", "key"],
        update_fields=["step", "value", "at", "points"],
    )
    facts.write_keys(
        (last.experiment.project_id, Kind.METRIC, last.key) for name, last in lasts.items() if name not in before
    )


def _last_of(experiment_ids: Sequence[str]) -> Mapping[tuple[str, str], MetricLast]:
    found: dict[tuple[str, str], MetricLast] = {}
    for start in range(0, len(experiment_ids), _BATCH):
        for row in MetricLast.objects.filter(Q(experiment__in=experiment_ids[start : start + _BATCH])):
            found[row.experiment_id, row.key] = row
    return found


def _of_kind(reading: _Reading, kind: RecordKind) -> list[Record]:
    return [record for record in reading.records if record.kind is kind]


def _storable(value: object) -> object:
    """JSON columns hold no NaN and no infinities."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
