"""How many pods could be placed if certain others terminated: an upper bound, so that a "no" needs no simulation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.units import ONE_GPU
from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import UNLIMITED, NodeLedger
from scheduler.engine.session import Session
from scheduler.engine.shapes import Shape
from scheduler.engine.victims import Unit

_Freed = list[int]


class UpperBound:
    """Counts, node by node, how many pods of one kind fit after others terminate.

    Claims in one go are counted as if each were as large as the largest: there a "no" only means to try fewer of them.
    Slices of devices that are cut as requests come are bounded by the capacity they take, wherever it lies. Pods of
    several kinds, shares, and slices that were cut once are not bounded: for them every answer is "maybe".
    """

    def __init__(self, session: Session, pods: Sequence[Pod], terminating: Sequence[Unit]) -> None:
        shapes = {pod.shape for pod in pods}
        if len({pod.job for pod in pods}) > 1:
            shapes = {_largest(session, shapes)}
        self._needed = len(pods)
        self._shape = next(iter(shapes))
        request = self._shape.request
        self._is_cut = bool(request.mig)
        self.is_known = len(shapes) == 1 and not request.is_shared and not self._shape.counts_slices
        """Whether there is a bound."""
        self._freed: dict[NodeLedger, _Freed] = {}
        self._counts: dict[NodeLedger, int] = {}
        self._total = 0
        if self.is_known:
            for node in self._shape.fitting(session.table, session.policy):
                self._recount(node)
            for unit in terminating:
                self.free(unit)
        self._fixed = dict(self._counts)
        self._base = self._total
        missing = self._needed - self._base
        self.may_be_one_node = not self.is_known or any(
            _most_on(node, self._shape) >= missing for node in session.serving(request)
        )
        """Whether what is missing could all be found on one node, were it empty."""

    def free(self, unit: Unit) -> None:
        """Count a unit as gone from where it is."""
        if not self.is_known:
            return
        for pod in unit:
            if pod.node is None:
                continue
            request = pod.shape.request
            freed = self._freed.setdefault(pod.node, [0, 0, 0, 0])
            freed[0] += request.cpu_millicores
            freed[1] += request.memory_bytes
            if self._is_cut:
                freed[2] += pod.shape.charge(pod.node.kind)[0]
            else:
                freed[2] += request.gpus or max(request.devices, len(pod.devices))
            freed[3] += 1
        for node in dict.fromkeys(pod.node for pod in unit if pod.node is not None):
            self._recount(node)

    def is_enough(self) -> bool:
        """Return whether all pods might fit."""
        return not self.is_known or self._total >= self._needed

    def is_enough_on(self, node: NodeLedger) -> bool:
        """Return whether all pods might fit if, of what was freed since the beginning, only one node's counted."""
        if not self.is_known:
            return True
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
