"""Keep promises: who was promised room in an earlier cycle gets it as soon as those who left it are gone.

Until then the room stays theirs, so nobody slips in while a victim is still shutting down.
"""

from scheduler.engine.jobs import Job, Task
from scheduler.engine.rules.scoring import pick_devices
from scheduler.engine.session import Session
from scheduler.engine.snapshot import TaskState


def keep_promises(session: Session) -> None:
    """Start the tasks of each job on the room promised to them once all of it is free."""
    for job in sorted(session.promised.values(), key=lambda job: (job.view.rank, job.view.id)):
        planned = [task for task in job.tasks if task.state is TaskState.PLANNED]
        mark = session.mark()
        if any(_is_void(task) for task in planned):
            for task in planned:
                session.evict(task)
        elif not _start_all(session, job, planned):
            session.take_back(mark)


def _is_void(task: Task) -> bool:
    """Return whether the room can never come: the node is gone, closed, or has shrunk."""
    node = task.node
    return node is None or not node.view.is_open or node.idle_gpus + node.coming_gpus < 0


def _start_all(session: Session, job: Job, planned: list[Task]) -> bool:
    del job
    places = [(task, task.node) for task in planned]
    for task in planned:
        session.evict(task)
    for task, node in places:
        if node is None or not node.fits(task.shape.request, now=True):
            return False
        picked = pick_devices(session, task, node, promise_only=False)
        if picked is None or not picked[1]:
            return False
        session.start(task, node, picked[0])
    return True
