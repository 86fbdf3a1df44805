"""Allocate: give free room to those who wait, queue by queue in fair order, without taking from anyone.

A job that does not fit is passed over and the next one is tried, so no room stays idle that somebody could use.
"""

from scheduler.engine.jobs import Job
from scheduler.engine.placing import place
from scheduler.engine.rules.order import JobQueue
from scheduler.engine.session import Session


def allocate(session: Session) -> None:
    """Start, or promise room to, every job for which there is some."""
    waiting = JobQueue(session, list(session.waiting.values()), Job.next_tasks)
    while (turn := waiting.pop()) is not None:
        job, tasks = turn
        if place(session, job, tasks) and job.waiting:
            waiting.push(job)
