"""Preempt: inside one queue, work of higher priority takes the place of preemptible work of lower priority."""

from collections.abc import Callable, Sequence

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import QueueState
from scheduler.engine.rules import limits, runtime
from scheduler.engine.session import Session
from scheduler.engine.victims import Unit, VictimQueue


def preempt(session: Session) -> None:
    """Serve every waiting job that may push out others of its queue."""
    first_waiting = session.waiting_lines.settled()

    def has_lower_work(queue: QueueState) -> bool:
        """Return whether a queue has any work of lower priority than the most urgent job that waits in it."""
        holding = session.lines.of(queue)
        return bool(holding) and any(
            line[0][1].view.priority > holding[-1][1].view.priority for line in first_waiting[queue].values()
        )

    def victims_of(job: Job, _pods: list[Pod]) -> Callable[[], VictimQueue]:
        return lambda: victims(
            session,
            in_queue=lambda queue: queue is job.queue,
            may_take=lambda other: other.view.priority < job.view.priority and runtime.may_preempt(session, other),
            wanted_milli=lambda _queue: session.charge_all(job.next_pods())[0],
        )

    serve_by_taking(
        session,
        StopCode.PREEMPTED,
        may_claim=has_lower_work if session.policy.priorities else lambda _queue: True,
        may_try=lambda job, pods: limits.within_firm_quota(job, session.charge_all(pods)),
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
