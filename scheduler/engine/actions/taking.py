"""Taking capacity from others for waiting jobs: consolidate moves them, reclaim and preempt evict them."""

from collections.abc import Callable, Sequence
from functools import cache

from scheduler.engine.claims import Claim
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import HOLDING
from scheduler.engine.lines import Unit, VictimQueue
from scheduler.engine.queues import GPU, QueueState
from scheduler.engine.rules import quotas, reservation
from scheduler.engine.rules.order import JobQueue, queue_key
from scheduler.engine.session import Cause, Session
from scheduler.engine.snapshot import PodState, Request
from scheduler.engine.solver import Judge, solve


def consolidate(session: Session) -> None:
    """Move running work together for each preemptible job that fits into what is free, but not in one place.

    Nobody loses a place.
    """
    is_exact = not session.policy.honors_reservations
    tried: set[object] = set()

    def may_try(job: Job, pods: list[Pod]) -> bool:
        return job.view.is_preemptible and _is_enough_in_all(session, pods) and (is_exact or is_new(job, pods))

    def is_new(job: Job, pods: list[Pod]) -> bool:
        """Return whether nobody asked for the same since something was moved: the answer is the same in all queues."""
        if len(pods) > 1 or not pods[0].view.may_run_anywhere:
            return True
        if job in session.reserved_nodes or not quotas.may_hold(session, job, session.charge_all(pods)):
            return True
        question = session.checkpoint(), pods[0].shape
        is_asked_first = question not in tried
        tried.add(question)
        return is_asked_first

    def victims_of(job: Job, pods: list[Pod]) -> Callable[[], VictimQueue]:
        def may_take(other: Job) -> bool:
            return other is not job and quotas.may_move(session, other) and (is_exact or not is_no_help(other))

        def is_no_help(other: Job) -> bool:
            return all(_would_do(pod, pods) for pod in other.pods if pod.state in HOLDING)

        return lambda: _victims(session, in_queue=lambda _queue: True, may_take=may_take)

    is_due = session.policy.consolidates and not session.has_looked_for_moves
    could_help = bool(session.waiting) and (session.free_milli() > 0 or not session.total[GPU])
    session.has_consolidated = is_due and could_help
    if not is_due:
        return
    session.has_looked_for_moves = True
    _serve_by_taking(
        session,
        StopCode.MOVED,
        may_try=may_try,
        victims_of=victims_of,
        judge=lambda _job: lambda _pods, _units: lambda lost: not lost,
    )


def _is_enough_in_all(session: Session, pods: list[Pod]) -> bool:
    if any(pod.shape.counts_slices for pod in pods):
        return True
    request = session.charge_all(pods, at_least=True)[0]
    return not request or session.free_milli() >= request


def _would_do(pod: Pod, claimants: Sequence[Pod]) -> bool:
    """Return whether any place to which a pod could be moved would do for each of the wanted ones: it may stay.

    Where several are wanted, more than one of them might come to where it is, so they must be as large as it is.
    """
    if not all(each.view.may_run_anywhere for each in claimants):
        return False
    theirs = pod.shape.request
    return all(
        _nodes_for(ours) == _nodes_for(theirs)
        and 0 < ours.gpus <= theirs.gpus
        and (len(claimants) == 1 or ours.gpus == theirs.gpus)
        and ours.cpu_millicores <= theirs.cpu_millicores
        and ours.memory_bytes <= theirs.memory_bytes
        for ours in {each.shape.request for each in claimants}
    )


def _nodes_for(request: Request) -> tuple[object, ...]:
    return request.pool, request.node_labels, request.selector, request.tolerations


