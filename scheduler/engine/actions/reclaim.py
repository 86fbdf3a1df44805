"""Reclaim: a queue below its fair share takes back what other queues hold beyond theirs."""

from collections.abc import Callable
from functools import cache

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import GPU, QueueState
from scheduler.engine.rules import reclaimable, runtime
from scheduler.engine.session import Session
from scheduler.engine.victims import VictimQueue


def reclaim(session: Session) -> None:
    """Serve every job whose queue may claim capacity."""
    below_share = {queue for queue in session.queues.values() if reclaimable.is_below_share(queue)}

    def victims_of(job: Job, pods: list[Pod]) -> Callable[[], VictimQueue]:
        amounts = session.charge_all(pods)
        last = session.charge_all(pod for pod in pods if pod.job is pods[-1].job)
        claimed_milli = reclaimable.claimed_milli(job.queue)

        def wanted_milli(queue: QueueState) -> float:
            """Return what one victim may free: for all that is claimed, but not more than its queue has too much."""
            return last[GPU] and max(last[GPU], min(claimed_milli, queue.held[GPU] - queue.may_hold[GPU]))

        protection_from = cache(lambda queue: runtime.protection_from(session, job, amounts, last, queue))
        return lambda: victims(
            session,
            in_queue=lambda queue: queue is not job.queue and reclaimable.is_worth_trying(job, amounts, queue),
            may_take=lambda other: not protection_from(other.queue).protects(other),
            wanted_milli=wanted_milli,
        )

    serve_by_taking(
        session,
        StopCode.RECLAIMED,
        may_claim=below_share.__contains__,
        may_try=lambda job, pods: (
            reclaimable.may_claim(session, job, pods) and reclaimable.may_be_enough(session, job, pods)
        ),
        victims_of=victims_of,
        judge=lambda job: lambda pods, units: reclaimable.ReclaimCheck(session, job, pods, units).is_allowed,
    )
