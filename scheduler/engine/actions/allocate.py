"""Allocate: give free room to those who wait, queue by queue in fair order, without taking from anyone.

A job that does not fit is passed over and the next one is tried, so no room stays idle that somebody could use; but
from big work that has waited for long nobody who comes later takes it (`rules/reservation.py`).
"""

from scheduler.engine.jobs import Job
from scheduler.engine.placing import place
from scheduler.engine.rules import reservation
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session


def allocate(session: Session) -> None:
    """Start, or promise room to, every job for which there is some."""
    waiting = JobQueue(session, session.waiting_lines.settled(), Job.next_tasks)
    guard = reservation.Guard(session)
    while (turn := waiting.pop()) is not None:
        job, tasks = turn
        if not place(session, job, tasks):
            guard.reserve_if_due(job, tasks)
            if not guard.may_be_for(job, tasks):
                waiting.pass_over()
        elif job.waiting:
            waiting.push(job)
