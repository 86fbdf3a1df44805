"""Which jobs run under an idle limit, and how they stand with it, in words and in numbers."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import F, Q

from compute.engine.idleness import Use
from compute.engine.states import JobState
from compute.models import Job, JobUse
from core import clock, hosts, orm
from core.units import format_duration
from scheduler.selectors import queues, workloads

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


def list_to_watch(*, now: datetime) -> list[tuple[Job, float | None]]:
    """Return the running jobs of this host whose look is due, each with its idle limit; None: it has none any more.

    Jobs of a kind for which no queue has a limit are not read. For the platform itself.
    """
    limits = queues.find_idle_limits()
    running = Job.objects.filter(is_live=True, state=JobState.RUNNING)
    due = running.filter(Q(use=None) | Q(use__look_at__lte=now) | ~Q(use__token=F("token")))
    groups = [due.filter(idle_limit_s__isnull=False), due.filter(pk__in=JobUse.objects.values("job"))]
    groups += [due.filter(is_preemptible=kind) for kind in sorted({kind for _, kind in limits})]
    columns = ("pk", "workload_id", "is_preemptible", "idle_limit_s", "use__pk")
    rows = {row[0]: row for group in groups for row in group.values_list(*columns)}
    queue_ids = workloads.find_queue_ids({row[1] for row in rows.values() if row[1]}) if limits else {}
    watched: dict[str, float | None] = {}
    for job_id, workload_id, is_preemptible, own_s, use_id in rows.values():
        both = (own_s, limits.get((queue_ids.get(workload_id, ""), is_preemptible)))
        limit_s = min((each for each in both if each is not None), default=None)
        if limit_s is not None or use_id is not None:
            watched[job_id] = limit_s
    here = Job.objects.filter(resource__host__in=hosts.here()).select_related("resource", "use").defer("spec")
    return [(job, watched[job.pk]) for batch in orm.in_batches(sorted(watched)) for job in here.filter(pk__in=batch)]


def find_idle_states(jobs: Collection[Job]) -> dict[str, IdleState]:
    """Return by id how those of these jobs stand that run under an idle limit. For jobs that the caller may see."""
    running = {job.pk: job for job in jobs if job.state == JobState.RUNNING}
    if not running:
        return {}
    now = clock.now()
    rows = JobUse.objects.filter(job__in=running)
    return {use.job_id: _describe(use, now) for use in rows if use.token == running[use.job_id].token}


def _describe(use: JobUse, now: datetime) -> IdleState:
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
