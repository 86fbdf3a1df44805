"""A cluster that replays jobs on a simulated clock and lets the engine decide whenever something changed.

A job that is stopped, be it to be moved, goes on from its last checkpoint; it leaves at once. What queues hold is
compared at every moment with the shares that an independent water filling gives them.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.rules.quotas import claim_delay_s
from scheduler.engine.session import Session
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    QueueView,
    Quota,
    Request,
    Snapshot,
)

NODE_GPUS = 8
CHECKPOINT_S = 1800.0
CYCLES_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the trace: when it comes, how long it works on how many GPUs, and for whom."""

    at_s: float
    work_s: float
    gpus: int
    queue: str


class _Kind(IntEnum):
    """What may happen, in the order in which things at one moment are looked at."""

    END = 0
    ARRIVE = 1
    MAY_CLAIM = 2


@dataclass(slots=True, eq=False)
class Work:
    """A job of the replay: what of it is safe in a checkpoint, and where it runs."""

    arrival: Arrival
    number: int
    view: JobView
    done_s: float = 0.0
    started_s: float | None = None
    waited_s: float = 0.0
    waits_since_s: float = 0.0
    attempt: int = 0
    evictions: int = 0
    moves: int = 0
    is_over: bool = False


@dataclass(slots=True)
class Measures:
    """What is added up over the replay, in GPU-seconds unless said otherwise."""

    works: Sequence[Work]
    held: float = 0.0
    useful: float = 0.0
    fair: float = 0.0
    off_fair: float = 0.0
    guaranteed: float = 0.0
    off_guaranteed: float = 0.0
    lost: float = 0.0
    cycles: int = 0

    def add(
        self, seconds: float, capacity: int, quotas: Sequence[int], held: Sequence[int], asked: Sequence[int]
    ) -> None:
        """Count a stretch of time in which nothing changed."""
        fair = fill(capacity, quotas, asked)
        guaranteed = [min(quota, wish) for quota, wish in zip(quotas, asked, strict=True)]
        self.held += seconds * sum(held)
        self.useful += seconds * min(capacity, sum(asked))
        self.fair += seconds * sum(fair)
        self.off_fair += seconds * sum(abs(have - share) for have, share in zip(held, fair, strict=True)) / 2
        self.guaranteed += seconds * sum(guaranteed)
        self.off_guaranteed += seconds * sum(max(0, due - have) for have, due in zip(held, guaranteed, strict=True))


def fill(capacity: float, quotas: Sequence[float], asked: Sequence[float]) -> list[float]:
    """Share out: to each its quota, then the rest in the ratio of quotas, to nobody more than it asks for."""
    shares = [float(min(quota, wish)) for quota, wish in zip(quotas, asked, strict=True)]
    rest = capacity - sum(shares)
    hungry = [index for index, wish in enumerate(asked) if wish > shares[index] and quotas[index] > 0]
    while rest > 1e-9 and hungry:
        level = min((asked[index] - shares[index]) / quotas[index] for index in hungry)
        level = min(level, rest / sum(quotas[index] for index in hungry))
        for index in hungry:
            shares[index] += level * quotas[index]
        rest -= level * sum(quotas[index] for index in hungry)
        hungry = [index for index in hungry if asked[index] - shares[index] > 1e-9]
    return shares


