"""Best fit: of the nodes with room, the one whose remaining room is least useful to others."""

from scheduler.engine.resources import Amount, is_fraction
from scheduler.engine.room import NodeRoom
from scheduler.engine.rules import gpu_sharing
from scheduler.engine.snapshot import NodePlacement, Policy

Score = tuple[int, int, int, int, str, str]


def fits(room: NodeRoom, needs: Amount) -> bool:
    """Return whether a node has room for a request now."""
    return (
        needs.cpu_millicores <= room.cpu_free
        and needs.memory_bytes <= room.memory_free
        and (needs.gpu_milli == 0 or gpu_sharing.choose_devices(room.gpu_free, needs.gpu_milli) is not None)
    )


def score(room: NodeRoom, needs: Amount, policy: Policy) -> Score | None:
    """Rank a node for a request, smaller is better; None when it has no room.

    Work without GPUs stays off nodes that have some. A fraction joins a device in use where one has room, wherever
    that is. Then packing prefers the node with the least free room of what is asked for, spreading the one with most.
    """
    if not fits(room, needs):
        return None
    sign = 1 if policy.node_placement is NodePlacement.PACK else -1
    if needs.gpu_milli == 0:
        avoided, first, second = int(bool(room.gpu_free)), room.cpu_free, room.memory_free
    elif is_fraction(needs.gpu_milli):
        avoided = int(gpu_sharing.find_shared(room.gpu_free, needs.gpu_milli) is None)
        first, second = sum(room.gpu_free.values()), room.cpu_free
    else:
        avoided, first, second = 0, gpu_sharing.count_whole(room.gpu_free), sum(room.gpu_free.values())
    return avoided, sign * first, sign * second, sign * room.cpu_free, room.node.name, room.node.id
