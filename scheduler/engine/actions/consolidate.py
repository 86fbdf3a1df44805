"""Consolidate: move running work together so that a waiting job fits. Nobody loses a place."""

from collections.abc import Callable

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import GPU
from scheduler.engine.rules.runtime import may_move
from scheduler.engine.session import Session
from scheduler.engine.victims import VictimQueue


def consolidate(session: Session) -> None:
    """Serve every preemptible job for which there is enough capacity in all, but not in one place."""

    def victims_of(job: Job, _pods: list[Pod]) -> Callable[[], VictimQueue]:
        def may_take(other: Job) -> bool:
            return other is not job and may_move(session, other)

        return lambda: victims(session, in_queue=lambda _queue: True, may_take=may_take)

    if not session.policy.consolidates:
        return
    session.has_consolidated = bool(session.waiting) and (session.free_milli() > 0 or not session.total[GPU])
    serve_by_taking(
        session,
        StopCode.MOVED,
        may_try=lambda job, pods: job.view.is_preemptible and _is_enough_in_all(session, pods),
        victims_of=victims_of,
        judge=lambda _job: lambda _pods, _units: lambda lost: not lost,
    )


def _is_enough_in_all(session: Session, pods: list[Pod]) -> bool:
    if any(pod.shape.counts_slices for pod in pods):
        return True
    wanted = session.charge_all(pods, at_least=True)[0]
    return not wanted or session.free_milli() >= wanted
