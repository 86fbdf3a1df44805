"""In which order queues and jobs are served."""

import heapq
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.lines import Key, Kind, Line, Lines, kind_of, may_go_together
from scheduler.engine.queues import QueueState
from scheduler.engine.session import Session


def queue_key(session: Session, queue: QueueState, more: Sequence[float], less: Sequence[float] = (0, 0, 0)) -> Key:
    """Return the place of a queue if it were to hold `more` and had given up `less`. Smaller keys are served first.

    The order: not over the fair share in everything; within the quota with the job; the higher priority; no use without
    a share; the smallest largest use relative to the share, with and then without the job; the weaker, the older.
    """
    if not session.policy.quotas:
        return (queue.view.rank, queue.view.id)
    held, fair, quota, share, total = queue.held, queue.fair, queue.quota, queue.may_hold, session.total
    with_job = (held[0] + more[0], held[1] + more[1], held[2] + more[2])
    now = (held[0] - less[0], held[1] - less[1], held[2] - less[2])
    then = (now[0] + more[0], now[1] + more[1], now[2] + more[2])
    return (
        held[0] > fair[0] and held[1] > fair[1] and held[2] > fair[2],
        with_job[0] > quota[0] or with_job[1] > quota[1] or with_job[2] > quota[2],
        -queue.view.priority,
        (with_job[0] > 0 and not share[0]) or (with_job[1] > 0 and not share[1]) or (with_job[2] > 0 and not share[2]),
        max(_part(then[0], share[0], total[0]), _part(then[1], share[1], total[1]), _part(then[2], share[2], total[2])),
        max(_part(now[0], share[0], total[0]), _part(now[1], share[1], total[1]), _part(now[2], share[2], total[2])),
        (share[0], share[1], share[2]),
        queue.view.rank,
        queue.view.id,
    )


def _part(held: float, share: float, total: float) -> float:
    """Return how much of its share is held; a share without bound is the whole cluster, one of nothing is tiny."""
    if not share:
        return held * 1000.0
    return held / (total or 1) if share == inf else held / share


class JobQueue:
    """The jobs of some lines, taken one by one: from the queue whose turn it is, its most urgent job."""

    def __init__(self, session: Session, lines: Lines, next_pods: Callable[[Job], list[Pod]]) -> None:
        self._session = session
        self._next_pods = next_pods
        self._heads: dict[QueueState, list[_Head]] = {}
        self._fronts: dict[QueueState, _Front | None] = {}
        self._popped: tuple[QueueState, Kind] | None = None
        self._passed: set[tuple[QueueState, Kind]] = set()
        self._left_out: list[tuple[QueueState, _Head]] = []
        for queue, kinds in lines.items():
            heads = self._heads[queue] = [_Head(line[0][0], 0, line, kind) for kind, line in kinds.items()]
            heapq.heapify(heads)
        self._roots = [queue for queue in session.queues.values() if queue.parent is None]

    def push(self, job: Job) -> None:
        """Put a job into the line of its queue."""
        key = job.order(by_priority=self._session.policy.priorities)
        kind = kind_of(job, self._session.policy)
        heapq.heappush(self._heads.setdefault(job.queue, []), _Head(key, 0, [(key, job)], kind))
        self._forget(job.queue)

    def pop(self) -> tuple[Job, list[Pod]] | None:
        """Take out the job whose turn it is, with the pods that start next; None when no job waits."""
        front = self._best(self._roots)
        if front is None:
            return None
        self._popped = front.job.queue, self._heads[front.job.queue][0].kind
        self._step(front.job.queue)
        return front.job, front.pods

    def pop_alike(self, most: int) -> list[Job]:
        """Take out the jobs right after the one popped last that may claim with it, if no other queue waits.

        To the letter of the open-sourced Run:AI scheduler only those of its very kind may.
        """
        assert self._popped is not None  # noqa: S101 (somebody was popped before)
        queue, kind = self._popped
        alike: list[Job] = []
        if kind is not None and not any(heads for other, heads in self._heads.items() if other is not queue):
            heads = self._heads[queue]
            is_alike = may_go_together if self._session.policy.honors_reservations else operator.eq
            while heads and len(alike) < most and is_alike(heads[0].kind, kind):
                alike.append(heads[0].job)
                self._step(queue)
        return alike

    def leave_out(self, queue: QueueState) -> None:
        """Skip all jobs of a queue from now on."""
        self._heads[queue] = []
        self._forget(queue)

    def pass_over(self) -> None:
        """Skip jobs of the kind of the one popped last, as nothing can be done for them: until `reconsider_all`."""
        if self._popped is not None and self._popped[1] is not None:
            self._passed.add(self._popped)
            self._forget(self._popped[0])

    def reconsider_all(self) -> None:
        """Skip no job any more: something has changed."""
        for queue, head in self._left_out:
            heapq.heappush(self._heads[queue], head)
            self._forget(queue)
        self._left_out.clear()
        self._passed.clear()

    def _step(self, queue: QueueState) -> None:
        """Step to the next job of a queue."""
        heads = self._heads[queue]
        _, at, line, kind = heads[0]
        if at + 1 < len(line):
            heapq.heapreplace(heads, _Head(line[at + 1][0], at + 1, line, kind))
        else:
            heapq.heappop(heads)
        self._forget(queue)

    def _forget(self, queue: QueueState) -> None:
        for above in queue.line:
            self._fronts.pop(above, None)

    def _best(self, queues: Sequence[QueueState]) -> "_Front | None":
        fronts = [front for queue in queues if (front := self._front(queue)) is not None]
        if len(fronts) <= 1:
            return fronts[0] if fronts else None
        return min(fronts, key=self._key_of)

    def _front(self, queue: QueueState) -> "_Front | None":
        """Return the first job of a queue; it is searched again when what the queue holds has changed."""
        if queue in self._fronts:
            known = self._fronts[queue]
            if known is None or known.version == queue.version:
                return known
        front = None
        if queue.children:
            if below := self._best(queue.children):
                front = _Front(queue, queue.version, below.job, below.pods)
        elif heads := self._heads.get(queue):
            while heads and (queue, heads[0].kind) in self._passed:
                self._left_out.append((queue, heapq.heappop(heads)))
            if heads:
                job = heads[0].job
                front = _Front(queue, queue.version, job, self._next_pods(job))
        self._fronts[queue] = front
        return front

    def _key_of(self, front: "_Front") -> Key:
        if front.key is None:
            front.key = queue_key(self._session, front.queue, self._session.charge_all(front.pods))
        return front.key


class _Head(NamedTuple):
    """The next job of a line: keys are all different, so nothing else is compared."""

    key: Key
    at: int
    line: Line
    kind: Kind

    @property
    def job(self) -> Job:
        """The job."""
        return self.line[self.at][1]


@dataclass(slots=True)
class _Front:
    """The first job of a queue. Its key is worked out only if another queue competes."""

    queue: QueueState
    version: int
    job: Job
    pods: list[Pod]
    key: Key | None = None
