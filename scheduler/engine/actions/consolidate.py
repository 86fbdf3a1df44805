"""Consolidate: move running work together so that a waiting job fits. Nobody loses a place."""

from collections.abc import Callable

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Task
from scheduler.engine.session import Session
from scheduler.engine.victims import VictimQueue


def consolidate(session: Session) -> None:
    """Serve every preemptible job for which there is enough room in all, but not in one place."""

    def victims_of(job: Job, _tasks: list[Task]) -> Callable[[], VictimQueue]:
        return lambda: victims(session, in_queue=lambda _queue: True, may_take=lambda other: other is not job)

    serve_by_taking(
        session,
        StopCode.MOVED,
        may_try=lambda job, tasks: job.view.is_preemptible and _is_enough_in_all(session, tasks),
        victims_of=victims_of,
        judge=lambda _job: lambda _tasks, _units: lambda lost: not lost,
    )


def _is_enough_in_all(session: Session, tasks: list[Task]) -> bool:
    if any(task.shape.counts_slices for task in tasks):
        return True
    wanted = session.charge_all(tasks, at_least=True)[0]
    return not wanted or session.free_milli() >= wanted
