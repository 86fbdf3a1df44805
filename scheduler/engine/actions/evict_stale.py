"""Evict stale gangs: a gang that lost members and could not get them back gives up its capacity."""

from scheduler.engine.decisions import StopCode
from scheduler.engine.ledger import ACTIVE
from scheduler.engine.session import Cause, Session
from scheduler.engine.snapshot import PodState


def evict_stale_gangs(session: Session) -> None:
    """Stop what is left of every gang that has been below its minimum for longer than its grace."""
    session.cause = Cause(StopCode.STALE)
    for job in sorted(session.partial.values(), key=lambda job: job.view.id):
        active = job.active_pods()
        if not active or any(pod.state is PodState.SUCCEEDED for pod in job.pods):
            continue
        grace = job.view.stale_grace_s if job.view.stale_grace_s is not None else session.policy.stale_grace_s
        if grace < 0 or (job.view.stale_for_s or 0) < grace:
            continue
        for pod in active:
            if pod.state in ACTIVE:
                session.evict(pod)
