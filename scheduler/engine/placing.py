"""Finding places for the pods that come next: all of them, or none."""

from collections.abc import Mapping, Sequence

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import affinity, limits, pools, scoring, topology
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState


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
    if not limits.may_hold(session, job, amounts):
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
    for node in scoring.rank(session, pod, session.ready if nodes is None else nodes, preferences):
        if affinity.allows(session, pod, node) and _take(session, pod, node, reserve_only=reserve_only):
            return True
    return False


def _take(session: Session, pod: Pod, node: NodeLedger, *, reserve_only: bool) -> bool:
    """Take capacity on a node unless the charge there breaks a limit or no device serves the pod."""
    request = pod.shape.request
    if (request.share_mib or request.mig) and not limits.may_hold(session, pod.job, pod.shape.charge(node.kind)):
        return False
    picked = scoring.pick_devices(session, pod, node, reserve_only=reserve_only)
    if picked is None:
        return False
    devices, now = picked
    if now:
        session.start(pod, node, devices)
    else:
        session.reserve(pod, node, devices)
    return True


def _reserve_all_unless_whole(session: Session, job: Job, pods: Sequence[Pod]) -> None:
    for pod_set in job.pod_sets.values():
        if pod_set.reserved and pod_set.active < pod_set.view.min_available:
            break
    else:
        return
    for pod in pods:
        if pod.state is PodState.STARTING and pod.node is not None:
            session.reserve(pod, pod.node, () if pod.shape.request.gpus else pod.devices)
