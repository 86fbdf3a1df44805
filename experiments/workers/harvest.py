"""Reading what jobs say about themselves in their logs, from where it was read last, into their experiments.

Logs are read outside of any transaction; what they recorded is written in one, and only if no other worker read the
same piece meanwhile (the offset is compared and set). So pages are live, and nothing is counted twice. Lines that
cannot be read are counted on the experiment; a log that cannot be read at all blocks neither other logs nor its run,
and is read later.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import structlog
from django.db import transaction
from django.db.models import Count, QuerySet

from accounts.permissions import Actor
from compute.errors import ResourceUnreachable
from compute.selectors import jobs as job_selectors
from compute.selectors import log_polls
from compute.services import checkpoints
from core import clock, isolation, leases, orm
from core.models import Failure
from core.prepared import prepared
from experiments.engine import recorded
from experiments.engine.columns import Kind
from experiments.engine.recorded import Problem, Problems, Record, RecordKind
from experiments.engine.states import ExperimentState
from experiments.models import Experiment, MetricLast
from experiments.selectors import failures
from experiments.services import record_writing

if TYPE_CHECKING:
    from compute.models import Job

log = structlog.get_logger(__name__)

_SYSTEM = Actor.system("experiments")
_PURPOSE = "experiment"
_RUNNING_JOBS = ("running", "leaving", "suspending", "stopping")
# How long after its job ended a log that cannot be read still holds its run up.
_LONGEST_WAIT = timedelta(minutes=5)
# The same for one whose reading or writing fails: so many times, which take half a minute.
_MOST_TRIES = 5
# So often, ten minutes apart, for what was not read then.
_MOST_LATE_TRIES = 1000
# What is read of a log before it is written: a job may print faster than we read.
_PIECE_BYTES = 2**20
# Records that one transaction writes, of one log or of several: while SQLite writes, everybody else waits.
_MOST_RECORDS = 10_000


@dataclass(frozen=True)
class _Log:
    """An experiment, and the job whose log is read for it."""

    experiment: Experiment
    job: "Job"

    @property
    def key(self) -> str:
        return str(self.experiment.pk)


@dataclass(frozen=True)
class _Reading:
    log: _Log
    records: tuple[Record, ...]
    problems: Problems
    offset: int
    is_done: bool
    has_more: bool = False
    is_cut: bool = False
    is_late: bool = False

    @property
    def experiment(self) -> Experiment:
        return self.log.experiment

    @property
    def is_silent(self) -> bool:
        return not self.records and not self.problems.count

    @property
    def has_nothing(self) -> bool:
        """Whether it ends a log of which the experiment has recorded nothing at all."""
        return self.is_silent and self.is_done and not (self.experiment.is_recorded or self.experiment.tags)


@dataclass(frozen=True)
class ReadLogs:
    """The jobs whose logs are read to their end, by id; those in `silent` have recorded nothing.

    `experiments` are rows that were read for it, by source, as they were before.
    """

    done: Collection[str] = ()
    silent: Collection[str] = ()
    experiments: Mapping[str, Experiment] = field(default_factory=dict)


def read_ended(
    job_ids: Sequence[str],
    known: Mapping[str, "Job"] = MappingProxyType({}),
    *,
    marks_silent: bool = True,
    most_pieces: int = sys.maxsize,
) -> ReadLogs:
    """Read the logs of jobs that have ended to their end, or so many pieces of each.

    Rows in `known` are not read again. Without `marks_silent` the caller writes `harvested_at` of what is silent,
    together with what else it changes of it.
    """
    unread, pieces = _logs_of(job_ids, known), 0
    rows = {each.experiment.source_id or "": each.experiment for each in unread}
    done = set(job_ids) - {each.job.pk for each in unread}
    silent: set[str] = set()
    while unread:
        readings = _harvest(unread, marks_silent=marks_silent)
        done |= {reading.log.job.pk for reading in readings if reading.is_done}
        silent |= {reading.log.job.pk for reading in readings if reading.has_nothing}
        pieces += 1
        goes_on = pieces < most_pieces and any(reading.has_more for reading in readings)
        if goes_on:
            leases.keep()
        unread = _logs_of(job_ids, known) if goes_on else []
    if missing := set(job_ids) - done:  # some that failed may have been given up
        given_up = Experiment.objects.filter(job__in=missing, harvested_at__isnull=False)
        done.update(str(job_id) for job_id in given_up.values_list("job_id", flat=True))
    return ReadLogs(done, silent, rows)


def find_running() -> list[QuerySet[Experiment]]:
    """Return the experiments whose jobs run."""
    return [Experiment.objects.filter(is_live=True, state=ExperimentState.RUNNING)]


def read_running() -> None:
    """Read on in the logs of all jobs that run, so that pages are live."""
    (running,) = find_running()
    # Thousands may have ended whose run has yet to take note of it.
    running = running.filter(job__in=job_selectors.find_running().values("pk"))
    job_ids = log_polls.list_due(map(str, running.values_list("job_id", flat=True)), _PURPOSE)
    _harvest([each for each in _logs_of(job_ids) if each.job.state in _RUNNING_JOBS])


def _logs_of(job_ids: Sequence[str], known: Mapping[str, "Job"] = MappingProxyType({})) -> list[_Log]:
    """Return the logs of these jobs that were not read to their end, and that can be read on this host."""
    rows: list[Experiment] = []
    for batch in orm.in_batches(job_ids):
        rows += _unread(batch)
    missing = [row.job_id for row in rows if row.job_id is not None and row.job_id not in known]
    jobs = {**known, **(job_selectors.list_by_id(missing) if missing else {})}
    readable = {job_id: job for job_id, job in jobs.items() if job_selectors.is_readable(job)}
    return [_Log(row, readable[row.job_id]) for row in sorted(rows, key=lambda row: row.pk) if row.job_id in readable]


@prepared
def _unread(job_ids: Collection[str]) -> QuerySet[Experiment]:
    return Experiment.objects.filter(job__in=job_ids, harvested_at__isnull=True)


@prepared
def _with_ids(experiment_ids: Collection[str]) -> QuerySet[Experiment]:
    return Experiment.objects.filter(pk__in=experiment_ids)


def _harvest(logs: Sequence[_Log], *, marks_silent: bool = True) -> list[_Reading]:
    """Read a piece of each log, and write what it recorded; return what was written, or was nothing to write."""
    results = isolation.for_each(failures.READ_LOG, logs, _read, key=_key_of, on_failure=_give_up)
    readings = [reading for reading in results if reading is not None]
    unmarked = [reading for reading in readings if reading.has_nothing and not marks_silent]
    recording = [reading for reading in readings if marks_silent or not reading.has_nothing]
    written: list[_Reading] = []
    for part in _parts(recording):
        batches = isolation.in_batch(
            failures.RECORD_LOG,
            part,
            lambda batch: _write(batch, clock.now()),
            key=lambda reading: reading.log.key,
            on_failure=lambda reading, failure: _give_up(reading.log, failure),
        )
        written += [reading for batch in batches for reading in batch]
    _read_late([reading.log for reading in written if reading.is_cut])
    return [*unmarked, *written]


def _parts(readings: Sequence[_Reading]) -> Iterator[list[_Reading]]:
    """Yield the readings in the order given, with as many together as one transaction writes; at least one."""
    part: list[_Reading] = []
    records = 0
    for reading in readings:
        if part and records + len(reading.records) > _MOST_RECORDS:
            yield part
            part, records = [], 0
        part.append(reading)
        records += len(reading.records)
    if part:
        yield part


def _key_of(each: _Log) -> str:
    return each.key


def _give_up(each: _Log, failure: Failure) -> None:
    """Let a run go on whose job has ended and whose log failed again and again; what is left of it is read later."""
    if not each.job.has_ended or failure.attempts < _MOST_TRIES:
        return
    problem = Problem(f"the log was given up after {failure.attempts} tries: {failure.error}, log id {failure.pk}", "")
    problems = each.experiment.problems + Problems(1, (problem,))
    Experiment.objects.filter(pk=each.experiment.pk, harvested_at__isnull=True).update(
        harvested_at=clock.now(), log_problems=asdict(problems)
    )
    isolation.forget(failure.kind, [each.experiment.pk])
    _read_late([each])


def find_late() -> list[QuerySet[Failure]]:
    """Return what is noted of logs of which something is left to be read, though their runs have gone on."""
    return [Failure.objects.filter(kind=failures.READ_LATE_LOG)]


def read_late() -> None:
    """Read what is left of the logs that could not be read to their end when their jobs ended."""
    late = [failure.item_id for failure in isolation.find([failures.READ_LATE_LOG])]
    rows = {row.pk: row for row in Experiment.objects.filter(pk__in=late, job__isnull=False, deleted_at=None)}
    isolation.forget(failures.READ_LATE_LOG, sorted(set(late) - rows.keys()))
    jobs = job_selectors.list_by_id([str(row.job_id) for row in rows.values()])
    logs = [_Log(row, job) for _, row in sorted(rows.items()) if (job := jobs.get(str(row.job_id))) is not None]
    _read_late([each for each in logs if job_selectors.is_readable(each.job)])


def _read_late(logs: Sequence[_Log]) -> None:
    """Read logs to their end whose runs do not wait for it. What fails is tried again, for about a week."""

    def read(each: _Log) -> None:
        has_more = True
        while has_more:
            row = Experiment.objects.get(pk=each.experiment.pk)
            reading = _read(replace(each, experiment=row), is_late=True)
            if reading is None:
                raise ResourceUnreachable("What the job printed last is not there.")
            _write_records([reading], clock.now())
            has_more = not reading.is_done

    def forget(each: _Log, failure: Failure) -> None:
        if failure.attempts >= _MOST_LATE_TRIES:
            isolation.forget(failure.kind, [each.key])

    isolation.for_each(failures.READ_LATE_LOG, logs, read, key=_key_of, on_failure=forget)


def _read(each: _Log, *, is_late: bool = False) -> _Reading | None:
    """Read on in one log; None when there is nothing new, or when it is too early to ask.

    What `is_late` is asked for all the same; nobody waits for it. Raises ResourceUnreachable for that alone.
    """
    experiment, job = each.experiment, each.job
    if not (is_late or log_polls.is_due(job, _PURPOSE)):
        return None
    offset, rest, is_done, has_more = experiment.log_offset, b"", False, True
    records: list[Record] = []
    problems, is_cut = Problems(), False
    try:
        while has_more and offset - experiment.log_offset < _PIECE_BYTES:
            chunk = job_selectors.read_log(actor=_SYSTEM, job=job, offset=offset + len(rest))
            log_polls.note(job, _PURPOSE, chunk.size_bytes)
            is_done = chunk.is_complete
            part = recorded.harvest(rest + chunk.data, is_complete=is_done)
            rest = (rest + chunk.data)[part.consumed :]
            records.extend(part.records)
            problems += part.problems
            offset += part.consumed
            has_more = bool(chunk.data) and not is_done
    except ResourceUnreachable as error:
        if is_late:
            raise
        is_cut = job.finished_at is not None and clock.now() - job.finished_at > _LONGEST_WAIT
        log.warning("harvest.unreachable", job=job.name, error=error.message)
        log_polls.note(job, _PURPOSE, None)
        is_done, has_more = is_cut, False
        if is_cut:
            problem = Problem(f"the end of the log could not be read for 5 minutes: {error.message.rstrip('.')}", "")
            problems += Problems(1, (problem,))
    if offset == experiment.log_offset and not is_done:
        return None
    return _Reading(each, tuple(records), problems, offset, is_done, has_more, is_cut, is_late)


def _write(readings: Sequence[_Reading], now: datetime) -> list[_Reading]:
    """Write what pieces of logs recorded; return the pieces that no other worker wrote before."""
    silent = [reading for reading in readings if reading.is_silent and reading.is_done]
    for batch in orm.in_batches(silent):
        _with_ids.update({"harvested_at": now}, [reading.experiment.pk for reading in batch])
    recording = [reading for reading in readings if not (reading.is_silent and reading.is_done)]
    return [*silent, *(_write_records(recording, now) if recording else ())]


@transaction.atomic
def _write_records(recording: Sequence[_Reading], now: datetime) -> list[_Reading]:
    """Write what pieces of logs recorded in one transaction, as `_write` does."""
    recording = _fit_metrics(recording)
    records = _records_of([reading.experiment.pk for reading in recording if _changes_row(reading)])
    recording = [_fit_values(reading, records.get(reading.experiment.pk)) for reading in recording]
    won = [reading for reading in recording if _claim(reading, records, now)]
    record_writing.write_facts(
        (reading.experiment, kind, values)
        for reading in won
        for kind, values in (
            (Kind.PARAM, _values_of(reading, RecordKind.PARAMETER)),
            (Kind.TAG, _values_of(reading, RecordKind.TAG)),
        )
    )
    record_writing.write_points([(reading.experiment, _of_kind(reading, RecordKind.METRIC)) for reading in won], now)
    for reading in won:
        for saved in _of_kind(reading, RecordKind.CHECKPOINT)[-1:]:
            if saved.step is not None:
                checkpoints.record_saved(job_id=reading.log.job.pk, step=saved.step, at=saved.at)
    return won


def _fit_metrics(readings: Sequence[_Reading]) -> list[_Reading]:
    """Return the readings without the metrics that are more than an experiment records."""
    new = {each.experiment.pk: [record.key for record in _of_kind(each, RecordKind.METRIC)] for each in readings}
    lasts = MetricLast.objects.filter(experiment__in=[pk for pk, keys in new.items() if keys]).order_by()
    counts = dict(lasts.values_list("experiment").annotate(Count("pk")))
    fitting: list[_Reading] = []
    for reading in readings:
        pk = reading.experiment.pk
        excess: set[str] = set()
        if counts.get(pk, 0) + len(set(new[pk])) > recorded.MAX_VALUES:
            excess = recorded.find_excess(set(lasts.filter(experiment=pk).values_list("key", flat=True)), new[pk])
        fitting.append(_without(reading, RecordKind.METRIC, excess))
    return fitting


def _fit_values(reading: _Reading, row: Experiment | None) -> _Reading:
    """Return a reading without the parameters and tags that are more than an experiment records."""
    if row is None:
        return reading
    for before, kind in ((row.logged, RecordKind.PARAMETER), (row.tags, RecordKind.TAG)):
        _, excess = recorded.merge(before, _values_of(reading, kind))
        reading = _without(reading, kind, set(excess))
    return reading


def _without(reading: _Reading, kind: RecordKind, keys: set[str]) -> _Reading:
    """Return a reading without what it records under some keys, which become problems."""
    excess = [record.key for record in reading.records if record.kind is kind and record.key in keys]
    if not excess:
        return reading
    records = tuple(record for record in reading.records if record.kind is not kind or record.key not in keys)
    problems = tuple(
        Problem(f"the experiment records no more of this kind ({kind})", key) for key in dict.fromkeys(excess)
    )
    return replace(reading, records=records, problems=reading.problems + Problems(len(excess), problems))


def _records_of(experiment_ids: Sequence[str]) -> Mapping[str, Experiment]:
    """Return what experiments recorded so far, held until the transaction ends: people add tags meanwhile."""
    records: dict[str, Experiment] = {}
    for batch in orm.in_batches(experiment_ids):
        rows = Experiment.objects.select_for_update().only("tags", "logged", "log_problems").order_by("pk")
        records |= {row.pk: row for row in rows.filter(pk__in=batch)}
    return records


def _claim(reading: _Reading, records: Mapping[str, Experiment], now: datetime) -> bool:
    """Move the offset on, with the tags and parameters of the piece; False when another worker read it before."""
    experiment = reading.experiment
    changes: dict[str, Any] = {"log_offset": reading.offset}
    if reading.is_done:
        changes["harvested_at"] = now
    if any(record.kind is not RecordKind.CHECKPOINT for record in reading.records):
        changes["is_recorded"] = True
    for name, kind in (("tags", RecordKind.TAG), ("logged", RecordKind.PARAMETER)):
        if values := _values_of(reading, kind):
            changes[name] = {**getattr(records[experiment.pk], name), **values}
    if reading.problems.count:
        changes["log_problems"] = asdict(records[experiment.pk].problems + reading.problems)
    unread = Experiment.objects.filter(pk=experiment.pk, log_offset=experiment.log_offset)
    if not reading.is_late:
        unread = unread.filter(harvested_at__isnull=True)
    elif reading.is_done:
        changes["log_problems"] = asdict(experiment.problems.of_lines() + reading.problems)
    return bool(unread.update(**changes))


def _changes_row(reading: _Reading) -> bool:
    """Whether it changes what stands in the experiment's row."""
    return bool(reading.problems.count) or any(
        record.kind in {RecordKind.TAG, RecordKind.PARAMETER} for record in reading.records
    )


def _values_of(reading: _Reading, kind: RecordKind) -> dict[str, object]:
    return {record.key: record_writing.storable(record.value) for record in _of_kind(reading, kind)}


def _of_kind(reading: _Reading, kind: RecordKind) -> list[Record]:
    return [record for record in reading.records if record.kind is kind]
