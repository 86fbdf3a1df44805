"""Reading what jobs say about themselves in their logs, from where it was read last, into their experiments.

Logs are read outside of any transaction; what they said is written in one, and only if nobody else read the same piece
meanwhile (the offset is compared and set). So pages are live, and nothing is counted twice. Lines that cannot be read
are counted on the experiment; a log that cannot be read at all holds up neither other logs nor its run for ever.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from accounts.actor import Actor
from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from core import clock, isolation
from core.models import Failure
from flows.engine import log_tags, stretches
from flows.engine.columns import Kind
from flows.engine.log_tags import Problem, Problems, Record, RecordKind
from flows.engine.stretches import Levels
from flows.models import Attempt, Experiment, MetricLast, MetricPoint, MetricStretch
from flows.selectors import failures
from flows.services import facts

log = structlog.get_logger(__name__)

_SYSTEM = Actor.system("flow runs")
_ENDED_JOBS = ("succeeded", "failed", "lost", "cancelled")
_BATCH = 500
_READ_FIELDS = (
    "experiment__project_id",
    "experiment__log_offset",
    "experiment__log_problems",
    "job__name",
    "job__evictions",
    "job__project_id",
    "job__resource_id",
    "job__state",
    "job__finished_at",
    "job__log_bytes",
    "job__log_stored_at",
)
# A log that cannot be read for so long after its job ended does not hold the run up any more.
_PATIENCE = timedelta(minutes=5)
# The same for one whose reading or writing fails: so many times, which take half a minute.
_MOST_TRIES = 5
# What is read of a log before it is written: a job may print faster than we read.
_PIECE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class _Reading:
    attempt: Attempt
    records: tuple[Record, ...]
    problems: Problems
    offset: int
    is_done: bool
    has_more: bool = False

    @property
    def experiment(self) -> Experiment:
        return self.attempt.experiment

    @property
    def is_silent(self) -> bool:
        return not self.records and not self.problems.count


def harvest_ended(run_id: str) -> None:
    """Read the logs of a run's jobs that have ended to their end."""
    ended = Attempt.objects.filter(run_id=run_id, is_live=True, job__state__in=_ENDED_JOBS)
    while _harvest(ended.filter(experiment__harvested_at__isnull=True)):
        pass


def harvest_running() -> None:
    """Read on in the logs of all jobs that run, so that pages are live."""
    _harvest(Attempt.objects.filter(is_live=True, state="running", job__state__in=("running", "leaving", "stopping")))


def _harvest(attempts: Any) -> bool:
    """Read a piece of each log, and write what it said; return whether there is more to read."""
    rows = (
        attempts.select_related("experiment", "job")
        .prefetch_related("job__resource")
        .only(*_READ_FIELDS)
        .order_by("run", "pk")
    )
    found = isolation.for_each(failures.READ_LOG, rows, _read, key=_experiment_of, on_failure=_give_up)
    readings = [reading for reading in found if reading is not None]
    return any(
        isolation.in_batch(
            failures.RECORD_LOG,
            readings,
            lambda batch: _write(batch, clock.now()),
            key=lambda reading: _experiment_of(reading.attempt),
            on_failure=lambda reading, failure: _give_up(reading.attempt, failure),
        )
    )


def _experiment_of(attempt: Attempt) -> str:
    return str(attempt.experiment.pk)


def _give_up(attempt: Attempt, failure: Failure) -> None:
    """Let a run go on whose job has ended and whose log failed again and again."""
    job, experiment = attempt.job, attempt.experiment
    if job is None or not job.has_ended or failure.attempts < _MOST_TRIES:
        return
    problem = Problem(f"the log was given up after {failure.attempts} tries: {failure.error}, log id {failure.pk}", "")
    problems = experiment.problems + Problems(1, (problem,))
    Experiment.objects.filter(pk=experiment.pk, harvested_at__isnull=True).update(
        harvested_at=clock.now(), log_problems=asdict(problems)
    )
    isolation.forget(failure.kind, [experiment.pk])


