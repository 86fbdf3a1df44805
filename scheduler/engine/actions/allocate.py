"""Allocate: give free capacity to waiting jobs, queue by queue in fair order, without an eviction.

A job that does not fit is passed over and the next one is tried, so no capacity stays idle that somebody could use; but
from big work that has waited for long nobody who comes later takes it (`rules/reservation.py`).

What a queue may claim by its share is served before anything that lifts another queue beyond its own. Otherwise that
would start only to be reclaimed in the next cycle, and again whenever the reservation for the claim is lost.
"""

from scheduler.engine.jobs import Job
from scheduler.engine.placing import place
from scheduler.engine.rules import reclaimable, reservation
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session


def allocate(session: Session) -> None:
    """Start every job that fits now, and reserve capacity for every job that fits soon."""
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
        may_start = not only_claims or reclaimable.may_claim(session, job, pods)
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
