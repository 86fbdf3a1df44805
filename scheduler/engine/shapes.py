"""What pods ask for, each different request once, with the nodes ranked for it.

A ranking is an array with one number per node. It is brought up to date only for the nodes that changed since it was
last asked, so placing a pod costs the same on ten nodes and on ten thousand. A new request is ranked over all nodes in
a few operations on the columns of the node table.
"""

from dataclasses import replace

import numpy as np

from core.units import ONE_GPU
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.mig import Kind
from scheduler.engine.node_table import Capacity, NodeTable, Numbers, Where
from scheduler.engine.rules import packing
from scheduler.engine.snapshot import Fill, Policy, Request

NO_CAPACITY = -1
_SHARED, _NOW, _KIND = 1 << 62, 1 << 61, 1 << 60
_HALF = 1 << 50
_NEAREST, _NEAR_SHIFT = 255, 51
_COST_UNITS, _FREE_UNITS = 10_000, 1 << 20
_MANY = 24
"""From so many nodes on it is quicker to rank them at once."""
_ALL = slice(None)


class Shape:
    """One request, what it counts against quotas, and where it fits best. `usual` and `least` say as where it waits."""

    __slots__ = (
        "_best",
        "_charges",
        "_claim",
        "_keys",
        "_looked_at",
        "_seen",
        "least",
        "request",
        "usual",
        "wants_gpu",
    )

    def __init__(self, request: Request, usual: Kind, least: Kind) -> None:
        self.request = request
        self.usual = usual
        self.least = least
        self.wants_gpu = request.wants_gpu
        self._charges: dict[Kind, tuple[int, int, int]] = {}
        self._claim: Request | None = None
        self._keys: Numbers | None = None
        self._best: int | None = None
        self._seen = 0
        self._looked_at = 0

    def charge(self, kind: Kind = 0) -> tuple[int, int, int]:
        """Return what counts against quotas on devices of a kind; 0 stands for the usual one."""
        kind = kind or self.usual
        known = self._charges.get(kind)
        if known is None:
            request = self.request
            known = self._charges[kind] = (request.charge_milli(kind), request.cpu_millicores, request.memory_bytes)
        return known

    @property
    def claim(self) -> Request:
        """What requests have in common that claim in one go: all of it but the cores, memory and data of whole GPUs."""
        if self._claim is None:
            request = self.request
            self._claim = (
                replace(request, cpu_millicores=0, memory_bytes=0, missing_bytes=()) if request.gpus else request
            )
        return self._claim

    @property
    def counts_slices(self) -> bool:
        """Whether nodes may serve it by slices that were cut once, which are no part of the GPUs that are counted."""
        return bool(self.request.mig) and isinstance(self.usual, int)

    def settle(self, table: NodeTable, policy: Policy) -> None:
        """Take every change into account, so that the list of changes can begin anew."""
        if self._keys is not None:
            self._ranking(table, policy)
        self._seen = 0

    def best(self, table: NodeTable, policy: Policy) -> NodeLedger | None:
        """Return the best node with capacity now or soon, of equals the first; None when there is none."""
        if (few := self._look_at_few(table, policy)) is not None:
            return max(few, key=few.__getitem__) if few else None
        keys = self._ranking(table, policy)
        if self._best is None:
            index = int(keys.argmax()) if len(keys) else 0
            self._best = index if len(keys) and keys[index] >= 0 else NO_CAPACITY
        return table.nodes[self._best] if self._best >= 0 else None

    def fitting(self, table: NodeTable, policy: Policy) -> list[NodeLedger]:
        """Return all nodes with capacity now or soon."""
        if (few := self._look_at_few(table, policy)) is not None:
            return list(few)
        return [table.nodes[index] for index in np.flatnonzero(self._ranking(table, policy) >= 0).tolist()]

    def _look_at_few(self, table: NodeTable, policy: Policy) -> dict[NodeLedger, int] | None:
        """Return the nodes with capacity and how good they are, for a request that is new where few have GPUs for it.

        None where a ranking of all nodes is there or costs less: after so many checks.
        """
        if self._keys is not None or not self.request.gpus:
            return None
        nodes = table.with_gpus(self.request.gpus, fewer_than=_MANY - self._looked_at)
        if nodes is None:
            return None
        self._looked_at += len(nodes)
        keys = {node: rank_key(node, self.request, policy) for node in nodes}
        return {node: key for node, key in keys.items() if key >= 0}

    def _ranking(self, table: NodeTable, policy: Policy) -> Numbers:
        keys, changes = self._keys, table.changes
        if keys is None or self._seen < len(changes):
            self._best = None
        if keys is None:
            keys = self._keys = rank_nodes(table, self.request, policy, _ALL)
        elif self._seen < len(changes):
            fresh = changes[self._seen :]
            indexes = fresh if len(fresh) == 1 else set(fresh)
            if len(indexes) < _MANY:
                for index in indexes:
                    keys[index] = rank_key(table.nodes[index], self.request, policy)
            else:
                at = np.fromiter(indexes, np.intp, len(indexes))
                keys[at] = rank_nodes(table, self.request, policy, at)
        self._seen = len(changes)
        return keys


