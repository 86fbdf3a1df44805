"""When waiting jobs start: the scheduler itself, run forward on a clock of its own over the ends of running jobs.

Nobody knows how long a job runs, so several passes are made. In each pass every job has another one of the lengths
that it may have, so that together the passes cover all of them evenly. A forecast states quantiles of the starts.
Of jobs that are submitted later only those are foreseen of which it is known when.
"""

import heapq
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import FOR_GOOD, StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import ACTIVE
from scheduler.engine.rules import reservation
from scheduler.engine.rules.quotas import claim_delay_s, min_runtimes_s
from scheduler.engine.run_times import UNKNOWN, RunTimes
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, PodState, PodView, Policy, Snapshot

PASSES, FEWEST_PASSES = 20, 10
MANY = 100
"""Of more jobs than these each is forecast from fewer passes."""

GRAIN = 0.1
"""Ends that lie closer together than this part of the time until then are taken together, which bounds the cycles."""

APART = 16
"""So many moments of ends stand alone in each pass before that: the order of what comes next is told as it will be."""

MOST_CYCLES = 1000
"""Of one pass. What has not started by then is not forecast."""

TRIALS_OF_MOVES = 10
"""Of one pass. On a large cluster moves that let one job start cost more than all else, so afterwards nothing is moved:
who would start by a move then is forecast to start without."""

_LIKELY, _LATE = 0.5, 0.9
_LEAST_GRAIN_S = 1.0
_ROUNDING_S = 1e-3
"""What sums of times may miss."""
_MINUTE_S = 60.0
"""Waits are told in whole minutes, as cycles are told them."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that ends on the node where another one then starts. `is_ahead`: it waits now, and is served first."""

    job_id: str
    ends_in_s: float
    gpu_milli: int
    is_ahead: bool


@dataclass(frozen=True, slots=True)
class PlannedStop:
    """A job that is stopped in `in_s` seconds to free its resources for another one.

    `goes_on`: it is elastic, gives back or moves some of its replicas, and runs on with the others.
    """

    job_id: str
    in_s: float
    code: StopCode
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class StartForecast:
    """When a waiting job starts, in seconds: in half of the passes by `likely_s`, in nine of ten by `late_s`.

    Infinite: the known ends do not let it start. All else is of the pass of `likely_s`: there it starts on `node_ids`,
    after `ahead` other waiting jobs of the same resource; `holders` end there before, the last one first, and `stops`
    are those that are stopped for it, or for one of those at the same moment.
    """

    likely_s: float
    late_s: float
    node_ids: tuple[str, ...] = ()
    ahead: int = 0
    holders: tuple[Holder, ...] = ()
    stops: tuple[PlannedStop, ...] = ()


NEVER = StartForecast(math.inf, math.inf)
"""Nothing that is known lets it start."""


class Arrival(NamedTuple):
    """A job that joins the queue in `in_s` seconds, with a wait that counts from `since_s`, which may be long ago."""

    in_s: float
    view: JobView
    since_s: float


