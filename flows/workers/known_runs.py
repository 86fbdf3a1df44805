"""What this process knows of runs: which jobs are theirs, how many steps are in which state, rows of those to begin.

Whose a job is never changes. Only plans change steps, and each plan that does writes an event. So what is known of them
holds for as long as the run's newest event has the same number.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, QuerySet

from core import orm
from core.prepared import prepared
from flows.engine.states import STEP_ENDS, StepState
from flows.models import Attempt, Run, Step

_COLUMNS = tuple(field.attname for field in Step._meta.concrete_fields)
_ID = _COLUMNS.index("id")
_KEY = _COLUMNS.index("key")
_AHEAD = 20
_MOST_RUNS, _MOST_JOBS = 64, 10_000


@dataclass(frozen=True)
class StepCounts:
    """How many instances of each step of the spec are `live`: which are pending, delayed after a failure, or running.

    `ended` counts the others by state. A step that none is counted of may be left out.
    """

    live: Counter[str] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)
    delayed: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    ended: dict[str, Mapping[StepState, int]] = field(default_factory=dict)

    def moved(self, moves: Iterable[tuple[str, StepState, StepState]]) -> "StepCounts":
        """Return the counts after instances of steps have gone from one state to another."""
        live, pending, delayed, running = map(Counter, (self.live, self.pending, self.delayed, self.running))
        counts = StepCounts(live, pending, delayed, running, dict(self.ended))
        for key, before, after in moves:
            counts.add(key, before, -1)
            counts.add(key, after, 1)
        return counts

    def add(self, key: str, state: StepState, count: int) -> None:
        """Count so many instances of a step more in a state."""
        if state in STEP_ENDS:
            states = self.ended.get(key, {})
            self.ended[key] = {**states, state: states.get(state, 0) + count}
            return
        counters = (self.live, self.pending, self.delayed, self.running)
        of_states = (state, StepState.PENDING, StepState.BACKOFF, StepState.RUNNING)
        for counter, of in zip(counters, of_states, strict=True):
            if state is of:
                counter[key] += count
                if not counter[key]:
                    del counter[key]


@dataclass(frozen=True)
class _Known:
    """What is known of a run with its event of this number; `pending` are rows by the keys of their steps."""

    event_seq: int
    counts: StepCounts | None = None
    pending: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)


_known: OrderedDict[str, _Known] = OrderedDict()
_run_by_job: OrderedDict[str, str] = OrderedDict()


def note_run(job_id: str, run_id: str) -> None:
    """Note of which run a new job is, which never changes, so that this process need not read it when the job ends."""
    _run_by_job[job_id] = run_id
    while len(_run_by_job) > _MOST_JOBS:
        _run_by_job.popitem(last=False)


def runs_of_jobs(job_ids: Sequence[str]) -> set[str]:
    """Return the runs to which these jobs belong; most are known here."""
    runs = {_run_by_job[job_id] for job_id in job_ids if job_id in _run_by_job}
    for batch in orm.in_batches([job_id for job_id in job_ids if job_id not in _run_by_job]):
        runs.update(_runs_of(batch))
    return runs


def count(run: Run) -> StepCounts:
    """Return the counts of a run whose lease the caller holds."""
    if (counts := _find(run).counts) is not None:
        return counts
    counts = StepCounts()
    for key, state, number in _step_counts(run.pk):
        counts.add(key, StepState(state), number)
    return counts


def read_pending(
    run: Run, keys: Collection[str], ahead: Iterable[str], most: Mapping[str, int] = MappingProxyType({})
) -> list[Step]:
    """Return the pending instances of some steps of a run whose lease the caller holds; the first ones where `most` is.

    Where they are to be read, the first of the steps `ahead` of them, which have one instance each, are read too: those
    of a chain are not read one by one.
    """
    known = _find(run)
    rows = known.pending
    if not rows.keys() >= set(keys):
        read: dict[str, list[tuple[Any, ...]]] = {key: [] for key in (*keys, *islice(ahead, _AHEAD))}
        for row in _pending(run.pk, read):
            read[row[_KEY]].append(row)
        _keep(run, _Known(run.event_seq, known.counts, rows := read))
    return [Step.from_db(DEFAULT_DB_ALIAS, _COLUMNS, row) for key in keys for row in rows[key][: most.get(key)]]


def note(
    run: Run, event_seq: int, counts: StepCounts, changed: Mapping[str, Collection[str]], reset: Collection[str]
) -> None:
    """Keep what is known of a run after a plan, with its newest event.

    It changed instances of some steps, given by id, and made some of the `reset` steps pending again.
    """
    pending = {
        key: [row for row in rows if row[_ID] not in changed[key]] if key in changed else rows
        for key, rows in _find(run).pending.items()
        if key not in reset
    }
    _keep(run, _Known(event_seq, counts, pending))


def _find(run: Run) -> _Known:
    known = _known.get(run.pk)
    return known if known is not None and known.event_seq == run.event_seq else _Known(run.event_seq)


def _keep(run: Run, known: _Known) -> None:
    _known.pop(run.pk, None)  # a thread that plans another run may drop it at any moment
    _known[run.pk] = known
    while len(_known) > _MOST_RUNS:
        _known.popitem(last=False)


@prepared
def _pending(run_id: str, keys: Collection[str]) -> QuerySet[Step, tuple[Any, ...]]:
    rows = Step.objects.filter(run=run_id, state=StepState.PENDING, key__in=keys)
    return rows.order_by("position", "index").values_list(*_COLUMNS)


@prepared
def _step_counts(run_id: str) -> QuerySet[Step, tuple[str, str, int]]:
    rows = Step.objects.filter(run=run_id).order_by().values("key", "state")
    return rows.annotate(count=Count("pk")).values_list("key", "state", "count")


@prepared
def _runs_of(job_ids: Collection[str]) -> QuerySet[Attempt, str]:
    return Attempt.objects.filter(is_live=True, job__in=job_ids).values_list("run_id", flat=True)
