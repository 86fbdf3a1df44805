"""What all nodes have free, as numpy columns: one row of the table is one resource, one column a node.

It is brought up to date only for the nodes that changed. What is asked of all nodes at once costs a few operations on
columns, however many nodes there are.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.engine.ledger import UNLIMITED, NodeLedger
from scheduler.engine.snapshot import MigStrategy, Request

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Where: TypeAlias = "npt.NDArray[np.intp] | slice[None, None, None]"
"""Which nodes, by their indexes."""

_NONE = -1


class Capacity(NamedTuple):
    """The rows of the table: what is idle now, and soon, with what terminating pods free. Devices are in MiB.

    `free_milli` counts parts of shared devices too. `part` is the largest part that a shared device has free, -1 where
    none is shared, and `whole` how many whole devices may begin to be shared.
    """

    cpu: Numbers
    cpu_now: Numbers
    memory: Numbers
    memory_now: Numbers
    pods: Numbers
    pods_now: Numbers
    gpus: Numbers
    gpus_now: Numbers
    free_milli: Numbers
    part: Numbers
    part_now: Numbers
    whole: Numbers
    whole_now: Numbers


_GPUS = Capacity._fields.index("gpus")


class NodeTable:
    """The capacity of the nodes of a session. `changes` collects the indexes of nodes that changed."""

    def __init__(self, nodes: Sequence[NodeLedger], changes: Sequence[int]) -> None:
        self.nodes = nodes
        self.changes = changes
        self._views = [node.view for node in nodes]
        self._rows = np.zeros((len(Capacity._fields), len(nodes)), np.int64)
        width = max((len(view.devices) for view in self._views), default=0)
        self._free_mib = np.full((width, len(nodes)), _NONE, np.int64)
        self._left_mib = np.zeros((width, len(nodes)), np.int64)
        self._parted: set[int] = set()
        self._seen = 0
        self._serving: dict[tuple[object, ...], Flags] = {}
        self._admitting: dict[tuple[object, ...], Flags] = {}
        self._premiums: tuple[Mapping[str, float], npt.NDArray[np.float64]] | None = None
        for index in range(len(nodes)):
            self._read(index)

    # --- what never changes

    @cached_property
    def is_open(self) -> Flags:
        """Whether work may start on a node."""
        return np.array([view.is_open for view in self._views], np.bool_)

    @cached_property
    def is_ready(self) -> Flags:
        """Whether a node answers."""
        return np.array([view.is_ready for view in self._views], np.bool_)

    @cached_property
    def is_drained(self) -> Flags:
        """Whether a node takes nothing new."""
        return np.array([view.is_drained for view in self._views], np.bool_)

    @cached_property
    def pools(self) -> npt.NDArray[np.str_]:
        """The pool of a node."""
        return np.array([view.pool for view in self._views])

    @cached_property
    def whole(self) -> Numbers:
        """What a node has when it is empty: a row of cores, memory, whole devices and pods."""
        most_pods = [UNLIMITED if view.max_pods is None else view.max_pods for view in self._views]
        memory = [view.memory_bytes for view in self._views]
        return np.stack([self.cpu, np.array(memory, np.int64), self.devices, np.array(most_pods, np.int64)])

    @cached_property
    def empty(self) -> list[NodeLedger]:
        """The same nodes without any work."""
        return [NodeLedger(view, 0, []) for view in self._views]

    @cached_property
    def has_gpus(self) -> Flags:
        """Whether a node has devices, or slices of such."""
        return np.array([bool(view.devices or view.mig) for view in self._views], np.bool_)

    @cached_property
    def is_shareable(self) -> Flags:
        """Whether devices of a node may be shared."""
        return np.array([view.mig_strategy is MigStrategy.OFF for view in self._views], np.bool_)

    @cached_property
    def device_mib(self) -> Numbers:
        """The memory of each device."""
        return np.array([view.device_mib for view in self._views], np.int64)

    @cached_property
    def devices(self) -> Numbers:
        """How many whole devices a node has."""
        return np.array([len(view.devices) for view in self._views], np.int64)

    @cached_property
    def cpu(self) -> Numbers:
        """The millicores of a node."""
        return np.array([view.cpu_millicores for view in self._views], np.int64)

    @cached_property
    def is_cut(self) -> Flags:
        """Whether devices of a node are cut into slices as requests come."""
        return np.array([node.geometry is not None for node in self.nodes], np.bool_)

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The nodes that a name stands for: that of a node, or of a pool."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for index, view in enumerate(self._views):
            for place in {view.id, view.pool}:
                places[place].append(index)
        return dict(places)

    def premiums(self, by_pool: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Return how much dearer the capacity of each node is."""
        if self._premiums is None or self._premiums[0] is not by_pool:
            self._premiums = by_pool, np.array([by_pool.get(view.pool, 0.0) for view in self._views])
        return self._premiums[1]

    def admitting(self, request: Request) -> Flags:
        """Return the nodes whose labels and taints let a request in, whatever pool it names."""
        key = request.node_labels, request.selector, request.tolerations
        admitting = self._admitting.get(key)
        if admitting is None:
            admitting = self._admitting[key] = np.array([view.admits(request) for view in self._views], np.bool_)
        return admitting

    def serving(self, request: Request) -> Flags:
        """Return the nodes that take work and that a request is for."""
        key = request.pool, request.node_labels, request.selector, request.tolerations
        serving = self._serving.get(key)
        if serving is None:
            serves = np.array([view.serves(request) for view in self._views], np.bool_)
            serving = self._serving[key] = self.is_open & serves
        return serving

    # --- what changes

    def capacity(self, at: Where) -> Capacity:
        """Return what some nodes have free."""
        self._refresh()
        return Capacity(*self._rows[:, at])

    def with_gpus(self, gpus: int, *, fewer_than: int) -> list[NodeLedger] | None:
        """Return the nodes with so many whole devices free now or soon, None if they are not fewer."""
        self._refresh()
        rows = np.flatnonzero(self._rows[_GPUS] >= gpus)
        return [self.nodes[index] for index in rows.tolist()] if len(rows) < fewer_than else None

    def parts(self, at: Where) -> tuple[Numbers, Numbers]:
        """Return what is free for shares on the devices in shared use of some nodes, and what nobody uses there yet.

        One row a device: -1 where it is not in shared use. What users hold until they have terminated is free for
        shares already.
        """
        self._refresh()
        return self._free_mib[:, at], self._left_mib[:, at]

    def settle(self) -> None:
        """Take every change into account, so that the list of changes can begin anew."""
        self._refresh()
        self._seen = 0

    def _refresh(self) -> None:
        if self._seen < len(self.changes):
            fresh = self.changes[self._seen :]
            for index in fresh if len(fresh) == 1 else set(fresh):
                self._read(index)
            self._seen = len(self.changes)

    def _read(self, index: int) -> None:
        node = self.nodes[index]
        gpus = node.idle_gpus + node.releasing_gpus
        part = part_now = _NONE
        unused, leaving = len(node.free), len(node.terminating)
        if node.shared and node.geometry is None:
            part, part_now = self._read_parts(index, node)
            unused -= sum(key in node.shared for key in node.free)
            leaving -= sum(key in node.shared for key in node.terminating)
            leaving += sum(d.terminating > 0 and not d.active and not d.reserved for d in node.shared.values())
        elif index in self._parted:
            self._parted.discard(index)
            self._free_mib[:, index] = _NONE
        self._rows[:, index] = (
            node.idle_cpu + node.releasing_cpu,
            node.idle_cpu,
            node.idle_memory + node.releasing_memory,
            node.idle_memory,
            node.idle_pods + node.releasing_pods,
            node.idle_pods,
            gpus,
            node.idle_gpus,
            node.free_milli(),
            part,
            part_now,
            min(gpus, unused + leaving),
            min(node.idle_gpus, unused),
        )

    def _read_parts(self, index: int, node: NodeLedger) -> tuple[int, int]:
        """Read the devices in shared use; return the largest part that is free on any, soon and now."""
        mib = node.view.device_mib
        self._parted.add(index)
        part = part_now = _NONE
        for row in range(len(self._free_mib)):
            self._free_mib[row, index] = _NONE
        for row, device in enumerate(node.shared.values()):
            if device.active or device.reserved:
                free = mib - device.active_mib - device.reserved_mib
                left = free - device.terminating_mib
                self._free_mib[row, index], self._left_mib[row, index] = free, max(0, left)
                part = max(part, free)
                if device.key not in node.whole:
                    part_now = max(part_now, left)
        return part, part_now