def _read(attempt: Attempt) -> _Reading | None:
    """Read on in one log; None when there is nothing new."""
    experiment, job = attempt.experiment, attempt.job
    if job is None:
        return None
    offset, rest, is_done, has_more = experiment.log_offset, b"", False, True
    records: list[Record] = []
    problems = Problems()
    try:
        while has_more and offset - experiment.log_offset < _PIECE_BYTES:
            chunk = job_selectors.read_log(actor=_SYSTEM, job=job, offset=offset + len(rest))
            is_done = chunk.is_complete
            found = log_tags.harvest(rest + chunk.data, is_complete=is_done)
            rest = (rest + chunk.data)[found.consumed :]
            records.extend(found.records)
            problems += found.problems
            offset += found.consumed
            has_more = bool(chunk.data) and not is_done
    except ResourceUnreachable as error:
        has_waited = job.finished_at is not None and clock.now() - job.finished_at > _PATIENCE
        log.warning("harvest.unreachable", job=job.name, error=error.message)
        is_done, has_more = has_waited, False
    if offset == experiment.log_offset and not is_done:
        return None
    return _Reading(attempt, tuple(records), problems, offset, is_done, has_more)


@transaction.atomic
def _write(readings: Sequence[_Reading], now: datetime) -> bool:
    """Write what pieces of logs said; return whether any of the logs has more."""
    silent = [reading.experiment.pk for reading in readings if reading.is_silent and reading.is_done]
    for start in range(0, len(silent), _BATCH):
        Experiment.objects.filter(pk__in=silent[start : start + _BATCH]).update(harvested_at=now)
    spoken = [reading for reading in readings if not (reading.is_silent and reading.is_done)]
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
    return any(reading.has_more for reading in won)


def _records_of(experiment_ids: Sequence[str]) -> Mapping[str, Experiment]:
    """Return what experiments recorded so far, held until the transaction ends: people add tags meanwhile."""
    found: dict[str, Experiment] = {}
    for start in range(0, len(experiment_ids), _BATCH):
        rows = Experiment.objects.select_for_update().only("tags", "logged", "log_problems").order_by("pk")
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
    if reading.problems.count:
        changes["log_problems"] = asdict(records[experiment.pk].problems + reading.problems)
    unread = Experiment.objects.filter(pk=experiment.pk, log_offset=experiment.log_offset, harvested_at__isnull=True)
    return bool(unread.update(**changes))


def _says(reading: _Reading) -> bool:
    """Whether it changes what stands in the experiment's row."""
    return bool(reading.problems.count) or any(
        record.kind in {RecordKind.TAG, RecordKind.PARAMETER} for record in reading.records
    )


def _said(reading: _Reading, kind: RecordKind) -> dict[str, object]:
    return {record.key: _storable(record.value) for record in _of_kind(reading, kind)}


def _write_points(measured: Iterable[tuple[Experiment, Sequence[Record]]], now: datetime) -> None:
    measured = [(experiment, records) for experiment, records in measured if records]
    before = _last_of([experiment.pk for experiment, _ in measured])
    points: list[MetricPoint] = []
    complete: list[MetricStretch] = []
    lasts: dict[tuple[str, str], MetricLast] = {}
    levels: dict[tuple[str, str], Levels | None] = {}
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
            place = last.points if last else 0
            lasts[name] = MetricLast(
                experiment=experiment, key=record.key, step=step, value=point.value, at=point.at, points=place + 1
            )
            if name not in levels:
                levels[name] = _levels_of(last)
            if (thinned := levels[name]) is not None:
                added = thinned.add(stretches.Point(place, step, value, round(point.at.timestamp() * 1_000_000)))
                complete += [
                    MetricStretch(experiment=experiment, key=record.key, level=level, data=stretch.pack())
                    for level, stretch in added
                ]
    for name, thinned in levels.items():
        lasts[name].open_stretches = b"" if thinned is None else thinned.pack()
    MetricStretch.objects.bulk_create(complete, batch_size=_BATCH)
    MetricPoint.objects.bulk_create(points, batch_size=_BATCH)
    MetricLast.objects.bulk_create(
        lasts.values(),
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["experiment", "key"],
        update_fields=["step", "value", "at", "points", "open_stretches"],
    )
    facts.write_keys(
        (last.experiment.project_id, Kind.METRIC, last.key) for name, last in lasts.items() if name not in before
    )


def _levels_of(last: MetricLast | None) -> Levels | None:
    """Return where the thinning of a curve goes on; None for one that was begun without it."""
    if last is None:
        return Levels()
    return Levels(bytes(last.open_stretches)) if last.open_stretches else None


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
