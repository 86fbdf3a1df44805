"""How many pods could be placed if certain others terminated: an upper bound, so that a "no" needs no simulation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.units import ONE_GPU
from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import UNLIMITED, NodeLedger
from scheduler.engine.lines import Unit
from scheduler.engine.session import Session
from scheduler.engine.shapes import Shape

_Freed = list[int]


class UpperBound:
    """Says whether pods might fit after others terminate: each kind of them, counted alone.

    Claims in one go are counted as if each were as large as the largest: there a "no" only means to try fewer of them.
    Slices of devices that are cut as requests come are bounded by the capacity they take, wherever it lies. Shares, and
    slices that were cut once, are not bounded: for them every answer is "maybe".
    """

    def __init__(self, session: Session, pods: Sequence[Pod], terminating: Sequence[Unit]) -> None:
        kinds = Counter(pod.shape for pod in pods)
        if len({pod.job for pod in pods}) > 1:
            kinds = Counter({_largest(session, kinds): len(pods)})
        bounds = [
            _Bound(session, shape, needed, terminating)
            for shape, needed in kinds.items()
            if not shape.request.is_shared and not shape.counts_slices
        ]
        self.is_known = len(bounds) == len(kinds)
        """Whether there is a bound for all of them."""
        self._bounds = [bound for bound in bounds if not bound.is_enough()]
        self.may_be_one_node = all(bound.may_be_one_node(session) for bound in self._bounds)
        """Whether what is missing could all be found on one node, were it empty."""

    def free(self, unit: Unit) -> None:
        """Count a unit as gone from where it is."""
        for bound in self._bounds:
            bound.free(unit)

    def is_enough(self) -> bool:
        """Return whether all pods might fit."""
        return all(bound.is_enough() for bound in self._bounds)

    def is_enough_on(self, node: NodeLedger) -> bool:
        """Return whether all pods might fit if, of what was freed since the beginning, only one node's counted."""
        return all(bound.is_enough_on(node) for bound in self._bounds)


class _Bound:
    """Counts, node by node, how many pods of one kind fit after others terminate."""

    def __init__(self, session: Session, shape: Shape, needed: int, terminating: Sequence[Unit]) -> None:
        self._shape, self._needed = shape, needed
        self._is_cut = bool(shape.request.mig)
        self._freed: dict[NodeLedger, _Freed] = {}
        self._counts: dict[NodeLedger, int] = {}
        self._total = 0
        for node in shape.fitting(session.table, session.policy):
            self._recount(node)
            if self.is_enough():
                break  # others need not leave, nor be counted, for this kind
        for unit in terminating:
            self.free(unit)
        self._fixed = dict(self._counts)
        self._base = self._total

    def may_be_one_node(self, session: Session) -> bool:
        """Return whether what is missing could all be found on one node, were it empty."""
        missing = self._needed - self._base
        return any(_most_on(node, self._shape) >= missing for node in session.serving(self._shape.request))

    def free(self, unit: Unit) -> None:
        """Count a unit as gone from where it is."""
        for pod in unit:
            if pod.node is None:
                continue
            request = pod.shape.request
            freed = self._freed.setdefault(pod.node, [0, 0, 0, 0])
            freed[0] += request.cpu_millicores
            freed[1] += request.memory_bytes
            if self._is_cut:
                freed[2] += pod.shape.charge(pod.node.kind)[0]
            elif request.wants_gpu:
                freed[2] += request.gpus or max(request.devices, len(pod.devices))
            freed[3] += 1
        for node in dict.fromkeys(pod.node for pod in unit if pod.node is not None):
            self._recount(node)

    def is_enough(self) -> bool:
        """Return whether all might fit."""
        return self._total >= self._needed

    def is_enough_on(self, node: NodeLedger) -> bool:
        """Return whether all might fit if, of what was freed since the beginning, only one node's counted."""
        return self._base - self._fixed.get(node, 0) + self._counts.get(node, 0) >= self._needed

    def _recount(self, node: NodeLedger) -> None:
        request = self._shape.request
        cpu, memory, gpus, pods = self._freed.get(node, (0, 0, 0, 0))
        count = node.idle_pods + node.releasing_pods + pods
        if request.cpu_millicores:
            count = min(count, (node.idle_cpu + node.releasing_cpu + cpu) // request.cpu_millicores)
        if request.memory_bytes:
            count = min(count, (node.idle_memory + node.releasing_memory + memory) // request.memory_bytes)
        if request.gpus:
            count = min(count, (node.idle_gpus + node.releasing_gpus + gpus) // request.gpus)
        if request.mig:
            part = _part_of(node, self._shape)
            count = min(count, (node.free_milli() + gpus) // part) if part else 0
        count = max(0, min(count, UNLIMITED)) if node.view.is_open and node.view.serves(request) else 0
        self._total += count - self._counts.get(node, 0)
        self._counts[node] = count


def _largest(session: Session, shapes: Iterable[Shape]) -> Shape:
    """Return the shape that stands for several that claim in one go."""
    requests = [shape.request for shape in shapes]
    cpu = max(request.cpu_millicores for request in requests)
    memory = max(request.memory_bytes for request in requests)
    return session.shape_of(replace(requests[0], cpu_millicores=cpu, memory_bytes=memory, missing_bytes=()))


def _part_of(node: NodeLedger, shape: Shape) -> int:
    """Return the thousandths of devices that the slices of a pod take on a node; 0 if it has no such slices."""
    return shape.charge(node.kind)[0] if node.geometry is not None else 0


def _most_on(node: NodeLedger, shape: Shape) -> int:
    """Return how many pods fit on a node that is empty."""
    view, request = node.view, shape.request
    count = UNLIMITED if view.max_pods is None else view.max_pods
    if request.cpu_millicores:
        count = min(count, view.cpu_millicores // request.cpu_millicores)
    if request.memory_bytes:
        count = min(count, view.memory_bytes // request.memory_bytes)
    if request.mig:
        part = _part_of(node, shape)
        return min(count, ONE_GPU * len(view.devices) // part) if part else 0
    return min(count, len(view.devices) // request.gpus) if request.gpus else count
