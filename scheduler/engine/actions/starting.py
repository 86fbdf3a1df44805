"""Starting what fits, without an eviction: reserved work on its capacity, then waiting jobs on what is free."""

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.placing import pick_devices, place
from scheduler.engine.rules import quotas, reservation
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState


def honor_reservations(session: Session) -> None:
    """Start the pods of each job on their reserved capacity once all of it is free: the pods before them terminated.

    Until then nothing else is placed there, so no other pod takes the capacity while a victim shuts down.
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
    return quotas.may_hold(session, job, amounts) and all(
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


def allocate(session: Session) -> None:
    """Start every job that fits now, and reserve capacity for every job that fits soon, queue by queue in fair order.

    A job that does not fit is passed over and the next one is tried, so no capacity stays idle that somebody could use;
    but from big work that has waited for long nobody who comes later takes it (`rules/reservation.py`).

    What a queue may claim by its share is served before anything that lifts another queue beyond its own. Otherwise
    that would start only to be reclaimed in the next cycle, and again whenever the reservation for the claim is lost.
    """
    guard = reservation.Guard(session)
    policy = session.policy
    queues = {job.queue for job in session.waiting.values()} if policy.honors_reservations and policy.quotas else set()
    if len(queues) > 1 and any(queue.wants_more_than_its_share for queue in queues):
        _serve(session, guard, only_claims=True)
    _serve(session, guard, only_claims=False)


def _serve(session: Session, guard: reservation.Guard, *, only_claims: bool) -> None:
    """Serve the waiting jobs, or of each queue those before the first that would lift it beyond its share."""
    waiting = JobQueue(session, session.waiting_lines.settled(), Job.next_pods)
    while (turn := waiting.pop()) is not None:
        job, pods = turn
        may_start = not only_claims or quotas.may_claim(session, job, pods)
        checkpoint = session.checkpoint()
        if not place(session, job, pods):
            guard.reserve_if_due(job, pods)
            if not guard.may_go_on(job):
                waiting.pass_over()
        elif not may_start:
            session.rollback(checkpoint)
            waiting.leave_out(job.queue)
        elif job.waiting:
            waiting.push(job)
