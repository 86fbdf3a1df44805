"""Reclaim: a queue below its fair share takes back what other queues hold beyond theirs."""

from collections.abc import Callable

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Task
from scheduler.engine.rules import reclaimable, runtime
from scheduler.engine.session import Session
from scheduler.engine.victims import VictimQueue


def reclaim(session: Session) -> None:
    """Serve every job whose queue may claim room."""

    def victims_of(job: Job, tasks: list[Task]) -> Callable[[], VictimQueue]:
        amounts = session.charge_all(tasks)
        return lambda: victims(
            session,
            in_queue=lambda queue: queue is not job.queue and reclaimable.is_worth_trying(job, amounts, queue),
            may_take=lambda other: runtime.may_reclaim(session, job, other),
            wanted_milli=session.charge_all(job.next_tasks())[0],
        )

    serve_by_taking(
        session,
        StopCode.RECLAIMED,
        may_try=lambda job, tasks: (
            reclaimable.may_claim(session, job, tasks) and reclaimable.may_be_enough(session, job, tasks)
        ),
        victims_of=victims_of,
        judge=lambda job: lambda tasks, units: reclaimable.Claim(session, job, tasks, units).is_allowed,
    )
