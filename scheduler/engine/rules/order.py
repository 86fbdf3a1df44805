"""In which order queues and jobs are served."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from scheduler.engine.jobs import Job, Task
from scheduler.engine.queues import QueueState
from scheduler.engine.rules import affinity
from scheduler.engine.session import Session

Key = tuple[object, ...]


def queue_key(session: Session, queue: QueueState, more: Sequence[float], less: Sequence[float] = (0, 0, 0)) -> Key:
    """Return the place of a queue if it were to hold `more` and had given up `less`. Smaller keys are served first.

    First who is not over its fair share in everything; then who stays within its quota; then the higher priority;
    then who uses nothing that it has no share of; then whose largest use, measured by its share, stays smallest, with
    and then without the job; the weaker and then the older queue breaks ties.
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
    """The jobs that wait, taken one by one: from the queue whose turn it is, its most urgent job."""

    def __init__(self, session: Session, jobs: Iterable[Job], next_tasks: Callable[[Job], list[Task]]) -> None:
        self._session = session
        self._next_tasks = next_tasks
        self._by_priority = session.policy.priorities
        self._lines: dict[QueueState, list[tuple[Key, int, Job]]] = {}
        self._fronts: dict[QueueState, _Front | None] = {}
        self._passed: set[tuple[QueueState, object]] = set()
        self._number = 0
        for job in jobs:
            self._lines.setdefault(job.queue, []).append(self._entry(job))
        for line in self._lines.values():
            heapq.heapify(line)
        self._roots = [queue for queue in session.queues.values() if queue.parent is None]

    def push(self, job: Job) -> None:
        """Put a job into the line of its queue."""
        heapq.heappush(self._lines.setdefault(job.queue, []), self._entry(job))
        self._forget(job.queue)

    def pop(self) -> tuple[Job, list[Task]] | None:
        """Take out the job whose turn it is, with the tasks that start next; None when no job waits."""
        front = self._best(self._roots)
        if front is None:
            return None
        heapq.heappop(self._lines[front.job.queue])
        self._forget(front.job.queue)
        return front.job, front.tasks

    def pop_alike(self, job: Job, most: int) -> list[Job]:
        """Take out those who come right after a job and are of its kind, if no other queue waits for its turn."""
        line, kind = self._lines[job.queue], kind_of(job)
        found: list[Job] = []
        if kind is not None and not any(other for other in self._lines.values() if other is not line):
            while line and len(found) < most and kind_of(line[0][2]) == kind:
                found.append(heapq.heappop(line)[2])
            self._forget(job.queue)
        return found

    def pass_over(self, job: Job) -> None:
        """Leave out those who are of the kind of a job, as nothing can be done for them: until `look_again`."""
        if (kind := kind_of(job)) is not None:
            self._passed.add((job.queue, kind))
            self._forget(job.queue)

    def look_again(self) -> None:
        """Leave out nobody any more of those who still wait: something has changed."""
        self._passed.clear()

    def _entry(self, job: Job) -> tuple[Key, int, Job]:
        self._number += 1
        return job.order(by_priority=self._by_priority), self._number, job

    def _forget(self, queue: QueueState) -> None:
        for above in queue.line:
            self._fronts.pop(above, None)

    def _best(self, queues: Sequence[QueueState]) -> "_Front | None":
        fronts = [front for queue in queues if (front := self._front(queue)) is not None]
        if len(fronts) <= 1:
            return fronts[0] if fronts else None
        return min(fronts, key=self._key_of)

    def _front(self, queue: QueueState) -> "_Front | None":
        """Return the job that stands for a queue; it is looked for again when what the queue holds has changed."""
        if queue in self._fronts:
            known = self._fronts[queue]
            if known is None or known.version == queue.version:
                return known
        front = None
        if queue.children:
            if below := self._best(queue.children):
                front = _Front(queue, queue.version, below.job, below.tasks)
        elif line := self._lines.get(queue):
            while line and self._passed and (queue, kind_of(line[0][2])) in self._passed:
                heapq.heappop(line)
            if line:
                job = line[0][2]
                front = _Front(queue, queue.version, job, self._next_tasks(job))
        self._fronts[queue] = front
        return front

    def _key_of(self, front: "_Front") -> Key:
        if front.key is None:
            front.key = queue_key(self._session, front.queue, self._session.charge_all(front.tasks))
        return front.key


def kind_of(job: Job) -> object:
    """Return what tells apart what can be done for jobs of one queue that hold nothing; None if that is its own."""
    view = job.view
    if job.holding or not all(affinity.is_free(task) for task in view.tasks):
        return None
    shapes = tuple(task.shape for task in job.tasks)
    return shapes, view.structure, view.pools, view.priority, view.is_preemptible, view.may_evict


@dataclass(slots=True)
class _Front:
    """The job that stands for a queue. Its key is worked out only if another queue competes."""

    queue: QueueState
    version: int
    job: Job
    tasks: list[Task]
    key: Key | None = None