class Replay:
    """The cluster with its clock. It ends when the last job arrives, so the empty time after that flatters nothing."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        quotas: dict[str, int],
        *,
        nodes: int,
        policy: Policy,
    ) -> None:
        queues = [make_queue(name, quota) for name, quota in quotas.items()]
        self._session = Session(Snapshot([make_node(index) for index in range(nodes)], queues), policy)
        self._moves_from_s = 0.0
        self._capacity = NODE_GPUS * nodes
        self._index = {name: index for index, name in enumerate(quotas)}
        self._quotas = list(quotas.values())
        self._works = [Work(arrival, number, make_job(number, arrival)) for number, arrival in enumerate(arrivals)]
        self._events = [(work.arrival.at_s, _Kind.ARRIVE, work.number, 0) for work in self._works]
        heapq.heapify(self._events)
        self._checkpoints: list[tuple[float, int, int]] = []
        self._waiting = 0
        self._changed: dict[int, Work] = {}
        self._gone: list[str] = []
        self._held = [0] * len(quotas)
        self._asked = [0] * len(quotas)
        self._now_s = self._events[0][0]
        self.measures = Measures(self._works)

    def run(self, *, watch: Callable[[int], None] = lambda _number: None) -> Measures:
        """Replay until the last job has come; `watch` is told the number of each one that comes."""
        last_s = self._works[-1].arrival.at_s
        while self._events and self._events[0][0] <= last_s:
            self._forward_to(self._events[0][0])
            self._take_events(watch)
            if self._waiting:
                self._decide()
        for work in self._works:
            if work.started_s is None and not work.is_over:
                work.waited_s += last_s - work.waits_since_s
        return self.measures

    def _forward_to(self, now_s: float) -> None:
        if now_s > self._now_s:
            self.measures.add(now_s - self._now_s, self._capacity, self._quotas, self._held, self._asked)
            self._now_s = now_s

    def _take_events(self, watch: Callable[[int], None]) -> None:
        while self._events and self._events[0][0] <= self._now_s:
            _, kind, number, attempt = heapq.heappop(self._events)
            work = self._works[number]
            if kind is _Kind.ARRIVE:
                watch(number)
                self._asked[self._index[work.arrival.queue]] += work.arrival.gpus
                self._line_up(work)
            elif attempt == work.attempt and kind is _Kind.END:
                self._end(work)
            elif attempt == work.attempt and work.started_s is None and not work.is_over:
                work.view = replace(work.view, claims_at=None)
                self._changed[number] = work

    def _line_up(self, work: Work) -> None:
        work.waits_since_s = self._now_s
        self._waiting += 1
        self._changed[work.number] = work
        if delay_s := claim_delay_s(self._session, self._session.queues[work.arrival.queue], work.view):
            work.view = replace(work.view, claims_at=self._now_s + delay_s)
            heapq.heappush(self._events, (self._now_s + delay_s, _Kind.MAY_CLAIM, work.number, work.attempt))

    def _end(self, work: Work) -> None:
        index = self._index[work.arrival.queue]
        self._held[index] -= work.arrival.gpus
        self._asked[index] -= work.arrival.gpus
        work.is_over, work.started_s = True, None
        self._changed.pop(work.number, None)
        self._gone.append(work.view.id)

    # --- what the engine is told, and what it decides

    def _decide(self) -> None:
        """Run cycles until nobody waits for capacity that another one leaves."""
        self._take_checkpoints()
        for _ in range(CYCLES_AT_ONCE):
            self._session.change([work.view for work in self._changed.values()], self._gone)
            self._changed.clear()
            self._gone.clear()
            self._run_cycle()
            self.measures.cycles += 1
            moved = dict.fromkeys(pod.job for pod in self._session.moved_since(0))
            if not sum(self._follow(job) for job in moved):
                return
        raise RuntimeError(f"the cycles at {self._now_s} s do not come to rest")

    def _run_cycle(self) -> None:
        """Run the actions that may do something: without a free GPU nothing is given, no job has priority to preempt by."""
        left_out = {"preempt"}
        if sum(self._held) == self._capacity:
            left_out |= {"allocate", "consolidate"}
        elif self._now_s < self._moves_from_s:
            left_out.add("consolidate")
        for name, action in ACTIONS.items():
            if name not in left_out:
                action(self._session)
        if self._session.has_consolidated:
            self._moves_from_s = self._now_s + self._session.policy.sharing.consolidate_every_s

    def _take_checkpoints(self) -> None:
        """Note what of running jobs changed with time alone. How long one has run is told as often as it is saved."""
        while self._checkpoints and self._checkpoints[0][0] <= self._now_s:
            at_s, number, attempt = heapq.heappop(self._checkpoints)
            work = self._works[number]
            if attempt == work.attempt and work.started_s is not None:
                at_s += (self._now_s - at_s) // CHECKPOINT_S * CHECKPOINT_S
                work.view = replace(work.view, saved_at=at_s, running_for_s=at_s - work.started_s)
                self._changed[number] = work
                heapq.heappush(self._checkpoints, (at_s + CHECKPOINT_S, number, attempt))

    def _follow(self, job: Job) -> bool:
        """Do with a job what was decided; return whether it was promised capacity."""
        work = self._works[int(job.view.id)]
        pods = tuple(_as_told(pod) for pod in job.pods)
        if pods == work.view.pods:
            return False
        self._changed[work.number] = work
        is_promised = any(pod.state is PodState.RESERVED for pod in pods)
        if work.started_s is not None:
            self._stop(work, is_move=is_promised)
        work.view = replace(work.view, pods=pods)
        if all(pod.state is PodState.RUNNING for pod in pods):
            self._start(work)
        elif any(pod.state is PodState.RUNNING for pod in pods) and not is_promised:
            raise RuntimeError(f"half of job {job.view.id} runs")  # of one that moves a part may stay where it is
        return is_promised

    def _start(self, work: Work) -> None:
        self._waiting -= 1
        work.started_s = self._now_s
        work.waited_s += self._now_s - work.waits_since_s
        work.view = replace(work.view, saved_at=self._now_s, running_for_s=0.0)
        heapq.heappush(self._checkpoints, (self._now_s + CHECKPOINT_S, work.number, work.attempt))
        self._held[self._index[work.arrival.queue]] += work.arrival.gpus
        ends_s = self._now_s + work.arrival.work_s - work.done_s
        heapq.heappush(self._events, (ends_s, _Kind.END, work.number, work.attempt))

    def _stop(self, work: Work, *, is_move: bool) -> None:
        saved_at = work.view.saved_at
        assert work.started_s is not None
        assert saved_at is not None
        self.measures.lost += (self._now_s - saved_at) * work.arrival.gpus
        work.done_s += saved_at - work.started_s
        work.evictions += not is_move
        work.moves += is_move
        work.attempt += 1
        work.started_s = None
        # As the product counts them.
        stops = work.evictions + work.moves
        work.view = replace(work.view, saved_at=None, running_for_s=None, evictions=stops)
        self._held[self._index[work.arrival.queue]] -= work.arrival.gpus
        self._line_up(work)


def _as_told(pod: Pod) -> PodView:
    """Return a task as it is once what was decided has happened; who has to leave leaves at once."""
    node_id = pod.node.view.id if pod.node is not None else None
    match pod.state:
        case PodState.STARTING | PodState.RUNNING:
            return replace(pod.view, state=PodState.RUNNING, node_id=node_id, devices=pod.devices)
        case PodState.RESERVED:
            return replace(pod.view, state=PodState.RESERVED, node_id=node_id, devices=pod.devices)
        case _:
            return replace(pod.view, state=PodState.PENDING, node_id=None, devices=())


def make_node(index: int) -> NodeView:
    """Return a node of 8 GPUs."""
    name = f"node{index:03}"
    return NodeView(name, name, 64_000, 2**38, tuple(range(NODE_GPUS)), 32_000)


def make_queue(name: str, quota: int) -> QueueView:
    """Return a queue with a quota of whole GPUs, and over-quota weight in the ratio of it."""
    return QueueView(name, name, rank=(name,), quota=Quota(1000 * quota), weights=(quota, 1, 1))


def make_job(number: int, arrival: Arrival) -> JobView:
    """Return a job as one task, or as a gang of equal tasks where one node is not enough."""
    count = -(-arrival.gpus // NODE_GPUS)
    request = Request(gpus=arrival.gpus // count)
    pods = tuple(PodView(f"{number}-{index}", PodState.PENDING, request) for index in range(count))
    return JobView(str(number), arrival.queue, pods, GroupView((PodSetView("", count),)), rank=(number,))
