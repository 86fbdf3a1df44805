"""Honor reservations: a pod with a reservation starts as soon as the pods before it have terminated.

Until then nothing else is placed there, so no other pod takes the capacity while a victim shuts down.
"""

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import limits
from scheduler.engine.rules.scoring import pick_devices
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState


def honor_reservations(session: Session) -> None:
    """Start the pods of each job on their reserved capacity once all of it is free.

    They are pending again where that cannot happen: the node is closed, or its pods did not terminate.
    Of several jobs for which there is too little now, the youngest gives way.
    """
    jobs = sorted(session.reserved.values(), key=lambda job: (job.view.rank, job.view.id))
    for job in reversed(jobs):
        reserved = _reserved(job)
        checkpoint = session.checkpoint()
        is_overfull = any(_is_overfull(pod) for pod in reserved)
        can_come = _give(session, job, reserved, reserve_only=True)
        if not (can_come and is_overfull):
            session.rollback(checkpoint)
        for pod in reserved if not can_come else ():
            session.evict(pod)
    for job in jobs:
        checkpoint = session.checkpoint()
        if not _give(session, job, _reserved(job), reserve_only=False):
            session.rollback(checkpoint)


def _reserved(job: Job) -> list[Pod]:
    return [pod for pod in job.pods if pod.state is PodState.RESERVED]


def _is_overfull(pod: Pod) -> bool:
    """Return whether pods that should have terminated still use a reserved device, so another device must serve."""
    return pod.node is not None and any(pod.node.is_overfull(name) for name in pod.devices)


def _give(session: Session, job: Job, reserved: list[Pod], *, reserve_only: bool) -> bool:
    """Start pods on their reserved capacity, or renew the reservations; return whether that worked for all."""
    places = [(pod, pod.node, pod.devices) for pod in reserved]
    amounts = session.charge_all(reserved)
    for pod in reserved:
        session.evict(pod)
    return limits.may_hold(session, job, amounts) and all(
        node is not None and _give_one(session, pod, node, devices, reserve_only=reserve_only)
        for pod, node, devices in places
    )


def _give_one(session: Session, pod: Pod, node: NodeLedger, devices: tuple[str, ...], *, reserve_only: bool) -> bool:
    request = pod.shape.request
    if not node.view.is_open or not node.fits(request, now=not reserve_only):
        return False
    if reserve_only and devices and node.offers(devices, request):
        session.reserve(pod, node, devices)
        return True
    picked = pick_devices(session, pod, node, reserve_only=reserve_only)
    if picked is None or picked[1] is reserve_only:
        return False
    give = session.reserve if reserve_only else session.start
    give(pod, node, picked[0])
    return True
