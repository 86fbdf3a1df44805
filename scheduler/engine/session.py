"""The state of one cycle while it decides: what is free, what each queue holds and may count on.

For every shape that waits the session keeps its candidate nodes ranked. A placement re-ranks one node for the shapes
still in use, so the cost follows what changes, not the size of the cluster.
"""

import heapq
from collections import Counter
from collections.abc import Mapping

from scheduler.engine.decisions import Place
from scheduler.engine.resources import NOTHING, ONE_GPU, Amount
from scheduler.engine.room import NodeRoom
from scheduler.engine.rules import best_fit, gpu_sharing, quota
from scheduler.engine.rules.best_fit import Score
from scheduler.engine.rules.quota import Share, Usage
from scheduler.engine.snapshot import NodeView, Policy, QueueView, Shape, Snapshot, Waiting


class Session:
    """A snapshot and the placements made on top of it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.policy = policy
        nodes = sorted(snapshot.nodes, key=lambda node: (node.name, node.id))
        self.rooms: Mapping[str, NodeRoom] = {node.id: NodeRoom(node) for node in nodes}
        self.queues: Mapping[str, QueueView] = {queue.id: queue for queue in snapshot.queues}
        self.usage: Mapping[str, Usage] = {queue.id: Usage() for queue in snapshot.queues}
        for placed in snapshot.placed:
            self.usage[placed.queue_id].add(placed.holds, is_preemptible=placed.is_preemptible)
            if placed.node_id in self.rooms:
                self.rooms[placed.node_id].take(placed.holds, placed.gpus)
        self.total = _sum_up([node for node in nodes if node.is_open])
        self._ready: dict[str, list[NodeRoom]] = {}
        self._known: dict[str, list[NodeRoom]] = {}
        for room in self.rooms.values():
            self._known.setdefault(room.node.resource_id, []).append(room)
            if room.node.is_open:
                self._ready.setdefault(room.node.resource_id, []).append(room)
        self._waiting = Counter(workload.shape for workload in snapshot.waiting)
        self._ranked: dict[Shape, list[Score]] = {}
        self.shares: Mapping[str, Share] = self._share_out(snapshot)

    def _share_out(self, snapshot: Snapshot) -> Mapping[str, Share]:
        possible = {shape for shape in self._waiting if self.ever_fits(shape)}
        waiting: dict[str, Amount] = {}
        for workload in snapshot.waiting:
            if workload.shape in possible:
                waiting[workload.queue_id] = waiting.get(workload.queue_id, NOTHING).plus(workload.shape.needs)
        return quota.share_out(self.total, list(self.queues.values()), self.usage, waiting)

    def ready_rooms(self, resource_id: str) -> list[NodeRoom]:
        """Return the nodes of a resource on which work may start, by name."""
        return self._ready.get(resource_id, [])

    def known_rooms(self, resource_id: str) -> list[NodeRoom]:
        """Return all nodes of a resource, by name."""
        return self._known.get(resource_id, [])

    def ever_fits(self, shape: Shape) -> bool:
        """Return whether any node of the resource, ready or not, would have the room if it were empty."""
        return any(best_fit.fits(NodeRoom(room.node), shape.needs) for room in self.known_rooms(shape.resource_id))

    def find_node(self, shape: Shape) -> NodeRoom | None:
        """Return the node on which a shape fits best now, or None when it fits nowhere."""
        ranked = self._ranked.get(shape)
        if ranked is None:
            scores = (self._score(room, shape) for room in self.ready_rooms(shape.resource_id))
            ranked = self._ranked[shape] = [score for score in scores if score is not None]
            heapq.heapify(ranked)
        while ranked:
            room = self.rooms[ranked[0][-1]]
            if ranked[0] == self._score(room, shape):
                return room
            heapq.heappop(ranked)
        return None

    def place(self, workload: Waiting, room: NodeRoom) -> Place:
        """Give a workload its room on a node that has it."""
        needs = workload.shape.needs
        gpus = gpu_sharing.choose_devices(room.gpu_free, needs.gpu_milli) or ()
        room.take(needs, gpus)
        self.usage[workload.queue_id].add(needs, is_preemptible=workload.is_preemptible)
        self.pass_over(workload.shape)
        for shape, ranked in self._ranked.items():
            if shape.resource_id == room.node.resource_id and (score := self._score(room, shape)) is not None:
                heapq.heappush(ranked, score)
        return Place(workload.id, room.node.id, gpus)

    def pass_over(self, shape: Shape) -> None:
        """Note that one workload of a shape has been dealt with; the ranking ends with the last of them."""
        self._waiting[shape] -= 1
        if self._waiting[shape] == 0:
            self._ranked.pop(shape, None)

    def _score(self, room: NodeRoom, shape: Shape) -> Score | None:
        return best_fit.score(room, shape.needs, self.policy)


def _sum_up(nodes: list[NodeView]) -> Amount:
    return Amount(
        ONE_GPU * sum(len(node.devices) for node in nodes),
        sum(node.cpu_millicores for node in nodes),
        sum(node.memory_bytes for node in nodes),
    )
