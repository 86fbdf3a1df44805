"""Checks the jobs with an idle limit: whether there is use, a warning is due, or the limit is reached.

The platform asks the job's resource for CPU, GPUs and output; connections and commands note their use themselves. A
check asks for all that was measured since the last one, so checks may be late. A job whose use nobody can measure is
never stopped.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from compute.adapters import drivers
from compute.engine.idleness import BUSY_MILLICORES, Use, Verdict, find_use
from compute.engine.states import JobState, ReasonCode
from compute.errors import ResourceUnreachable
from compute.models import Job, JobUse
from compute.selectors import failures
from compute.services import journal, uses
from core import clock, hosts, isolation, orm, tasks
from core.units import format_duration
from scheduler.selectors import queues, workloads


@dataclass(frozen=True)
class _Measurement:
    """What a check of a job has found; `used_by` None: no use."""

    used_by: Use | None
    log_bytes: int
    sampled_at: datetime
    unknown_reason: str = ""


def find_limited() -> list[QuerySet[Any]]:
    """Return the queues and the jobs that have an idle limit, and the jobs that had one."""
    own = Job.objects.filter(is_live=True, idle_limit_s__isnull=False)
    return [queues.find_idle_limited(), own, JobUse.objects.all()]


def watch_idle() -> None:
    """Check all jobs of this host that run under an idle limit, and whose check is due."""
    isolation.for_each(
        failures.WATCH_IDLE, _list_to_watch(now=clock.now()), lambda pair: _look(*pair), key=lambda pair: pair[0].pk
    )
    JobUse.objects.filter(job__is_live=False).delete()


def _list_to_watch(*, now: datetime) -> list[tuple[Job, float | None]]:
    """Return the running jobs of this host whose look is due, each with its idle limit; None: it has none any more.

    Jobs of a kind for which no queue has a limit are not read.
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


def _look(job: Job, limit_s: float | None) -> None:
    if limit_s is None:
        JobUse.objects.filter(job=job).delete()
        return
    before: JobUse | None = getattr(job, "use", None)
    if before is None or before.token != job.token:
        _begin(job, limit_s)
    else:
        _record(job, limit_s, before, _measure(job, before))


def _begin(job: Job, limit_s: float) -> None:
    """Begin to watch a run. What it did before is unknown, so it counts as used now."""
    now = clock.now()
    row = {
        "token": job.token,
        "limit_s": limit_s,
        "used_at": now,
        "used_by": Use.WATCH,
        "looked_at": now,
        "look_at": now,
        "log_bytes": 0,
        "sampled_at": now,
        "unknown_reason": "",
        "warned_at": None,
    }
    JobUse.objects.update_or_create(job=job, defaults=row)


def _measure(job: Job, before: JobUse) -> _Measurement:
    """Ask the resource what the job did since the last check."""
    name, resource = job.run_name, job.resource.name
    try:
        driver = drivers.driver_of(job.resource)
        log_bytes = driver.read_log(name, 0, 0).size_bytes
        samples = driver.read_usage(name, before.sampled_at)
    except ResourceUnreachable:
        return _Measurement(None, before.log_bytes, before.sampled_at, f"{resource} does not answer.")
    used_by = Use.LOG if log_bytes > before.log_bytes else find_use(samples)
    if not samples:
        return _Measurement(used_by, log_bytes, before.sampled_at, f"{resource} does not tell what CPU its jobs use.")
    return _Measurement(used_by, log_bytes, samples[-1].at)


@transaction.atomic
def _record(job: Job, limit_s: float, before: JobUse, measurement: _Measurement) -> None:
    """Write down what a check has found, and warn or stop. Use that was noted meanwhile counts."""
    use = uses.lock_use(job)
    if use is None or use.looked_at != before.looked_at:
        return  # another process has looked
    now = clock.now()
    if measurement.used_by is not None or measurement.unknown_reason:
        use.used_at, use.used_by, use.warned_at = now, measurement.used_by or Use.WATCH, None
    use.limit_s, use.looked_at, use.unknown_reason = limit_s, now, measurement.unknown_reason
    use.log_bytes, use.sampled_at = measurement.log_bytes, measurement.sampled_at
    verdict = use.times.judge(now)
    # One that somebody suspends or stops meanwhile is theirs.
    if verdict is not Verdict.LEAVE and (locked := _lock_running(job)) is not None:
        if verdict is Verdict.WARN:
            use.warned_at = now
            _warn(locked, use, now)
        else:
            _stop(locked, use, now)
    use.look_at = use.times.looks_at(now)
    use.save()


def _lock_running(job: Job) -> Job | None:
    """Return the job, locked, if the run that was looked at still runs."""
    (locked,) = journal.lock_jobs([job.pk])
    return locked if locked.token == job.token and locked.state == JobState.RUNNING else None


def _warn(job: Job, use: JobUse, now: datetime) -> None:
    idle, rest = (now - use.used_at).total_seconds(), (use.times.stops_at - now).total_seconds()
    text = (
        f"It has been idle for {format_duration(idle)}, and is stopped in {format_duration(rest)} unless it is used. "
        f"`nearline job keep {job.name}` keeps it."
    )
    journal.record_notes({job.pk: text}, now=now, locked=[job])


def _stop(job: Job, use: JobUse, now: datetime) -> None:
    reason = (
        f"Stopped: it was idle for {format_duration((now - use.used_at).total_seconds())}, and may be for "
        f"{format_duration(use.limit_s)}: no connection carried anything, no command was run, it printed nothing, and "
        f"it used less than {BUSY_MILLICORES / 10:g} % of a CPU core"
        f"{', and of its GPUs nothing that was measured' if job.gpu_milli else ''}."
    )
    fields = {"reason": reason, "reason_code": ReasonCode.IDLE_LIMIT}
    step = journal.Step(job.pk, job.token, JobState.STOPPING, reason, fields)
    journal.record_steps([step], now=now, locked=[job])
    tasks.enqueue_on_commit("compute.stop")
