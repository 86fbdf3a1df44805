"""Allocate: give free capacity to waiting jobs, queue by queue in fair order, without an eviction.

A job that does not fit is passed over and the next one is tried, so no capacity stays idle that somebody could use; but
from big work that has waited for long nobody who comes later takes it (`rules/reservation.py`).
"""

from scheduler.engine.jobs import Job
from scheduler.engine.placing import place
from scheduler.engine.rules import reservation
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session


def allocate(session: Session) -> None:
    """Start every job that fits now, and reserve capacity for every job that fits soon."""
    waiting = JobQueue(session, session.waiting_lines.settled(), Job.next_pods)
    guard = reservation.Guard(session)
    while (turn := waiting.pop()) is not None:
        job, pods = turn
        if not place(session, job, pods):
            guard.reserve_if_due(job, pods)
            if not guard.may_be_for(job, pods):
                waiting.pass_over()
        elif job.waiting:
            waiting.push(job)
