"""What the actions that evict have in common: which job is served, and which jobs may be victims."""

from collections.abc import Callable

from scheduler.engine.claims import Claim
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import QueueState
from scheduler.engine.rules import reclaimable, reservation
from scheduler.engine.rules.order import JobQueue, queue_key
from scheduler.engine.session import Cause, Session
from scheduler.engine.snapshot import PodState
from scheduler.engine.solver import Judge, solve
from scheduler.engine.victims import VictimQueue


def serve_by_taking(
    session: Session,
    code: StopCode,
    *,
    may_claim: Callable[[QueueState], bool] = lambda _queue: True,
    may_try: Callable[[Job, list[Pod]], bool],
    victims_of: Callable[[Job, list[Pod]], Callable[[], VictimQueue]],
    judge: Callable[[Job], Judge],
) -> None:
    """Search victims for every waiting job that may evict, in the order of service.

    Queues that may not claim at the beginning are not looked at. Jobs that ask for as many GPUs are served in one go,
    ever more of them as long as that works and nobody else has a turn; not so where they choose between pools, as some
    may get what they want most.

    Where reservations are not honored, one for which nothing has to terminate is dropped in the end: the next cycle
    would start what this one revoked for it, and revoke it again, for ever. What was revoked waits for later cycles.
    """
    lines = session.waiting_lines.settled()
    waiting = JobQueue(session, {queue: lines[queue] for queue in lines if may_claim(queue)}, Job.next_pods)
    at_once = 1
    moot: list[Pod] = []
    while (turn := waiting.pop()) is not None:
        job, pods = turn
        if not pods or not job.view.may_evict or _is_delayed(job, code):
            waiting.pass_over()
            continue
        jobs = [job]
        if len(job.pods) == 1 and len(job.view.pools) <= 1 and job not in session.reserved_nodes:
            jobs += waiting.pop_alike(at_once - 1)
        checkpoint = session.checkpoint()
        with reservation.opened(session, job):
            pods = [pod for other in jobs for pod in other.next_pods()]
            session.cause = Cause(code, job, Claim.of(job.line, session.charge_all(pods)))
            is_served = may_try(job, pods) and solve(session, jobs, victims_of(job, pods), judge(job))
        if is_served:
            moved = session.moved_since(checkpoint)
            is_any_stopped = any(pod.view.state is PodState.RUNNING is not pod.state for pod in moved)
            if not session.policy.honors_reservations and not is_any_stopped:
                moot += moved
            at_once *= 2
            waiting.reconsider_all()
        elif len(jobs) > 1:
            at_once = max(1, len(jobs) // 4)
            for other in jobs:
                waiting.push(other)
        else:
            waiting.pass_over()
    for pod in moot:
        if pod.state is PodState.RESERVED and pod.view.state is PodState.PENDING:
            session.evict(pod)


def _is_delayed(job: Job, code: StopCode) -> bool:
    """Return whether the claim delay of a job holds for an action."""
    if job.view.claims_at is None or code is StopCode.PREEMPTED:
        return False
    return code is StopCode.MOVED or not reclaimable.claims_much(job.queue)


def victims(
    session: Session,
    *,
    in_queue: Callable[[QueueState], bool],
    may_take: Callable[[Job], bool],
    wanted_milli: Callable[[QueueState], float] | None = None,
) -> VictimQueue:
    """Return the preemptible work of some queues, the first victim first: preferably no more of it than is needed."""
    keeps = session.policy.honors_reservations
    return VictimQueue(
        session.lines,
        [queue for queue in session.queues.values() if queue.parent is None],
        queue_key=lambda queue, less: queue_key(session, queue, (0, 0, 0), less),
        charge_all=session.charge_all,
        has_victims=in_queue,
        may_take=lambda job: not (keeps and job.is_arriving()) and may_take(job),
        wanted_milli=wanted_milli if keeps else None,
    )
