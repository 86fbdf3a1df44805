"""The guard of big work: room is kept for a job that a stream of small ones would starve.

A small job takes every device as it becomes free, so a job that needs whole nodes would never see one empty. Once it
has waited for long, what is free on the nodes that can hold it all, and what becomes free there, is kept for it. Only
work that comes after it in the order of service waits for that, and never for longer than the policy allows at a time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import affinity, limits, pools, topology
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NodeView, Policy, Request


class Guard:
    """Keeps room during one pass over those who wait. What is not big, or never fits, is looked at once a kind."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._useless: set[object] = set()
        self._smallest = min((len(node.view.devices) for node in session.ready if node.view.devices), default=0)

    def may_be_for(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Return whether a job might be one of those for which room is kept, now or later."""
        if self._session.policy.reserve_after_s is None or job.view.waited_s is None:
            return False
        return sum(task.shape.request.gpus for task in tasks) >= self._smallest > 0

    def reserve_if_due(self, job: Job, tasks: Sequence[Task]) -> None:
        """Keep room for a job whose turn it was, but that did not fit, if it is big and has waited for its guard."""
        if tasks and not job.root.is_satisfied() and is_time(self._session.policy, job.view.waited_s):
            pools.in_order(self._session, job, tasks, lambda: self._reserve(job, tasks))

    def _reserve(self, job: Job, tasks: Sequence[Task]) -> bool:
        session = self._session
        if _is_taken(session, tasks):
            return False
        kinds = Counter((task.shape, affinity.rules_of(task.view)) for task in tasks)
        question = (tuple(kinds.items()), topology.placement_of(job))
        if question in self._useless or not _is_within_share(session, job, tasks):
            return False
        if nodes := _choose(session, job, tasks):
            session.keep(job, nodes)
        else:
            self._useless.add(question)
        return bool(nodes)


@contextmanager
def opened(session: Session, job: Job) -> Iterator[list[NodeLedger]]:
    """Let a job use the room that is kept for it, on these nodes; it is kept on unless the job got its place."""
    nodes = session.let_go(job)
    yield nodes
    if nodes and not job.root.is_satisfied():
        session.keep(job, nodes)


def is_time(policy: Policy, waited_s: float | None) -> bool:
    """Return whether room is kept for who has waited so long: for some time after some waiting, and then again.

    Each time twice as much waiting goes by before, so room that turns out to be of no use stands empty ever more
    seldom. Nothing has to be remembered between cycles.
    """
    if policy.reserve_after_s is None or waited_s is None:
        return False
    end_s = policy.reserve_after_s + policy.reserve_for_s
    while waited_s >= end_s:
        end_s *= 2
    return waited_s >= end_s - policy.reserve_for_s


def _is_taken(session: Session, tasks: Sequence[Task]) -> bool:
    """Return whether nodes of the same pool are kept for another job: of several the first in the order is guarded."""
    request = tasks[0].shape.request
    return any(node.view.serves(request) for nodes in session.kept.values() for node in nodes)


def _is_within_share(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether its queues may hold the job: by their limits now, by their shares once their others are done."""
    amounts = session.charge_all(tasks, at_least=True)
    if not limits.may_hold(session, job, amounts):
        return False
    return not session.policy.quotas or all(
        amount <= share for queue in job.line for amount, share in zip(amounts, queue.may_hold, strict=True) if amount
    )


def _choose(session: Session, job: Job, tasks: Sequence[Task]) -> list[NodeLedger]:
    """Return the nodes to keep for a job, nothing if it is not big: at least the GPUs of the largest node.

    The freest come first. As nobody new gets in there, they are the freest in the next cycle too, and what has been
    gathered stays. All tasks are counted as if they were as large as the largest.
    """
    wanting = [task for task in tasks if task.shape.request.gpus]
    if not wanting:
        return []
    largest = max(wanting, key=lambda task: task.shape.request.gpus)
    request = largest.shape.request
    wide = [node for node in session.ready if node.kept is None and _count_when_empty(node.view, request)]
    able = [node for node, fits in zip(wide, affinity.allowed(session, largest, wide), strict=True) if fits]
    widest = max((len(node.view.devices) for node in able), default=0)
    if sum(task.shape.request.gpus for task in wanting) < widest:
        return []
    domains = topology.required_domains(topology.placement_of(job), able)
    found = [_freest(domain, request, len(wanting)) for domain in domains]
    return max(found, key=lambda nodes: sum(node.free_milli() for node in nodes), default=[])


def _freest(nodes: Sequence[NodeLedger], request: Request, count: int) -> list[NodeLedger]:
    """Return as many of the freest nodes as hold so many tasks once they are empty; none if all are too few."""
    ordered = sorted(nodes, key=lambda node: (-node.free_milli(), node.index))
    held = accumulate(_count_when_empty(node.view, request) for node in ordered)
    enough = next((number for number, tasks in enumerate(held, start=1) if tasks >= count), 0)
    return ordered[:enough]


def _count_when_empty(node: NodeView, request: Request) -> int:
    """Return how many tasks that ask for whole devices an empty node holds."""
    if not node.serves(request):
        return 0
    bounds = [len(node.devices) // request.gpus]
    if request.cpu_millicores:
        bounds.append(node.cpu_millicores // request.cpu_millicores)
    if request.memory_bytes:
        bounds.append(node.memory_bytes // request.memory_bytes)
    if node.max_tasks is not None:
        bounds.append(node.max_tasks)
    return min(bounds)
