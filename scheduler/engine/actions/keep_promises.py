"""Keep promises: who was promised room in an earlier cycle gets it as soon as those who left it are gone.

Until then the room stays theirs, so nobody slips in while a victim is still shutting down.
"""

from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import limits
from scheduler.engine.rules.scoring import pick_devices
from scheduler.engine.session import Session
from scheduler.engine.snapshot import TaskState


def keep_promises(session: Session) -> None:
    """Start the tasks of each job on the room promised to them once all of it is free.

    They wait again where that can never be: their node takes no work any more, or those who were to leave it did not.
    Of several jobs for which there is too little now, the youngest gives way.
    """
    jobs = sorted(session.promised.values(), key=lambda job: (job.view.rank, job.view.id))
    for job in reversed(jobs):
        planned = _planned(job)
        mark = session.mark()
        is_overfull = any(_is_overfull(task) for task in planned)
        can_come = _give(session, job, planned, promise_only=True)
        if not (can_come and is_overfull):
            session.take_back(mark)
        for task in planned if not can_come else ():
            session.evict(task)
    for job in jobs:
        mark = session.mark()
        if not _give(session, job, _planned(job), promise_only=False):
            session.take_back(mark)


def _planned(job: Job) -> list[Task]:
    return [task for task in job.tasks if task.state is TaskState.PLANNED]


def _is_overfull(task: Task) -> bool:
    """Return whether a device that was promised is used by others who should have left it, so another must serve."""
    return task.node is not None and any(task.node.is_overfull(name) for name in task.devices)


def _give(session: Session, job: Job, planned: list[Task], *, promise_only: bool) -> bool:
    """Give tasks the room that was promised to them, or promise it anew; return whether all of them got it."""
    places = [(task, task.node, task.devices) for task in planned]
    amounts = session.charge_all(planned)
    for task in planned:
        session.evict(task)
    return limits.may_hold(session, job, amounts) and all(
        node is not None and _give_one(session, task, node, devices, promise_only=promise_only)
        for task, node, devices in places
    )


def _give_one(session: Session, task: Task, node: NodeLedger, devices: tuple[str, ...], *, promise_only: bool) -> bool:
    request = task.shape.request
    if not node.view.is_open or not node.fits(request, now=not promise_only):
        return False
    if promise_only and devices and node.offers(devices, request):
        session.plan(task, node, devices)
        return True
    picked = pick_devices(session, task, node, promise_only=promise_only)
    if picked is None or picked[1] is promise_only:
        return False
    give = session.plan if promise_only else session.start
    give(task, node, picked[0])
    return True
