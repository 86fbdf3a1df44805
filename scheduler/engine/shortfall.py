"""What a request lacks on each node, in numbers: worked out for all nodes at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.units import ONE_GPU
from scheduler.engine import mig, placing
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.node_table import Flags, NodeTable, Numbers
from scheduler.engine.proof import Cause, NodeShortfall, Resource, Shortage
from scheduler.engine.snapshot import Request

_NEAREST = 3
_CAUSES = tuple(Cause)


class NodeCapacities:
    """The capacity of all nodes, one column each: free, of that reserved for big jobs, and of the empty node."""

    def __init__(self, table: NodeTable, reserved: Iterable[NodeLedger]) -> None:
        self.table = table
        self.nodes = table.nodes
        capacity = table.capacity(slice(None))
        self.free = np.stack([capacity.cpu, capacity.memory, capacity.gpus, capacity.pods])
        self.reserved = np.zeros_like(self.free)
        for node in reserved:
            self.reserved[:, node.index] = node.reserved_amounts or 0
        self.whole = table.whole
        self.is_ready = table.is_ready
        self.is_drained = table.is_drained
        self.pools = table.pools


@dataclass(frozen=True)
class FitReport:
    """How one request fits each node: for each resource asked for a row of what is free, and what there is.

    `asked` is a column, as high as those tables; `profiles` names the MIG slices where a row is about such. `causes`
    holds for each node the number of its cause; `in_pool` leaves out the nodes of other pools.
    """

    request: Request
    capacities: NodeCapacities
    resources: tuple[Resource, ...]
    profiles: tuple[str, ...]
    asked: Numbers
    free: Numbers
    whole: Numbers
    causes: Numbers
    in_pool: Flags

    def has(self, cause: Cause) -> Flags:
        """Return which of the request's own nodes are in that state."""
        flags: Flags = self.in_pool & (self.causes == _CAUSES.index(cause))
        return flags

    def amounts(self) -> list[int]:
        """Return what is asked of each resource."""
        asked: list[int] = self.asked[:, 0].tolist()
        return asked

    def wants(self) -> list[tuple[Resource, int, str]]:
        """Return each resource with what is asked of it, and of which profile if it is MIG slices."""
        return list(zip(self.resources, self.amounts(), self.profiles, strict=True))

    def nodes(self, which: Flags) -> list[NodeLedger]:
        """Return the nodes that are flagged."""
        return [self.capacities.nodes[index] for index in np.flatnonzero(which).tolist()]

    @cached_property
    def nearest(self) -> tuple[NodeShortfall, ...]:
        """Return the few nodes that lack least; the size of a lack is measured by what is asked for."""
        lacking = np.where(self.has(Cause.TOO_SMALL), self.whole, self.free)
        gap = (np.maximum(0, self.asked - lacking) / self.asked).sum(axis=0)
        able = self.has(Cause.BUSY) | self.has(Cause.RESERVED)
        able = able if able.any() else self.has(Cause.TOO_SMALL)
        order = np.argsort(np.where(able, gap, np.inf), kind="stable")[: min(_NEAREST, int(able.sum()))]
        return tuple(self._shortfall(int(index), lacking[:, index]) for index in order)

    def _shortfall(self, index: int, available: Numbers) -> NodeShortfall:
        view = self.capacities.nodes[index].view
        short = tuple(
            Shortage(resource, asked, max(0, have), profile)
            for (resource, asked, profile), have in zip(self.wants(), available.tolist(), strict=True)
            if have < asked
        )
        return NodeShortfall(view.id, view.name, _CAUSES[int(self.causes[index])], short)

    def others(self, nearest: Sequence[NodeShortfall]) -> tuple[tuple[Cause, int], ...]:
        """Return how many further nodes there are of each cause."""
        counts = np.bincount(self.causes[self.in_pool], minlength=len(_CAUSES))
        for shortfall in nearest:
            counts[_CAUSES.index(shortfall.cause)] -= 1
        return tuple((cause, int(count)) for cause, count in zip(_CAUSES, counts, strict=True) if count)

    def count_free(self) -> Numbers:
        """Return for each node how many pods of this kind find capacity on it now or soon."""
        able = self.has(Cause.HAS_CAPACITY)
        if self.request.is_shared or self.request.mig:
            return self._count_parts(able, self.capacities.nodes)
        return np.where(able, (self.free // self.asked).min(axis=0), 0)

    def count_empty(self) -> Numbers:
        """Return for each node how many pods of this kind it would hold if nothing else were there."""
        able = self.in_pool & ~self.has(Cause.NOT_ALLOWED) & ~self.has(Cause.TOO_SMALL)
        if self.request.is_shared or self.request.mig:
            return self._count_parts(able, self.capacities.table.empty)
        return np.where(able, (self.whole // self.asked).min(axis=0), 0)

    def fits_where_not_allowed(self) -> bool:
        """Return whether a node on which the request may not run has capacity for it now or soon."""
        is_open = self.capacities.is_ready & ~self.capacities.is_drained
        return bool((self.has(Cause.NOT_ALLOWED) & is_open & (self.free >= self.asked).all(axis=0)).any())

    def fits_elsewhere(self, count: int) -> bool:
        """Return whether nodes of other pools have capacity for so many pods."""
        others = ~self.in_pool & (self.causes == _CAUSES.index(Cause.HAS_CAPACITY))
        return int((self.free[:, others] // self.asked).min(axis=0).sum()) >= count

    def _count_parts(self, able: Flags, nodes: Sequence[NodeLedger]) -> Numbers:
        counts = [placing.count_fitting(nodes[index], self.request) for index in np.flatnonzero(able).tolist()]
        fitting = np.zeros(len(nodes), np.int64)
        fitting[able] = counts
        return fitting


def assess(capacities: NodeCapacities, request: Request, is_allowed: Flags) -> FitReport:
    """Report how a request fits each node; `is_allowed` says on which nodes its pod may run at all."""
    columns = [*_device_columns(capacities, request)]
    for resource, asked, column in (
        (Resource.CPU, request.cpu_millicores, 0),
        (Resource.MEMORY, request.memory_bytes, 1),
        (Resource.PODS, 1, 3),
    ):
        if asked:
            free, reserved = capacities.free[column], capacities.reserved[column]
            columns.append((resource, asked, "", free, free + reserved, capacities.whole[column]))
    amounts = np.array([[column[1]] for column in columns], np.int64)
    free_now, unreserved, whole = (np.stack([column[part] for column in columns]) for part in (3, 4, 5))
    states = [
        (~is_allowed, Cause.NOT_ALLOWED),
        ((whole < amounts).any(axis=0), Cause.TOO_SMALL),
        (~capacities.is_ready, Cause.NOT_READY),
        (capacities.is_drained, Cause.DRAINED),
        ((free_now >= amounts).all(axis=0), Cause.HAS_CAPACITY),
        ((unreserved >= amounts).all(axis=0), Cause.RESERVED),
    ]
    numbers = [np.int64(_CAUSES.index(cause)) for _, cause in states]
    causes = np.select([flags for flags, _ in states], numbers, np.int64(_CAUSES.index(Cause.BUSY)))
    in_pool = capacities.pools == request.pool if request.pool else np.ones(len(capacities.nodes), bool)
    resources, profiles = tuple(column[0] for column in columns), tuple(column[2] for column in columns)
    return FitReport(request, capacities, resources, profiles, amounts, free_now, whole, causes, in_pool)


_Column = tuple[Resource, int, str, Numbers, Numbers, Numbers]


def _device_columns(capacities: NodeCapacities, request: Request) -> list[_Column]:
    """Return what is asked of devices, what is free of it, also without reservations, and what there is."""
    if request.gpus:
        free, reserved, whole = capacities.free[2], capacities.reserved[2], capacities.whole[2]
        return [
            (Resource.GPU, ONE_GPU * request.gpus, "", ONE_GPU * free, ONE_GPU * (free + reserved), ONE_GPU * whole)
        ]
    if request.is_shared:
        resource = Resource.DEVICE_MEMORY if request.share_mib else Resource.GPU
        free, whole = _on_devices(capacities, request)
        return [(resource, request.share_mib or request.share_milli, "", free, free, whole)]
    if not request.mig:
        return []
    frees, wholes = ([_slices(node, request) for node in nodes] for nodes in (capacities.nodes, capacities.table.empty))
    return [
        (Resource.MIG, count, profile, free, free, whole)
        for (profile, count), free, whole in zip(
            request.mig, np.array(frees, np.int64).T, np.array(wholes, np.int64).T, strict=True
        )
    ]


def _slices(node: NodeLedger, request: Request) -> list[int]:
    """Return how many slices of each profile asked for are free; reserved capacity is.

    Where they are cut as requests come, those that are asked for too and harder to place have their capacity already.
    """
    geometry = node.geometry
    if geometry is None:
        return [node.idle_mig.get(profile, 0) + node.releasing_mig.get(profile, 0) for profile, _ in request.mig]
    profiles = [(geometry.find(name), count) for name, count in request.mig]
    known = [profile for profile, count in profiles if profile is not None for _ in range(count)]
    counts = mig.count_each(known, _taken(node))
    return [counts[profile] if profile is not None else 0 for profile, _ in profiles]


def _taken(node: NodeLedger) -> list[int]:
    """Return what is taken of each device that slices could be cut from, reserved ones included."""
    return [
        opening.taken
        for opening in node.openings(
            now=False, reserved_gpus=node.reserved_amounts[2] if node.reserved_amounts is not None else 0
        )
    ]


def _on_devices(capacities: NodeCapacities, request: Request) -> tuple[Numbers, Numbers]:
    """Return what is free on the last of the devices that a share needs, the freest first, and what is there in all.

    In MiB if the share is counted so, else in thousandths. Of devices that are cut as requests come the largest slices.
    """
    table, last = capacities.table, request.devices - 1
    may_share = table.is_shareable & (table.devices >= request.devices) & (table.device_mib > 0)
    gpus = np.maximum(0, capacities.free[2] + capacities.reserved[2])
    parts = -np.sort(-table.parts(slice(None))[0], axis=0)
    # The free whole devices come first, and then the parts of those that are shared.
    rows = np.clip(last - gpus, 0, len(parts) - 1) if len(parts) else np.zeros_like(gpus)
    part = parts[rows, np.arange(parts.shape[1])] if len(parts) else np.zeros_like(gpus)
    free = np.where(gpus > last, table.device_mib, np.where(last - gpus < len(parts), np.maximum(0, part), 0))
    free, whole = np.where(may_share, free, 0), np.where(may_share, table.device_mib, 0)
    if not request.share_mib:
        return ONE_GPU * free // np.maximum(1, whole), np.where(may_share, ONE_GPU, 0)
    for index in np.flatnonzero(table.is_cut).tolist():
        free[index], whole[index] = _on_cut_device(capacities.nodes[index], request)
    return free, whole


def _on_cut_device(node: NodeLedger, request: Request) -> tuple[int, int]:
    geometry, devices = node.geometry, request.devices
    if geometry is None:
        return 0, 0
    whole = mig.largest_mib(geometry, devices, [0] * len(node.view.devices))
    return mig.largest_mib(geometry, devices, _taken(node)), whole
