"""Preempt: inside one queue, work of higher priority takes the place of preemptible work of lower priority."""

from collections.abc import Callable

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.jobs import Job, Task
from scheduler.engine.rules import limits, runtime
from scheduler.engine.session import Session
from scheduler.engine.victims import VictimQueue


def preempt(session: Session) -> None:
    """Serve every waiting job that may push out others of its queue."""

    def victims_of(job: Job, _tasks: list[Task]) -> Callable[[], VictimQueue]:
        return lambda: victims(
            session,
            in_queue=lambda queue: queue is job.queue,
            may_take=lambda other: other.view.priority < job.view.priority and runtime.may_preempt(session, other),
        )

    serve_by_taking(
        session,
        may_try=lambda job, tasks: limits.within_firm_quota(job, session.charge_all(tasks)),
        victims_of=victims_of,
        judge=lambda _job: lambda _tasks, _units: lambda _lost: True,
    )
