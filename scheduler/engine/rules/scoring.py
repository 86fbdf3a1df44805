"""Which of the nodes with room is best for a task, and which devices on it."""

from collections.abc import Mapping, Sequence

from scheduler.engine import mig
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Task
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import packing
from scheduler.engine.session import Session
from scheduler.engine.shapes import NO_ROOM, rank_key
from scheduler.engine.snapshot import Fill


def rank(
    session: Session, task: Task, nodes: Sequence[NodeLedger], topology: Mapping[str, int] | None = None
) -> list[NodeLedger]:
    """Return those of the nodes that have room for a task, now or soon, from best to worst; equals by name.

    What keeps a group together (`topology`) comes before everything else.
    """
    scored = [
        (-topology.get(node.view.id, 0) if topology else 0, -key, node.index, node)
        for node in nodes
        if (key := rank_key(node, task.shape.request, session.policy)) != NO_ROOM
    ]
    scored.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in scored]


def pick_devices(
    session: Session, task: Task, node: NodeLedger, *, promise_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the devices that serve a task on a node, and whether it may start on them now; None when none do.

    A share goes where the policy of devices wants it, even if it has to wait there for another to leave; slices are cut
    where room is free now, if it is. Promises of whole devices name none.
    """
    request = task.shape.request
    if node.geometry is not None and (request.is_shared or request.mig):
        return _pick_slices(session, task, node, node.geometry, promise_only=promise_only)
    if not request.is_shared:
        now = not promise_only and node.fits(request, now=True)
        return (node.pick_whole(request.gpus) if now and request.gpus else ()), now
    choices = node.share_choices(request, now=False)
    if len(choices) < request.devices:
        return None
    prices = session.policy.prices
    if session.policy.devices is Fill.MIX and prices is not None:
        needed = node.share_mib(request)
        choices.sort(key=lambda device: (packing.device_cost(node, device, needed, prices), -device.used_mib()))
    elif session.policy.devices in (Fill.PACK, Fill.MIX):
        choices.sort(key=lambda device: -device.used_mib())
    elif session.policy.devices is Fill.SPREAD:
        choices.sort(key=lambda device: device.used_mib())
    chosen = choices[: request.devices]
    now = not promise_only and node.fits(request, now=True)
    if now:
        able = {device.key for device in node.share_choices(request, now=True)}
        now = all(device.key in able for device in chosen)
    return tuple(device.key for device in chosen), now


def _pick_slices(
    session: Session, task: Task, node: NodeLedger, geometry: mig.Geometry, *, promise_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the slices for a task. Who has to leave for another goes back to his or to free ones, to nobody else's."""
    request = task.shape.request
    now = not promise_only and node.fits(request, now=True)
    is_victim = task.was_evicted and session.cause[0] is not StopCode.MOVED
    if is_victim and task.node is node and node.offers(task.devices, request):
        return task.devices, False
    chosen = mig.choose(geometry, request.slices_on(geometry) or (), node.openings(now=now or is_victim))
    return (tuple(part.name for part in chosen), now) if chosen else None
