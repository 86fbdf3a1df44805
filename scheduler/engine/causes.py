"""Why a task is stopped, in words. Other queues are not named: who may see this one need not know of them."""

from core.units import format_duration
from scheduler.engine import wording
from scheduler.engine.decisions import Stop, StopCode
from scheduler.engine.jobs import Task
from scheduler.engine.rules import runtime
from scheduler.engine.session import Session
from scheduler.engine.snapshot import TaskState


def explain_stop(session: Session, task: Task) -> Stop:
    """Return the decision to stop a task that runs, with the cause that the session noted."""
    code, job = session.causes[task]
    moves_to = task.node.view if task.node is not None and task.state is TaskState.PLANNED else None
    queue = task.job.queue.view.name
    if (limit := runtime.reached_limit(task.job)) is not None and code is limit.code:
        has, may = ("has run", "run") if code is StopCode.TIME_LIMIT else ("has not used its GPUs", "leave them unused")
        work, most = wording.kind_of_work(task.job), format_duration(limit.at_most_s)
        text = f"It {has} for {format_duration(limit.lasted_s)}; {work} may {may} for {most}."
    elif job is None:
        text = "Fewer of its tasks run than it needs, and have for longer than they may."
    elif moves_to is not None:
        code, text = StopCode.MOVED, f"It moves to {moves_to.name}, so that {wording.call(job, task.job)} finds room."
    elif code is StopCode.PREEMPTED:
        text = f"{job.view.label} of the same queue, {queue}, has the higher priority."
    else:
        text = f"Another queue claims its share; {queue} holds more than it may keep."
    for_job = job.view.id if job is not None else None
    moves_to_id = moves_to.id if moves_to is not None else None
    return Stop(task.job.view.id, task.id, moves_to_id, code, text, for_job)
