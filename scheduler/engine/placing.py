"""Finding places for the pods that come next, all of them or none: the best node for each, and the devices on it."""

from collections.abc import Mapping, Sequence

from scheduler.engine import mig
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import affinity, packing, pools, quotas, topology
from scheduler.engine.session import Session
from scheduler.engine.shapes import NO_CAPACITY, rank_key
from scheduler.engine.snapshot import Fill, PodState


def place(session: Session, job: Job, pods: Sequence[Pod], *, reserve_only: bool = False) -> bool:
    """Start the pods, or reserve capacity for them; return whether that worked for all. Nothing is changed if not.

    Of several pools the first in which all may start at once is chosen, else the first in which capacity is releasing.
    """
    if not job.view.pools:
        return place_as_asked(session, job, pods, reserve_only=reserve_only)

    def start_all() -> bool:
        checkpoint = session.checkpoint()
        if place_as_asked(session, job, pods) and all(pod.state is PodState.STARTING for pod in pods):
            return True
        session.rollback(checkpoint)
        return False

    is_now = not reserve_only and session.policy.prefers_free_now and pools.in_order(session, job, pods, start_all)
    return is_now or pools.in_order(
        session, job, pods, lambda: place_as_asked(session, job, pods, reserve_only=reserve_only)
    )


def place_as_asked(session: Session, job: Job, pods: Sequence[Pod], *, reserve_only: bool = False) -> bool:
    """Do the same where the pods say by themselves which nodes serve them.

    If the pods that start do not reach the minimum of a pod set, all of them only get a reservation.
    """
    if not pods or session.best_node(pods[0]) is None:
        return False
    checkpoint = session.checkpoint()
    amounts = session.charge_all(pods, at_least=True)
    if not quotas.may_hold(session, job, amounts):
        return False
    if not topology.place_together(session, job, pods, reserve_only=reserve_only, place_one=place_one):
        session.rollback(checkpoint)
        return False
    if not reserve_only:
        _reserve_all_unless_whole(session, job, pods)
    return True


def place_one(
    session: Session,
    pod: Pod,
    nodes: Sequence[NodeLedger] | None,
    preferences: Mapping[str, int] | None,
    *,
    reserve_only: bool,
) -> bool:
    """Place one pod on the best node that fits it; `nodes` None stands for all nodes."""
    is_anywhere = nodes is None and not preferences and pod.view.may_run_anywhere
    if is_anywhere:
        best = session.best_node(pod)
        if best is None:
            return False
        if _take(session, pod, best, reserve_only=reserve_only):
            return True
    for node in _rank(session, pod, session.ready if nodes is None else nodes, preferences):
        if affinity.allows(session, pod, node) and _take(session, pod, node, reserve_only=reserve_only):
            return True
    return False


def _rank(
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


def _take(session: Session, pod: Pod, node: NodeLedger, *, reserve_only: bool) -> bool:
    """Take capacity on a node unless the charge there breaks a limit or no device serves the pod."""
    request = pod.shape.request
    if (request.share_mib or request.mig) and not quotas.may_hold(session, pod.job, pod.shape.charge(node.kind)):
        return False
    picked = pick_devices(session, pod, node, reserve_only=reserve_only)
    if picked is None:
        return False
    devices, now = picked
    if now:
        session.start(pod, node, devices)
    else:
        session.reserve(pod, node, devices)
    return True


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


def _reserve_all_unless_whole(session: Session, job: Job, pods: Sequence[Pod]) -> None:
    for pod_set in job.pod_sets.values():
        if pod_set.reserved and pod_set.active < pod_set.view.min_available:
            break
    else:
        return
    for pod in pods:
        if pod.state is PodState.STARTING and pod.node is not None:
            session.reserve(pod, pod.node, () if pod.shape.request.gpus else pod.devices)