class Forward:
    """Forecasts from one snapshot. Same input, same output: a session serves all passes and is as before after each."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        run_times: Mapping[str, RunTimes],
        *,
        arrivals: Mapping[str, Arrival] = MappingProxyType({}),
        at_s: float = 0.0,
        moves_in_s: float = 0.0,
        passes: int = PASSES,
        grain: float = GRAIN,
    ) -> None:
        """Begin at `at_s`, in seconds on the clock of `JobView.saved_at`. Without a `grain` every end stands alone.

        `arrivals` are jobs by id that join the queue later. Running work may be moved in `moves_in_s`.
        """
        self.session = Session(snapshot, replace(policy, consolidates=True))
        self._moves_in_s = moves_in_s
        self._begin = {job.id: job for job in snapshot.jobs if job.id in self.session.jobs}
        self._arrivals = dict(arrivals)
        self._run_times = dict(run_times)
        self._passes = passes
        self._grain = grain
        self._at_s = at_s
        self._is_certain = all(run_times.get(job_id, UNKNOWN).is_certain for job_id in self._begin)

    def is_known(self, job_id: str) -> bool:
        """Return whether a job is there or arrives."""
        return job_id in self._arrivals or job_id in self._begin

    def queue_of(self, job_id: str) -> str:
        """Return the id of the queue of a job that is known."""
        return self._arrivals[job_id].view.queue_id if job_id in self._arrivals else self._begin[job_id].queue_id

    def starts(self, job_ids: Collection[str] | None = None) -> dict[str, StartForecast]:
        """Return by id when each job starts that waits or arrives; of those that are `wanted` only, where given."""
        # One for which capacity is reserved waits too, and is not among those of which the session looks for a place.
        asked = {*self.session.waiting, *self._arrivals} if job_ids is None else job_ids
        jobs = self.session.jobs
        pending_ids = {id_ for id_ in asked if id_ in self._arrivals or (id_ in jobs and not _is_up(jobs[id_]))}
        return self._forecast(pending_ids, self._arrivals)

    def start_of(
        self,
        job: JobView,
        run_times: RunTimes,
        *,
        instead_of: str | None = None,
        in_s: float = 0.0,
        since_s: float | None = None,
    ) -> StartForecast:
        """Return when a job would start that joins the queue in so many seconds; infinite: nobody knows when.

        Its wait counts from `since_s`; None: from then. `instead_of` names one that then is not there. Nothing is kept
        of it.
        """
        (start,) = self.starts_of([job], run_times, instead_of=instead_of, in_s=in_s, since_s=since_s)
        return start

    def starts_of(
        self,
        jobs: Sequence[JobView],
        run_times: RunTimes,
        *,
        instead_of: str | None = None,
        in_s: float = 0.0,
        since_s: float | None = None,
    ) -> list[StartForecast]:
        """Return when jobs would start that join the queue together, as `start_of` does for one."""
        arrivals = [Arrival(in_s, job, in_s if since_s is None else since_s) for job in jobs]
        instead = () if instead_of is None else (instead_of,)
        return self.starts_together([(each, run_times) for each in arrivals], instead_of=instead)

    def starts_together(
        self, new: Sequence[tuple[Arrival, RunTimes]], *, instead_of: Collection[str] = ()
    ) -> list[StartForecast]:
        """Return when jobs would start that all join the queue, each with its run times: none has another one's place.

        Those of `instead_of` then are not there. Nothing is kept of it.
        """
        coming = {each.view.id: each for each, _ in new if each.in_s < math.inf}
        arrivals = {job_id: each for job_id, each in self._arrivals.items() if job_id not in instead_of}
        left_out = {job_id: self._begin.pop(job_id) for job_id in instead_of if job_id in self._begin}
        self.session.change((), left_out)
        self._run_times |= {each.view.id: run_times for each, run_times in new}
        try:
            starts = self._forecast(coming.keys(), arrivals | coming)
            return [starts.get(each.view.id, NEVER) for each, _ in new]
        finally:
            for each, _ in new:
                del self._run_times[each.view.id]
            self._begin |= left_out
            self.session.change(left_out.values())

    def _forecast(self, asked: AbstractSet[str], arrivals: Mapping[str, Arrival]) -> dict[str, StartForecast]:
        if not asked:
            return {}
        is_certain = self._is_certain and all(self._run_times.get(job_id, UNKNOWN).is_certain for job_id in arrivals)
        count = 1 if is_certain else min(self._passes, max(FEWEST_PASSES, self._passes * MANY // len(asked)))
        lengths = _Lengths(self._run_times, count)
        is_age_told = any(job.running_for_s is not None for job in self._begin.values()) or any(
            queue.has_time_limits or any(min_runtimes_s(self.session, queue)) for queue in self.session.queues.values()
        )
        smallest_node = reservation.smallest_node(node.view for node in self.session.nodes)
        passes = [
            _Pass(
                self.session,
                self._begin,
                arrivals,
                self._run_times,
                lengths.of_pass(number),
                self._grain,
                self._at_s,
                is_age_told,
                smallest_node,
                self._moves_in_s,
            )
            for number in range(count)
        ]
        for one in passes:
            one.run(asked)
        return {job_id: _sum_up(job_id, passes) for job_id in sorted(asked)}


class _Lengths:
    """Which of its possible lengths each job has in each pass: each part of them once, in a random order.

    Jobs of one batch are all shorter than those before them, or all longer. So one half of what decides the order is of
    the job, the other one of its kind: of all whose `lengths` are one object.
    """

    def __init__(self, run_times: Mapping[str, RunTimes], passes: int) -> None:
        self._run_times = run_times
        self._passes = passes
        self._kinds: dict[int, list[int]] = {}
        self._orders: dict[str, list[int]] = {}

    def of_pass(self, number: int) -> "_LeftOf":
        """Return what tells how long a job goes on in a pass, by its id and whether it starts anew."""

        def left_s(job_id: str, starts_anew: bool) -> float:  # noqa: FBT001 (by position, as it is asked for each start)
            return self._run_times.get(job_id, UNKNOWN).left_s(self._part(job_id, number), starts_anew=starts_anew)

        return left_s

    def _part(self, job_id: str, number: int) -> float:
        if job_id not in self._orders:
            self._orders[job_id] = self._order(job_id)
        return (self._orders[job_id][number] + 0.5) / self._passes

    def _order(self, job_id: str) -> list[int]:
        kind = id(self._run_times.get(job_id, UNKNOWN).lengths)
        if kind not in self._kinds:
            self._kinds[kind] = self._shuffled(len(self._kinds))
        own, shared = self._shuffled(job_id), self._kinds[kind]
        ascending = sorted(range(self._passes), key=lambda number: (own[number] + shared[number], own[number]))
        return sorted(range(self._passes), key=ascending.__getitem__)

    def _shuffled(self, seed: str | int) -> list[int]:
        order = list(range(self._passes))
        random.Random(seed).shuffle(order)  # noqa: S311 (no secret: the same order for the same seed)
        return order


_LeftOf = Callable[[str, bool], float]


@dataclass(slots=True)
class _Run:
    """A run of a job in a pass. One that goes on already got its place before 0, as far as that is known.

    `is_overdue_then`: the cycle of that moment stops it, it does not end before.
    """

    began_s: float
    ends_s: float
    node_ids: tuple[str, ...]
    gpu_milli: int
    is_overdue_then: bool


@dataclass(slots=True)
class _Pass:
    """One pass over what is to come. The session is as before afterwards. `up` are the jobs that run now."""

    session: Session
    begin: Mapping[str, JobView]
    arrivals: Mapping[str, Arrival]
    run_times: Mapping[str, RunTimes]
    left_s: _LeftOf
    grain: float
    at_s: float
    is_age_told: bool
    smallest_node: int
    moves_from_s: float
    up: set[str] = field(default_factory=set)
    now_s: float = 0.0
    views: dict[str, JobView] = field(default_factory=dict)
    runs: dict[str, _Run] = field(default_factory=dict)
    starts: dict[str, _Run] = field(default_factory=dict)
    ended: list[tuple[str, _Run]] = field(default_factory=list)
    stops: dict[str, list[PlannedStop]] = field(default_factory=dict)
    _ends: list[tuple[float, str]] = field(default_factory=list)
    _arriving: list[tuple[float, str]] = field(default_factory=list)
    _alarms: list[float] = field(default_factory=list)
    _waits_from_s: dict[str, float] = field(default_factory=dict)
    _started: set[str] = field(default_factory=set)
    _is_settled: bool = False
    _moments: int = 0

    def run(self, asked: AbstractSet[str]) -> None:
        """Go on until all that are asked for have started, or nothing can happen any more."""
        self.session.trials_of_moves = TRIALS_OF_MOVES if self.grain else math.inf
        self.views = dict(self.begin)
        for job_id in self.begin:
            job = self.session.jobs[job_id]
            if _is_up(job):
                self.up.add(job_id)
                self._begin_run(job, starts_anew=False)
        self._look_at_waits()
        self._arriving = sorted((arrival.in_s, job_id) for job_id, arrival in self.arrivals.items())
        self._change(self._arrived(), set())
        released, gone = self._after_terminating()
        for _ in range(MOST_CYCLES):
            self._decide()
            changed, ended = self._follow()
            changed, ended, released, gone = released | changed, ended | gone, {}, set()
            # Whoever has just started may have to go again at the same moment.
            if self.starts.keys() >= asked and (self.grain or not changed):
                break
            if not ended and (not changed or (self.grain and self._is_settled)):
                before_s = self.now_s
                over = self._forward()
                changed |= self._arrived()
                if not changed and not over and self.now_s == before_s:
                    break
                changed |= self._age()
                ended = {job_id for job_id in over if not self.runs[job_id].is_overdue_then}
            self._change(changed, ended)
        self.ended.sort(key=lambda entry: (-entry[1].ends_s, entry[0]))
        before = (view for job_id, view in self.begin.items() if self.views.get(job_id) is not view)
        self.session.change(before, self.arrivals.keys())

    def _change(self, changed: Mapping[str, JobView], ended: AbstractSet[str]) -> None:
        self.views |= changed
        for job_id in ended:
            self.views.pop(job_id, None)
            if (run := self.runs.pop(job_id, None)) is not None:
                self.ended.append((job_id, run))
        accepted = self._started if self._is_settled else set()
        if accepted:
            self.session.accept(changed[job_id] for job_id in accepted)
        done = accepted | ended
        self.session.change((view for job_id, view in changed.items() if job_id not in done), ended)

    def _decide(self) -> None:
        is_time_for_moves = self.now_s >= self.moves_from_s
        for name, action in ACTIONS.items():
            if name != "consolidate" or (self.session.trials_of_moves > 0 and is_time_for_moves):
                action(self.session)
        if self.session.has_consolidated:
            self.moves_from_s = self.now_s + self.session.policy.sharing.consolidate_every_s
        elif not is_time_for_moves:
            # Something has happened since moves were looked for last; where nothing has, none are found again.
            heapq.heappush(self._alarms, self.moves_from_s)

    # --- what was decided happens

    def _follow(self) -> tuple[dict[str, JobView], set[str]]:
        """Return the jobs as they are once what was decided has happened, and those that are over.

        It is settled if jobs were started only: another cycle at the same moment has nothing to add.
        """
        changed: dict[str, JobView] = {}
        ended = set()
        self._started.clear()
        causes = self.session.causes
        moved = dict.fromkeys(pod.job for pod in self.session.moved_since(0))
        for job in moved:
            job_id, before = job.view.id, job.view
            self._note_stops(job)
            # Of whoever has reached a time limit nothing waits again.
            if any(pod in causes and causes[pod].code in FOR_GOOD for pod in job.pods):
                ended.add(job_id)
                continue
            pods = tuple(map(_after, job.pods))
            if pods == tuple(pod.view for pod in job.pods):
                continue
            is_up = _is_up(job)
            if is_up and job_id not in self.runs:
                self._begin_run(job, starts_anew=True)
                self.starts.setdefault(job_id, self.runs[job_id])
                changed[job_id] = self._as_started(before, pods)
                if all(pod.state is PodState.STARTING for pod in job.pods):
                    self._started.add(job_id)
                continue
            view = replace(before, pods=pods)
            if not is_up and (run := self.runs.pop(job_id, None)) is not None:
                run.ends_s = self.now_s
                self.ended.append((job_id, run))
                if self.starts.get(job_id) is run and run.began_s == self.now_s:
                    del self.starts[job_id]
                view = replace(view, evictions=before.evictions + 1, saved_at=None, running_for_s=None)
                view = self._with_wait(self._with_claim_delay(view, self.now_s), self.now_s)
            changed[job_id] = view
        self._is_settled = len(self._started) == len(moved)
        return changed, ended

    def _note_stops(self, job: Job) -> None:
        for pod in job.pods:
            if pod.view.state is PodState.RUNNING and pod.state is not PodState.RUNNING:
                code, claimant, _ = self.session.causes[pod]
                if claimant is not None:
                    code = StopCode.MOVED if pod.state is PodState.RESERVED else code
                    stop = PlannedStop(job.view.id, self.now_s, code, goes_on=_is_up(job))
                    self.stops.setdefault(claimant.view.id, []).append(stop)
                    return

    def _begin_run(self, job: Job, *, starts_anew: bool) -> None:
        job_id = job.view.id
        held_s = 0.0 if starts_anew else self._held_s(job.view)
        left_s = self.left_s(job_id, starts_anew)
        limit_s = job.queue.rules_for(job.view).run_at_most_s
        allowed_s = math.inf if limit_s is None else max(0.0, limit_s - held_s)
        pods = job.active_pods()
        nodes = tuple(dict.fromkeys(pod.node.view.id for pod in pods if pod.node is not None))
        run = _Run(
            began_s=self.now_s - held_s,
            ends_s=self.now_s + min(left_s, allowed_s),
            node_ids=nodes,
            gpu_milli=self.session.charge_all(pods)[0],
            is_overdue_then=allowed_s < left_s,
        )
        self.runs[job_id] = run
        if run.ends_s < math.inf:
            heapq.heappush(self._ends, (run.ends_s, job_id))
        for min_runtime_s in min_runtimes_s(self.session, job.queue):
            heapq.heappush(self._alarms, run.began_s + min_runtime_s)

    def _held_s(self, view: JobView) -> float:
        """Return since how long a job has its place, as the rules of its queues count, else how long it has run."""
        if view.runs_since is None:
            return self.run_times.get(view.id, UNKNOWN).ran_s
        return max(0.0, self.at_s - view.runs_since)

    def _as_started(self, view: JobView, pods: tuple[PodView, ...]) -> JobView:
        running_for_s = 0.0 if self.is_age_told else None
        saved_at = self.at_s + self.now_s
        return replace(view, pods=pods, saved_at=saved_at, running_for_s=running_for_s, waited_s=None, claims_at=None)

    def _after_terminating(self) -> tuple[dict[str, JobView], set[str]]:
        """Return what the stops that are under way now lead to: jobs that wait again, and places that are left."""
        pods = [pod for view in self.begin.values() for pod in view.pods]
        other = {pod.id for pod in pods if pod.state is not PodState.TERMINATING}
        changed, left = {}, set()
        for job_id, view in self.begin.items():
            leaving = [pod for pod in view.pods if pod.state is PodState.TERMINATING]
            if leaving and all(pod.id in other for pod in leaving):
                left.add(job_id)  # its pods wait for their next place as a job of their own
            elif leaving:
                changed[job_id] = replace(view, pods=tuple(map(_released, view.pods)))
        return changed, left

    def _look_at_waits(self) -> None:
        """Note since when the jobs wait that wait now, and when something begins or ends by that alone."""
        for job_id in self.begin.keys() - self.up:
            view = self.begin[job_id]
            if view.waited_s is not None:
                since_s = view.waits_since
                self._waits_from_s[job_id] = -view.waited_s if since_s is None else since_s - self.at_s
                self._await_end_of_reservation(job_id, view.waited_s)
            if view.claims_at is not None:
                heapq.heappush(self._alarms, view.claims_at - self.at_s)

    # --- time passes

    def _forward(self) -> set[str]:
        """Go on to the next ends, and return the jobs that are over then; none: nothing ends any more."""
        over: set[str] = set()
        while self._alarms and self._alarms[0] <= self.now_s:
            heapq.heappop(self._alarms)
        arriving_s = self._arriving[0][0] if self._arriving else math.inf
        until_s = min(arriving_s, self._alarms[0]) if self._alarms else arriving_s
        while self._ends and self._ends[0][0] <= until_s:
            at_s, job_id = heapq.heappop(self._ends)
            run = self.runs.get(job_id)
            if run is None or run.ends_s != at_s or job_id in over:
                continue
            if not over:
                together_s = self.grain * at_s if self._moments >= APART else 0.0
                until_s = min(until_s, at_s + max(together_s, _LEAST_GRAIN_S if self.grain else 0.0))
                self._moments += 1
            over.add(job_id)
            self.now_s = max(self.now_s, at_s)
        if not over and until_s < math.inf:
            self.now_s = until_s
            until_s = min(until_s * (1 + self.grain), arriving_s, self._ends[0][0] if self._ends else math.inf)
            while self._alarms and self._alarms[0] <= until_s:
                self.now_s = heapq.heappop(self._alarms)
        return over

    def _arrived(self) -> dict[str, JobView]:
        """Return the jobs that are submitted by now."""
        arrived = {}
        while self._arriving and self._arriving[0][0] <= self.now_s:
            _, job_id = self._arriving.pop(0)
            _, view, since_s = self.arrivals[job_id]
            arrived[job_id] = self._with_wait(self._with_claim_delay(view, since_s), since_s)
        return arrived

    def _with_wait(self, view: JobView, since_s: float) -> JobView:
        """Return a job with its wait, which counts from then, if nodes may be reserved for it."""
        if not reservation.may_wait_for_nodes(view, self.smallest_node):
            return replace(view, waited_s=None)
        self._waits_from_s[view.id] = since_s
        waited_s = self._waited_s(view.id)
        self._await_end_of_reservation(view.id, waited_s)
        return replace(view, waited_s=waited_s)

    def _await_end_of_reservation(self, job_id: str, waited_s: float) -> None:
        """Look again at the minute in which nodes cease to be reserved for a job that waits, if they are now.

        That they begin to be lets nobody start.
        """
        policy = self.session.policy
        if policy.reserves_after(waited_s):
            _, end_s = policy.wait_span(waited_s)
            since_s = self.at_s + self._waits_from_s[job_id]
            minutes = math.ceil((since_s + end_s - _ROUNDING_S) / _MINUTE_S)
            heapq.heappush(self._alarms, minutes * _MINUTE_S - self.at_s)

    def _with_claim_delay(self, view: JobView, since_s: float) -> JobView:
        """Return a job whose wait counts from then with the end of its claim delay, unless that is over."""
        claims_s = since_s + claim_delay_s(self.session, self.session.queues[view.queue_id], view)
        if claims_s <= self.now_s:
            return view
        heapq.heappush(self._alarms, claims_s)
        return replace(view, claims_at=self.at_s + claims_s)

    def _waited_s(self, job_id: str) -> float:
        """Return how long a job has waited at the last full minute of the clock, in full minutes."""
        minute_s = (self.at_s + self.now_s + _ROUNDING_S) // _MINUTE_S * _MINUTE_S - self.at_s
        return max(0.0, minute_s - self._waits_from_s[job_id] + _ROUNDING_S) // _MINUTE_S * _MINUTE_S

    def _age(self) -> dict[str, JobView]:
        """Return the jobs of which time alone has changed something that rules look at."""
        changed = {}
        policy = self.session.policy
        for job_id in self.session.waiting:
            view = self.views.get(job_id)
            claims_at = view.claims_at if view is not None else None
            if view is not None and claims_at is not None and claims_at - self.at_s <= self.now_s + _ROUNDING_S:
                changed[job_id] = replace(view, claims_at=None)
        for job_id in self.session.waiting.keys() & self._waits_from_s.keys():
            view = changed.get(job_id) or self.views[job_id]
            waited_s = self._waited_s(job_id)
            if policy.reserves_after(waited_s) is not policy.reserves_after(view.waited_s):
                changed[job_id] = replace(view, waited_s=waited_s)
                self._await_end_of_reservation(job_id, waited_s)
        for job_id, run in self.runs.items():
            if (view := self.views[job_id]).running_for_s is not None or run.is_overdue_then:
                changed[job_id] = replace(view, running_for_s=self.now_s - run.began_s + _ROUNDING_S)
        return changed


def _is_up(job: Job) -> bool:
    """Return whether as much of a job runs as it needs, without what is reserved for more of it or moves."""
    sets = job.pod_sets.values()
    is_enough = all(pod_set.active >= pod_set.view.min_available for pod_set in sets if pod_set.reserved)
    return job.is_whole() and is_enough and any(pod.state in ACTIVE for pod in job.pods)


def _after(pod: Pod) -> PodView:
    """Return a pod as it is once what was decided has happened; what is stopped stops at once."""
    view, node_id = pod.view, pod.node.view.id if pod.node is not None else None
    match pod.state:
        case PodState.STARTING | PodState.RUNNING:
            return replace(view, state=PodState.RUNNING, node_id=node_id, devices=pod.devices)
        case PodState.RESERVED:
            return replace(view, state=PodState.RESERVED, node_id=node_id, devices=pod.devices)
        case PodState.PENDING:
            return replace(view, state=PodState.PENDING, node_id=None, devices=())
        case PodState.TERMINATING if pod.was_evicted:
            return replace(view, state=PodState.PENDING, node_id=None, devices=())
        case _:
            return view


def _released(pod: PodView) -> PodView:
    if pod.state is not PodState.TERMINATING:
        return pod
    return replace(pod, state=PodState.PENDING, node_id=None, devices=())


def _sum_up(job_id: str, passes: Sequence[_Pass]) -> StartForecast:
    runs = [one.starts.get(job_id) for one in passes]
    starts = sorted((math.inf if run is None else run.began_s, number) for number, run in enumerate(runs))
    likely_s, number = starts[math.ceil(_LIKELY * len(starts)) - 1]
    late_s, _ = starts[math.ceil(_LATE * len(starts)) - 1]
    one = passes[number]
    stops = _stops(one, job_id)
    if (run := runs[number]) is None:
        return StartForecast(likely_s, late_s, stops=stops)
    return StartForecast(likely_s, late_s, run.node_ids, _ahead(one, job_id), _holders(one, job_id), stops)


def _stops(one: _Pass, job_id: str) -> tuple[PlannedStop, ...]:
    """Return who is stopped for a job, and who for one of those, which takes another place at the same moment.

    Each is named once: who gives back replicas and is stopped after all, as stopped.
    """
    stops = list(one.stops.get(job_id, ()))
    looked_at = {job_id}
    named: dict[str, PlannedStop] = {}
    for stop in stops:  # more come while it goes on
        if stop.job_id not in looked_at:
            looked_at.add(stop.job_id)
            stops += [each for each in one.stops.get(stop.job_id, ()) if each.in_s == stop.in_s]
        if stop.job_id != job_id and (stop.job_id not in named or not stop.goes_on):
            named[stop.job_id] = stop
    return tuple(named.values())


def _ahead(one: _Pass, job_id: str) -> int:
    """Return how many of the jobs that wait now start before a job on its resource."""
    started = [other for other in one.starts if other not in one.up]
    pools = [one.session.node_of[one.starts[other].node_ids[0]].view.pool for other in started]
    place = started.index(job_id)
    return pools[:place].count(pools[place])


def _holders(one: _Pass, job_id: str) -> tuple[Holder, ...]:
    """Return those whose ends let a job start on its nodes, the last first, and no more than free what it asks for."""
    start = one.starts[job_id]
    holders: list[Holder] = []
    for other, run in one.ended:
        if run.ends_s > start.began_s or set(start.node_ids).isdisjoint(run.node_ids) or other == job_id:
            continue
        holders.append(Holder(other, run.ends_s, run.gpu_milli, other in one.starts and other not in one.up))
        if start.gpu_milli and sum(holder.gpu_milli for holder in holders) >= start.gpu_milli:
            break
    return tuple(holders)
