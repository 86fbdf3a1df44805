"""Reservations of nodes for big jobs, which a stream of small jobs would starve.

A small job takes every device as it becomes free, so a job that needs whole nodes would never see one empty. Once it
has waited for long, what is free on the nodes that can hold it all, and what becomes free there, is reserved. Only
work that comes after it in the order of service waits for that, and never for longer than the policy allows at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate

from scheduler.engine import placing
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import UNLIMITED, NodeLedger
from scheduler.engine.rules import affinity, pools, quotas
from scheduler.engine.session import Session
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import JobView, NodeView, Request


def smallest_node(nodes: Iterable[NodeView]) -> int:
    """Return how many GPUs the smallest node with GPUs has; 0: none has any."""
    return min(filter(None, (len(node.devices) for node in nodes)), default=0)


def may_wait_for_nodes(job: JobView, smallest: int) -> bool:
    """Return whether nodes may ever be reserved for a job where the smallest with GPUs has so many.

    Only then is its wait told.
    """
    return 0 < smallest <= sum(pod.request.gpus for pod in job.pods)


class Guard:
    """Reserves nodes during one pass over the waiting jobs. What is not big, or never fits, is tried once a kind."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._useless: set[object] = set()

    def may_go_on(self, job: Job) -> bool:
        """Return whether nodes may be reserved for the next job of the kind too: in another one of its pools."""
        return len(job.view.pools) > 1 and self._session.policy.reserves_after(job.view.waited_s)

    def reserve_if_due(self, job: Job, pods: Sequence[Pod]) -> None:
        """Reserve nodes for a job whose turn it was but that did not fit, if it is big and has waited long enough."""
        if pods and not job.root.is_satisfied() and self._session.policy.reserves_after(job.view.waited_s):
            pools.in_order(self._session, job, pods, lambda: self._reserve(job, pods))

    def _reserve(self, job: Job, pods: Sequence[Pod]) -> bool:
        session = self._session
        if _is_reserved_already(session, pods):
            return False
        kinds = Counter((pod.shape, affinity.rules_of(pod.view)) for pod in pods)
        question = (tuple(kinds.items()), job.view.structure)
        if question in self._useless or not _is_within_share(session, job, pods):
            return False
        if nodes := _choose(session, pods):
            session.reserve_nodes(job, nodes)
        else:
            self._useless.add(question)
        return bool(nodes)


@contextmanager
def opened(session: Session, job: Job) -> Iterator[list[NodeLedger]]:
    """Let a job use the nodes that are reserved for it; they stay reserved unless the job was placed."""
    nodes = session.release_nodes(job)
    yield nodes
    if nodes and not job.root.is_satisfied():
        session.reserve_nodes(job, nodes)


def _is_reserved_already(session: Session, pods: Sequence[Pod]) -> bool:
    """Return whether nodes of the same pool are reserved for a job that comes first in the order of service."""
    request = pods[0].shape.request
    return any(node.view.serves(request) for nodes in session.reserved_nodes.values() for node in nodes)


def _is_within_share(session: Session, job: Job, pods: Sequence[Pod]) -> bool:
    """Return whether its queues may hold the job: by their limits now, by their shares once their others are done."""
    amounts = session.charge_all(pods, at_least=True)
    if not quotas.may_hold(session, job, amounts):
        return False
    return not session.policy.quotas or all(
        amount <= share for queue in job.line for amount, share in zip(amounts, queue.may_hold, strict=True) if amount
    )


def _choose(session: Session, pods: Sequence[Pod]) -> list[NodeLedger]:
    """Return the nodes to reserve for the pods of a job, none if it is not big: at least the GPUs of the largest node.

    The freest come first. As nobody new gets in there, they are the freest in the next cycle too, and what has been
    gathered stays. All pods with GPUs are counted as if they were as large as the largest.
    """
    wanting = [pod for pod in pods if pod.shape.request.gpus]
    if not wanting:
        return []
    largest = max(wanting, key=lambda pod: pod.shape.request.gpus)
    request = largest.shape.request
    wide = [node for node in session.ready if node.reserved_amounts is None and _count_when_empty(node.view, request)]
    able = [node for node, fits in zip(wide, affinity.allowed(session, largest, wide), strict=True) if fits]
    widest = max((len(node.view.devices) for node in able), default=0)
    if sum(pod.shape.request.gpus for pod in wanting) < widest:
        return []
    domains = placing.required_domains(placing.constraint_of(largest), able)
    candidates = [nodes for domain in domains if (nodes := _freest(domain, request, len(wanting)))]
    nodes = max(candidates, key=lambda nodes: sum(node.free_milli() for node in nodes), default=[])
    rest = [pod.shape for pod in pods if not pod.shape.request.wants_gpu]
    return _with_rest(session, nodes, request, len(wanting), rest)


def _freest(nodes: Sequence[NodeLedger], request: Request, count: int) -> list[NodeLedger]:
    """Return as many of the freest nodes as hold so many pods once they are empty; none if all are too few."""
    ordered = sorted(nodes, key=lambda node: (-node.free_milli(), node.index))
    held = accumulate(_count_when_empty(node.view, request) for node in ordered)
    enough = next((number for number, pods in enumerate(held, start=1) if pods >= count), 0)
    return ordered[:enough]


def _with_rest(
    session: Session, nodes: list[NodeLedger], request: Request, count: int, rest: Iterable[Shape]
) -> list[NodeLedger]:
    """Return nodes that are to hold so many pods that make a request, with others for pods without GPUs; or none.

    Each of these that finds no capacity now, and would find none beside the pods, gets the freest other node, one
    without GPUs if possible.
    """
    spare = sum(_count_when_empty(node.view, request) for node in nodes) - count

    def is_beside(view: NodeView, other: Request) -> bool:
        pods, cpu = view.max_pods, view.cpu_millicores - other.cpu_millicores
        memory, most_pods = view.memory_bytes - other.memory_bytes, None if pods is None else pods - 1
        left = replace(view, cpu_millicores=cpu, memory_bytes=memory, max_pods=most_pods)
        cost = _count_when_empty(view, request) - _count_when_empty(left, request)
        return cost <= spare and _count_when_empty(view, other) > 0

    further: list[NodeLedger] = []
    for shape in rest if nodes else ():
        other = shape.request
        is_served = any(node not in nodes for node in shape.fitting(session.table, session.policy))
        if is_served or any(is_beside(node.view, other) for node in nodes):
            continue
        able = [
            node
            for node in session.serving(other)
            if node not in nodes and node.reserved_amounts is None and _count_when_empty(node.view, other)
        ]
        if not able:
            return []
        further.append(
            max(able, key=lambda node: (not node.view.devices, node.idle_cpu + node.releasing_cpu, -node.index))
        )
    return nodes + further


def _count_when_empty(node: NodeView, request: Request) -> int:
    """Return how many pods that ask for whole devices, or for none, an empty node holds."""
    if not node.serves(request):
        return 0
    bounds = [len(node.devices) // request.gpus] if request.gpus else []
    if request.cpu_millicores:
        bounds.append(node.cpu_millicores // request.cpu_millicores)
    if request.memory_bytes:
        bounds.append(node.memory_bytes // request.memory_bytes)
    if node.max_pods is not None:
        bounds.append(node.max_pods)
    return min(bounds, default=UNLIMITED)
