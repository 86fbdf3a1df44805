"""What a queue may not go beyond: its limit, and its quota for work that is not preemptible."""

from collections.abc import Sequence

from scheduler.engine.jobs import Job
from scheduler.engine.queues import RESOURCES
from scheduler.engine.session import Session

_ALL = range(RESOURCES)


def may_hold(session: Session, job: Job, amounts: Sequence[float]) -> bool:
    """Return whether a job may hold so much more, at its queue and at every queue above."""
    if not session.policy.quotas:
        return True
    return within_limits(job, amounts) and within_firm_quota(job, amounts)


def within_limits(job: Job, amounts: Sequence[float]) -> bool:
    """Return whether no limit on the way up would be passed in a resource that is asked for."""
    for queue in job.line:
        held, limit = queue.held, queue.limit
        for resource in _ALL:
            if amounts[resource] and held[resource] + amounts[resource] > limit[resource]:
                return False
    return True


def within_firm_quota(job: Job, amounts: Sequence[float]) -> bool:
    """Return whether work that is not preemptible would stay within every quota on the way up."""
    if job.view.is_preemptible:
        return True
    for queue in job.line:
        firm, quota = queue.firm, queue.quota
        for resource in _ALL:
            if amounts[resource] and firm[resource] + amounts[resource] > quota[resource]:
                return False
    return True
