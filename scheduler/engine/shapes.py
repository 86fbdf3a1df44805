"""What pods ask for, each different request once, with the nodes ranked for it.

A ranking is an array with one number per node. It is brought up to date only for the nodes that changed since it was
last asked, so placing a pod costs the same on ten nodes and on ten thousand.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from core.units import ONE_GPU
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.mig import Kind
from scheduler.engine.rules import packing
from scheduler.engine.snapshot import Fill, Policy, Request

NO_CAPACITY = -1
_SHARED, _NOW, _KIND = 1 << 62, 1 << 61, 1 << 60
_HALF = 1 << 50
_NEAREST, _NEAR_SHIFT = 255, 51
_COST_UNITS, _FREE_UNITS = 10_000, 1 << 20


class Shape:
    """One request, what it counts against quotas, and where it fits best. `usual` and `least` say as where it waits."""

    __slots__ = ("_charges", "_keys", "_seen", "least", "request", "usual", "wants_gpu")

    def __init__(self, request: Request, usual: Kind, least: Kind) -> None:
        self.request = request
        self.usual = usual
        self.least = least
        self.wants_gpu = request.wants_gpu
        self._charges: dict[Kind, tuple[int, int, int]] = {}
        self._keys: npt.NDArray[np.int64] | None = None
        self._seen = 0

    def charge(self, kind: Kind = 0) -> tuple[int, int, int]:
        """Return what counts against quotas on devices of a kind; 0 stands for the usual one."""
        kind = kind or self.usual
        known = self._charges.get(kind)
        if known is None:
            request = self.request
            known = self._charges[kind] = (request.charge_milli(kind), request.cpu_millicores, request.memory_bytes)
        return known

    @property
    def counts_slices(self) -> bool:
        """Whether nodes may serve it by slices that were cut once, which are no part of the GPUs that are counted."""
        return bool(self.request.mig) and isinstance(self.usual, int)

    def forget(self) -> None:
        """Drop what was computed: the nodes or the sizes of their devices are others now."""
        self._charges.clear()
        self._keys = None

    def settle(self, nodes: Sequence[NodeLedger], changes: Sequence[int], policy: Policy) -> None:
        """Take every change into account, so that the list of changes can begin anew."""
        if self._keys is not None:
            self._ranking(nodes, changes, policy)
        self._seen = 0

    def best(self, nodes: Sequence[NodeLedger], changes: Sequence[int], policy: Policy) -> NodeLedger | None:
        """Return the best node with capacity now or soon, of equals the first; None when there is none."""
        keys = self._ranking(nodes, changes, policy)
        if not len(keys):
            return None
        index = int(keys.argmax())
        return nodes[index] if keys[index] >= 0 else None

    def fitting(self, nodes: Sequence[NodeLedger], changes: Sequence[int], policy: Policy) -> list[NodeLedger]:
        """Return all nodes with capacity now or soon."""
        return [nodes[index] for index in np.flatnonzero(self._ranking(nodes, changes, policy) >= 0).tolist()]

    def _ranking(self, nodes: Sequence[NodeLedger], changes: Sequence[int], policy: Policy) -> npt.NDArray[np.int64]:
        keys = self._keys
        if keys is None:
            keys = np.fromiter((rank_key(node, self.request, policy) for node in nodes), np.int64, len(nodes))
            self._keys = keys
        elif self._seen < len(changes):
            fresh = changes[self._seen :]
            for index in fresh if len(fresh) == 1 else set(fresh):
                keys[index] = rank_key(nodes[index], self.request, policy)
        self._seen = len(changes)
        return keys


def rank_key(node: NodeLedger, request: Request, policy: Policy) -> int:
    """Return how good a node is for a request, `NO_CAPACITY` where it does not fit. Equals go by name.

    Layers, none of which can be outweighed by those below it: a device in shared use, or cut already, fits; there is
    capacity right now; work without GPUs stays on nodes without; less of its data has to be brought (by powers of two);
    then the fullest (or emptiest) node, or the one whose capacity is least missed later and, of equals, the fullest.
    """
    if not node.view.is_open or not node.fits(request, now=False):
        return NO_CAPACITY
    key = 0
    wants_gpu = request.wants_gpu
    if policy.prefers_shared_devices and wants_gpu and not request.gpus and node.fits_shared(request):
        key |= _SHARED
    if policy.prefers_free_now and node.fits(request, now=True):
        key |= _NOW
    if policy.keeps_cpu_work_off_gpus and not wants_gpu and not (node.view.devices or node.view.mig):
        key |= _KIND
    if request.missing_bytes and (missing := request.missing_on(node.view)) is not None:
        key |= (_NEAREST - missing.bit_length()) << _NEAR_SHIFT
    fill = policy.gpu_nodes if wants_gpu else policy.cpu_nodes
    if fill is Fill.MIX and policy.prices is not None:
        loss = round(packing.cost(node, request, policy.prices) * _COST_UNITS)
        return key | (_HALF - loss * _FREE_UNITS - min(node.free_milli(), _FREE_UNITS - 1))
    if fill in (Fill.PACK, Fill.MIX):
        free = node.free_milli() if wants_gpu else node.idle_cpu + node.releasing_cpu
        return key | max(0, _HALF - free)
    if fill is Fill.SPREAD:
        free = node.free_milli() if wants_gpu else node.idle_cpu + node.releasing_cpu
        whole = ONE_GPU * len(node.view.devices) if wants_gpu else node.view.cpu_millicores
        return key | (free * (1 << 30) // whole if whole else 0)
    return key