def rank_nodes(table: NodeTable, request: Request, policy: Policy, at: Where) -> Numbers:
    """Return how good some nodes are for a request: `rank_key` of each, worked out for all of them at once."""
    if request.mig or (request.is_shared and request.devices > 1):
        return _rank_each(table, request, policy, at)
    capacity = table.capacity(at)
    fits = table.serving(request)[at] & (capacity.pods >= 1) & (capacity.cpu >= request.cpu_millicores)
    fits &= (capacity.memory >= request.memory_bytes) & (capacity.gpus >= request.gpus)
    needed: Numbers | None = None
    if request.is_shared:
        mib = table.device_mib[at]
        needed = np.full_like(mib, request.share_mib) if request.share_mib else mib * request.share_milli // ONE_GPU
        may_share = table.is_shareable[at] & (needed <= mib)
        fits &= may_share & ((capacity.part >= needed) | (capacity.whole > 0))
    keys = _by_fill(table, request, policy, at, capacity, needed)
    if policy.prefers_shared_devices and needed is not None:
        keys[capacity.part >= needed] |= _SHARED
    if policy.prefers_free_now:
        now = (capacity.pods_now >= 1) & (capacity.cpu_now >= request.cpu_millicores)
        now &= (capacity.memory_now >= request.memory_bytes) & (capacity.gpus_now >= request.gpus)
        if needed is not None:
            now &= (capacity.part_now >= needed) | (capacity.whole_now > 0)
        keys[now] |= _NOW
    if policy.keeps_cpu_work_off_gpus and not request.wants_gpu:
        keys[~table.has_gpus[at]] |= _KIND
    if request.missing_bytes:
        keys |= _nearness(table, request)[at]
    keys[~fits] = NO_CAPACITY
    if needed is not None and table.is_cut.any():
        cut = table.is_cut[at]
        keys[cut] = _rank_each(table, request, policy, np.arange(len(table.nodes))[at][cut])
    return keys


def _rank_each(table: NodeTable, request: Request, policy: Policy, at: Where) -> Numbers:
    indexes = np.arange(len(table.nodes))[at].tolist()
    return np.array([rank_key(table.nodes[index], request, policy) for index in indexes], np.int64)


def _by_fill(  # noqa: PLR0917 (the parts of a question)
    table: NodeTable, request: Request, policy: Policy, at: Where, capacity: Capacity, needed: Numbers | None
) -> Numbers:
    """Return the lowest layer of the ranking: how full nodes are, or how little their capacity is missed later."""
    fill = policy.gpu_nodes if request.wants_gpu else policy.cpu_nodes
    if fill is Fill.MIX and policy.prices is not None:
        costs = packing.costs(table, request, policy.prices, at, capacity, needed)
        loss = np.rint(costs * _COST_UNITS).astype(np.int64)
        return _HALF - loss * _FREE_UNITS - np.minimum(capacity.free_milli, _FREE_UNITS - 1)
    free = capacity.free_milli if request.wants_gpu else capacity.cpu
    if fill in (Fill.PACK, Fill.MIX):
        return np.maximum(0, _HALF - free)
    if fill is Fill.SPREAD:
        whole = ONE_GPU * table.devices[at] if request.wants_gpu else table.cpu[at]
        return np.where(whole > 0, free * (1 << 30) // np.maximum(whole, 1), 0)
    return np.zeros_like(free)


def _nearness(table: NodeTable, request: Request) -> Numbers:
    """Return the layer of the ranking that says how little data has to be brought near each node."""
    nearness = np.zeros(len(table.nodes), np.int64)
    for place, size in request.missing_bytes:
        at = table.places.get(place, [])
        nearness[at] = np.maximum(nearness[at], (_NEAREST - size.bit_length()) << _NEAR_SHIFT)
    return nearness


def rank_key(node: NodeLedger, request: Request, policy: Policy) -> int:
    """Return how good a node is for a request, `NO_CAPACITY` where it does not fit. Equals go by name.

    Layers, none of which can be outweighed by those below it: a device in shared use, or cut already, fits; there is
    capacity right now; work without GPUs stays on nodes without; less of its data has to be brought (by powers of two);
    then the fullest (or emptiest) node, or the one whose capacity is least missed later and, of equals, the fullest.
    """
    if not node.fits(request, now=False) or not node.view.is_open:
        return NO_CAPACITY
    key = 0
    wants_gpu = request.wants_gpu
    if policy.prefers_shared_devices and wants_gpu and not request.gpus and node.fits_shared(request):
        key |= _SHARED
    if policy.prefers_free_now and (node.is_settled or node.fits(request, now=True)):
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
