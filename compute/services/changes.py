"""What would let a waiting job start sooner, and what it does to others: each change is tried by the engine.

Nothing changes. What was worked out is told again for a while, as a page may ask often.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from accounts.permissions import Actor, require
from compute import permissions
from compute.engine.changes import Change, Changes, is_sooner
from compute.engine.states import JobState
from compute.models import Job
from compute.selectors import outlooks, pool_places, start_forecasts
from compute.selectors.start_forecasts import ChangedStart, Forecaster, JobFacts, shape_of
from core import clock, priorities
from core.units import ONE_GPU, count_of_gpus, format_cpu, format_gpus, format_memory
from scheduler.selectors.forecasts import FEWEST_PASSES, NoForecast, Raise

_BUDGET_S = 5.0
"""No further change is tried after so long, and nobody waits longer for a turn."""

_FRESH = timedelta(seconds=15)
_MOST_KNOWN = 256
_NEVER = float("inf")


@dataclass(frozen=True)
class _Tried:
    """A change with its start, before names are hidden from those who may not see them."""

    kind: str
    text: str
    start: ChangedStart
    needs_admin: bool = False


@dataclass(frozen=True)
class _Known:
    """What was tried for a job. `present_s` is when it starts without, infinite where that is not known."""

    made_at: datetime
    present_s: float
    tried: Sequence[_Tried]
    is_complete: bool


_known: dict[str, _Known] = {}
_lock = threading.Lock()


def try_changes(*, actor: Actor, job: Job) -> Changes:
    """Return what would become of a job that waits after changes that are there to be made, what helps first.

    Of a job with parts it is the first part that waits. One that does not wait has none. One job has its turn at a
    time; who gets none for long is told that nothing was tried.
    """
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    waiting = outlooks.find_waiting(job)
    if waiting is None or waiting.state != JobState.PENDING:
        return Changes(clock.now(), [], is_complete=True)
    if not _lock.acquire(timeout=_BUDGET_S):
        return Changes(clock.now(), [], is_complete=False)
    try:
        known = _known.get(waiting.pk)
        if known is None or not known.made_at <= clock.now() < known.made_at + _FRESH:
            _known.pop(waiting.pk, None)
            known = _known[waiting.pk] = _work_out(waiting)
            for oldest in list(_known)[:-_MOST_KNOWN]:
                del _known[oldest]
    finally:
        _lock.release()
    changes = [_read(actor, each, known.present_s) for each in known.tried]
    return Changes(known.made_at, sorted(changes, key=lambda each: not each.helps), known.is_complete)


def _read(actor: Actor, tried: _Tried, present_s: float) -> Change:
    start = tried.start
    return Change(
        kind=tried.kind,
        text=tried.text,
        helps=is_sooner(start.raw_s, present_s),
        needs_admin=tried.needs_admin,
        starts_at=start.likely_at,
        late_at=start.late_at,
        nodes=start.nodes,
        stops=outlooks.read_stops(actor, start.stops),
    )


def _work_out(job: Job) -> _Known:
    ends_at = clock.monotonic() + _BUDGET_S
    jobs = start_forecasts.list_live_jobs()
    facts = next((each for each in jobs if each["pk"] == job.pk), None)
    if facts is None:  # it has ended meanwhile
        return _Known(clock.now(), _NEVER, [], is_complete=True)
    forecaster = Forecaster(jobs, [facts], passes=FEWEST_PASSES)
    present_s = forecaster.present_s(facts)
    tried: list[_Tried] = []
    for each in _list_changes(forecaster, facts, jobs, present_s):
        tried.append(each)
        if clock.monotonic() > ends_at:
            return _Known(forecaster.now, present_s, tried, is_complete=False)
    return _Known(forecaster.now, present_s, tried, is_complete=True)


def _list_changes(
    forecaster: Forecaster, job: JobFacts, jobs: Sequence[JobFacts], present_s: float
) -> Iterator[_Tried]:
    """Yield changes, each once it has been tried."""
    for text, changed in _list_smaller(forecaster, job):
        yield _Tried("less", text, forecaster.if_changed(job, changed))
    for template in forecaster.list_other_places(job):
        name = template.full_name if template.is_stored else template.resource.name
        text = f"Run it on {pool_places.describe(name, template.pool)}"
        with suppress(NoForecast):
            yield _Tried("place", text, forecaster.if_changed(job, shape_of(template)))
    others = [each for each in jobs if each["project_id"] == job["project_id"] and each is not job]
    higher = [(name, number) for name, number in priorities.NAMES.items() if number > job["priority"]]
    for name, number in dict.fromkeys([higher[0], higher[-1]]) if others and higher else ():
        text = f"Give it the priority {name} ({number}) in place of {job['priority']}"
        yield _Tried("priority", text, forecaster.if_changed(job, {"priority": number}))
    may_stop = not job["is_preemptible"]
    text = "Let it be preempted" if may_stop else "Do not let it be preempted"
    yield _Tried("preemptible", text, forecaster.if_changed(job, {"is_preemptible": may_stop}))
    for raised, start in forecaster.if_allowed_more(job):
        yield _Tried(raised.bound, _say_raise(job, raised), start, needs_admin=True)
        if raised.bound == "quota" and is_sooner(start.raw_s, present_s):
            break


def _list_smaller(forecaster: Forecaster, job: JobFacts) -> Iterator[tuple[str, JobFacts]]:
    """Yield smaller jobs in place of a job: on other templates, with half of its GPUs, with half of its replicas."""
    templates = forecaster.list_smaller_templates(job)
    for template in templates:
        yield f"Take {template.full_name} ({_size(shape_of(template))}) in place of {_size(job)}", shape_of(template)
    gpus, replicas = job["gpu_milli"] // ONE_GPU, job["replica_count"]
    if not templates and gpus > 1:
        part = (gpus // 2) / gpus
        half = {name: int(part * job[name]) for name in ("cpu_millicores", "memory_bytes")}
        half["gpu_milli"] = ONE_GPU * (gpus // 2)
        more = f"{format_cpu(half['cpu_millicores'])} CPU and {format_memory(half['memory_bytes'])}"
        yield f"Ask for {_size(half)} in place of {gpus}, with {more}", half
    if replicas > 1:
        yield f"Run {replicas // 2} of its {replicas} replicas", {"replica_count": replicas // 2}


def _size(facts: JobFacts) -> str:
    if milli := facts["gpu_milli"]:
        return count_of_gpus(milli)
    return f"{format_cpu(facts['cpu_millicores'])} CPU"


def _say_raise(job: JobFacts, raised: Raise) -> str:
    number, unit = (format_gpus, "GPUs") if raised.is_gpu else (format_cpu, "CPU")
    amounts = f"from {number(raised.before)} to {number(raised.after)} {unit}"
    return f"Raise the {raised.bound} of {job['project__name']} {amounts}"
