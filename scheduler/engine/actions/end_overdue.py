"""End overdue work: what has run, or has left its GPUs unused, for as long as its queue lets it is stopped for good."""

from scheduler.engine.rules import runtime
from scheduler.engine.session import Cause, Session
from scheduler.engine.snapshot import PodState


def end_overdue(session: Session) -> None:
    """End every job that runs and has reached a limit of time; what of it still waits does so no more."""
    limited = {queue for queue in session.queues.values() if queue.has_time_limits}
    if not limited:
        return
    overdue = [
        (job, limit)
        for job in session.jobs.values()
        if job.queue in limited and (limit := runtime.reached_limit(job)) is not None
    ]
    for job, limit in sorted(overdue, key=lambda pair: (pair[0].view.rank, pair[0].view.id)):
        if any(pod.state is PodState.RUNNING for pod in job.pods):
            session.cause = Cause(limit.code)
            session.end(job)