def reclaim(session: Session) -> None:
    """Serve every job of queues below their fair share: these take back what others hold beyond theirs."""
    below_share = {queue for queue in session.queues.values() if quotas.is_below_share(queue)}

    def victims_of(job: Job, pods: list[Pod]) -> Callable[[], VictimQueue]:
        amounts = session.charge_all(pods)
        last = session.charge_all(pod for pod in pods if pod.job is pods[-1].job)
        claimed_milli = quotas.claimed_milli(job.queue)

        def wanted_milli(queue: QueueState) -> float:
            """Return what one victim may free: for all that is claimed, but not more than its queue has too much."""
            return last[GPU] and max(last[GPU], min(claimed_milli, queue.held[GPU] - queue.may_hold[GPU]))

        protection_from = cache(lambda queue: quotas.protection_from(session, job, amounts, last, queue))
        return lambda: _victims(
            session,
            in_queue=lambda queue: queue is not job.queue and quotas.is_worth_trying(job, amounts, queue),
            may_take=lambda other: not protection_from(other.queue).protects(other),
            wanted_milli=wanted_milli,
        )

    _serve_by_taking(
        session,
        StopCode.RECLAIMED,
        may_claim=below_share.__contains__,
        may_try=lambda job, pods: quotas.may_claim(session, job, pods) and quotas.may_be_enough(session, job, pods),
        victims_of=victims_of,
        judge=lambda job: lambda pods, units: quotas.ReclaimCheck(session, job, pods, units).is_allowed,
    )


def preempt(session: Session) -> None:
    """Serve every waiting job that may take the place of preemptible work of lower priority in its own queue."""
    first_waiting = session.waiting_lines.settled()

    def has_lower_work(queue: QueueState) -> bool:
        """Return whether a queue has any work of lower priority than the most urgent job that waits in it."""
        holding = session.victim_lines.of(queue)
        return bool(holding) and any(
            line[0][1].view.priority > holding[-1][1].view.priority for line in first_waiting[queue].values()
        )

    def victims_of(job: Job, _pods: list[Pod]) -> Callable[[], VictimQueue]:
        return lambda: _victims(
            session,
            in_queue=lambda queue: queue is job.queue,
            may_take=lambda other: other.view.priority < job.view.priority and quotas.may_preempt(session, other),
            wanted_milli=lambda _queue: session.charge_all(job.next_pods())[0],
        )

    _serve_by_taking(
        session,
        StopCode.PREEMPTED,
        may_claim=has_lower_work if session.policy.priorities else lambda _queue: True,
        may_try=lambda job, pods: quotas.within_firm_quota(job, session.charge_all(pods)),
        victims_of=victims_of,
        judge=lambda job: lambda _pods, _units: _within_share(session, job),
    )


def _within_share(session: Session, job: Job) -> Callable[[Sequence[Unit]], bool]:
    """Return what says, afterwards, whether the queues above the job hold no more than they may, or than before.

    Otherwise others would reclaim what a larger job of the same queue just took, and so on for ever.
    """
    bounds = [
        (queue, [max(held, share) for held, share in zip(queue.held, queue.may_hold, strict=True)])
        for queue in job.line
        if session.policy.honors_reservations
    ]
    return lambda _lost: all(
        held <= bound for queue, most in bounds for held, bound in zip(queue.held, most, strict=True)
    )


def _serve_by_taking(
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
    return code is StopCode.MOVED or not quotas.claims_much(job.queue)


def _victims(
    session: Session,
    *,
    in_queue: Callable[[QueueState], bool],
    may_take: Callable[[Job], bool],
    wanted_milli: Callable[[QueueState], float] | None = None,
) -> VictimQueue:
    """Return the preemptible work of some queues, the first victim first: preferably no more of it than is needed."""
    keeps = session.policy.honors_reservations
    return VictimQueue(
        session.victim_lines,
        [queue for queue in session.queues.values() if queue.parent is None],
        queue_key=lambda queue, less: queue_key(session, queue, (0, 0, 0), less),
        charge_all=session.charge_all,
        has_victims=in_queue,
        may_take=lambda job: not (keeps and job.is_arriving()) and may_take(job),
        wanted_milli=wanted_milli if keeps else None,
    )
