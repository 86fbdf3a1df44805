"""What pages tell of jobs: why each is as it is, how long it waited and ran, a stamp that says it changed, and links.

The number of queries does not depend on how many jobs there are. Times are those of all runs together. Stamps are for
pages that wait for a change: they are cheap, and tell nothing but that there was one. Links are to what a job belongs
to in other apps, such as its experiment, which add what they know when they start.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from django.db.models import DurationField, Exists, Max, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from accounts.permissions import Actor
from compute.engine.idleness import Use
from compute.engine.run_history import RunHistory, read_history
from compute.engine.states import JobState
from compute.models import Job, JobEvent, JobUse
from compute.selectors import outlooks
from compute.selectors.jobs import list_parts
from compute.selectors.outlooks import Outlook
from core import clock, orm
from core.times import Interval, Times, measure
from core.units import format_duration

__all__ = [
    "IdleState",
    "Idleness",
    "JobLink",
    "JobRow",
    "RunHistory",
    "Timed",
    "add_link_source",
    "find_histories",
    "find_idle_states",
    "list_links",
    "measure_job",
    "measure_times",
    "ran_before",
    "read_parts",
    "read_row",
    "read_rows",
    "stamp_of_all_jobs",
    "stamps_of_jobs",
]

_BREAKS = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)
_USES = {
    Use.WATCH: "it began to be measured",
    Use.CPU: "it used CPU",
    Use.GPU: "it used its GPUs",
    Use.LOG: "it printed something",
    Use.CONNECTION: "a connection carried something",
    Use.COMMAND: "a command was run in it",
    Use.PERSON: "somebody kept it",
}


class Idleness(StrEnum):
    """Whether a job is used. UNKNOWN: nobody can measure it."""

    IN_USE = "in_use"
    IDLE = "idle"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class IdleState:
    """How a running job stands with its idle limit. It was last used at `used_at`.

    `stops_at` is when it is stopped unless it is used; None: it is in use, or that is unknown. `is_warned`: that is
    soon.
    """

    state: Idleness
    limit_s: float
    used_at: datetime
    stops_at: datetime | None
    is_warned: bool
    text: str


@dataclass(frozen=True)
class JobRow:
    """A job and what is known of its present.

    `idle` None: no idle limit holds for it. `outlook` None: it does not wait, or nothing is known of its wait.
    """

    job: Job
    idle: IdleState | None
    outlook: Outlook | None
    times: Times | None

    @property
    def why(self) -> str:
        """Why it is as it is: that it is idle, why and until when it waits, or else its reason.

        Of one that runs as parts it is how many there are in which state, and why the first of them waits.
        """
        if self.idle is not None and self.idle.state == Idleness.IDLE:
            return self.idle.text
        if self.outlook is None:
            return self.job.reason_shown
        return f"{self.job.reason_shown}. {self.outlook.text}" if self.job.has_parts else self.outlook.text


@dataclass(frozen=True)
class JobLink:
    """A page about the same job in another app; `kind` is what it is, such as `Experiment`."""

    kind: str
    name: str
    url: str


class Timed(Protocol):
    """A job, or what another app records of one: when it was made, and when its present run began and ended."""

    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def read_rows(*, actor: Actor, jobs: Iterable[Job]) -> list[JobRow]:
    """Return these jobs in their order, which the actor may see."""
    listed = list(jobs)
    idle_states = find_idle_states(listed)
    outlook_of = outlooks.find_outlooks(actor=actor, jobs=listed)
    times_of = measure_times(listed)
    return [JobRow(job, idle_states.get(job.pk), outlook_of.get(job.pk), times_of[job.pk]) for job in listed]


def read_parts(*, actor: Actor, job: Job) -> list[JobRow]:
    """Return all tries of the parts of a job, by index, the last one of each first."""
    return read_rows(actor=actor, jobs=list_parts(actor=actor, job=job)) if job.has_parts else []


def read_row(*, actor: Actor, job: Job) -> JobRow:
    """Return one job, which the actor may see."""
    [row] = read_rows(actor=actor, jobs=[job])
    return row


def find_idle_states(jobs: Collection[Job]) -> dict[str, IdleState]:
    """Return by id how those of these jobs stand that run under an idle limit. For jobs that the caller may see."""
    running = {job.pk: job for job in jobs if job.state == JobState.RUNNING}
    if not running:
        return {}
    now = clock.now()
    rows = JobUse.objects.filter(job__in=running)
    return {use.job_id: _describe_idleness(use, now) for use in rows if use.token == running[use.job_id].token}


def _describe_idleness(use: JobUse, now: datetime) -> IdleState:
    limit = format_duration(use.limit_s)
    if use.unknown_reason:
        text = f"{use.unknown_reason} So whether it is used is unknown, and its idle limit of {limit} does not stop it."
        return IdleState(Idleness.UNKNOWN, use.limit_s, use.used_at, None, is_warned=False, text=text)
    if use.used_at >= use.looked_at:
        text = f"It is in use: {_USES[Use(use.used_by)]}. It may be idle for {limit}."
        return IdleState(Idleness.IN_USE, use.limit_s, use.used_at, None, is_warned=False, text=text)
    times = use.times
    idle_s, rest_s = (now - times.used_at).total_seconds(), (times.stops_at - now).total_seconds()
    rest = f"in {format_duration(rest_s)}" if rest_s > 0 else "now"
    text = (
        f"It has been idle for {format_duration(idle_s)} and may be for {limit}. "
        f"Unless it is used, it is stopped {rest}."
    )
    return IdleState(
        Idleness.IDLE, use.limit_s, use.used_at, times.stops_at, is_warned=use.warned_at is not None, text=text
    )


def measure_times(jobs: Collection[Job]) -> dict[str, Times | None]:
    """Return by id how long these jobs waited, ran and were suspended, and took in all. For jobs that may be seen."""
    histories = find_histories({job.pk for job in jobs})
    runs_of = _runs_of_parts([job.pk for job in jobs if job.has_parts and job.pk in histories])
    return {job.pk: measure_job(job, histories.get(job.pk), runs_of.get(job.pk)) for job in jobs}


def find_histories(job_ids: Collection[str]) -> Mapping[str, RunHistory]:
    """Return by id what those of these jobs did before their present runs that were evicted or suspended."""
    histories: dict[str, RunHistory] = {}
    for batch in orm.in_batches(sorted(job_ids)):
        histories |= {
            pk: read_history(created_at, (event[2:] for event in events))
            for (pk, created_at), events in groupby(_breaks_of(batch), key=itemgetter(0, 1))
        }
    return histories


def measure_job(
    job: Timed, history: RunHistory | None, runs_of_parts: Sequence[Interval] | None = None
) -> Times | None:
    """Return how long a job waited, ran and was suspended, with the runs of its history and of its parts."""
    intervals = _intervals(job, history)
    if runs_of_parts is not None:
        intervals = [*(replace(each, started_at=None) for each in intervals), *runs_of_parts]
    suspensions = [] if history is None else [(start, end or job.finished_at) for start, end in history.suspensions]
    return measure(intervals, suspensions=suspensions, now=clock.now())


def ran_before() -> Coalesce:
    """Return, for rows of an app above, how long the job whose id is in `job` ran before its present run."""
    of_job = Job.objects.filter(pk=OuterRef("job")).values("ran_before")
    return Coalesce(Subquery(of_job), timedelta(0), output_field=DurationField())


def _breaks_of(job_ids: Collection[str]) -> Iterable[tuple[str, datetime, str, datetime]]:
    suspended = JobEvent.objects.filter(job=OuterRef("pk"), state=JobState.SUSPENDED)
    broken = Job.objects.filter(Q(evictions__gt=0) | Exists(suspended), pk__in=job_ids).order_by()
    events = JobEvent.objects.filter(job__in=broken, state__in=_BREAKS).order_by("job_id", "seq")
    return events.values_list("job_id", "job__created_at", "state", "at")


def _runs_of_parts(job_ids: Collection[str]) -> Mapping[str, list[Interval]]:
    """Return when the parts of jobs waited and ran, by the ids of those jobs."""
    if not job_ids:
        return {}
    parts = list(Job.objects.filter(part_of__in=job_ids).defer("spec"))
    histories = find_histories({part.pk for part in parts})
    runs: dict[str, list[Interval]] = {job_id: [] for job_id in job_ids}
    for part in parts:
        if part.part_of_id is not None:
            runs[part.part_of_id] += _intervals(part, histories.get(part.pk))
    return runs


def _intervals(job: Timed, history: RunHistory | None) -> list[Interval]:
    if history is None:
        return [Interval(job.created_at, job.started_at, job.finished_at)]
    present = [] if history.queued_at is None else [Interval(history.queued_at, job.started_at, job.finished_at)]
    return [*history.runs, *present]


def stamp_of_all_jobs() -> str:
    """Return a stamp that is another one whenever any job changed its state."""
    return str(JobEvent.objects.aggregate(newest=Max("pk"))["newest"])


def stamps_of_jobs(names: Collection[str]) -> Mapping[str, str]:
    """Return for each of these jobs a stamp that is another one whenever it, or a replica of it, changed its state.

    The same when it has saved a checkpoint, and when the progress of its parts changed.
    """
    columns = ("name", "event_seq", "checkpoint__saved_at", "parts_running", "replicas")
    rows = Job.objects.filter(name__in=names).values_list(*columns)
    return {
        name: " ".join([str(seq), str(saved_at), str(parts), *(str(each.get("state")) for each in gang)])
        for name, seq, saved_at, parts, gang in rows
    }


FindLink = Callable[[Actor, str], JobLink | None]
"""Returns the page about a job, which is given by its id; None: there is none that the actor may see."""


_link_sources: list[FindLink] = []


def add_link_source(find: FindLink) -> None:
    """Let the page of a job link to what an app knows about it."""
    _link_sources.append(find)


def list_links(actor: Actor, job: Job) -> Sequence[JobLink]:
    """Return the pages about a job in other apps."""
    return [link for find in _link_sources if (link := find(actor, job.pk)) is not None]
