"""Which of the nodes with capacity is best for a pod, and which devices on it."""

from collections.abc import Mapping, Sequence

from scheduler.engine import mig
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Pod
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import packing
from scheduler.engine.session import Session
from scheduler.engine.shapes import NO_CAPACITY, rank_key
from scheduler.engine.snapshot import Fill


def rank(
    session: Session, pod: Pod, nodes: Sequence[NodeLedger], topology: Mapping[str, int] | None = None
) -> list[NodeLedger]:
    """Return those of the nodes that have capacity for a pod, now or soon, from best to worst; equals by name.

    What keeps a group together (`topology`) comes before everything else.
    """
    scored = [
        (-topology.get(node.view.id, 0) if topology else 0, -key, node.index, node)
        for node in nodes
        if (key := rank_key(node, pod.shape.request, session.policy)) != NO_CAPACITY
    ]
    scored.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in scored]


def pick_devices(
    session: Session, pod: Pod, node: NodeLedger, *, reserve_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the devices that serve a pod on a node, and whether it may start on them now; None when none do.

    A share goes where the policy of devices wants it, even if it has to wait there for another to leave; slices are cut
    where capacity is free now, if it is. Reservations of whole devices name none.
    """
    request = pod.shape.request
    if node.geometry is not None and (request.is_shared or request.mig):
        return _pick_slices(session, pod, node, node.geometry, reserve_only=reserve_only)
    if not request.is_shared:
        now = not reserve_only and node.fits(request, now=True)
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
    now = not reserve_only and node.fits(request, now=True)
    if now:
        able = {device.key for device in node.share_choices(request, now=True)}
        now = all(device.key in able for device in chosen)
    return tuple(device.key for device in chosen), now


def _pick_slices(
    session: Session, pod: Pod, node: NodeLedger, geometry: mig.Geometry, *, reserve_only: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the slices for a pod. An evicted pod goes back to its own slices or to free ones only."""
    request = pod.shape.request
    now = not reserve_only and node.fits(request, now=True)
    is_victim = pod.was_evicted and session.cause.code is not StopCode.MOVED
    if is_victim and pod.node is node and node.offers(pod.devices, request):
        return pod.devices, False
    chosen = mig.choose(geometry, request.slices_on(geometry) or (), node.openings(now=now or is_victim))
    return (tuple(part.name for part in chosen), now) if chosen else None
