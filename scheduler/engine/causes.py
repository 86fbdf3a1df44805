"""Why a pod is stopped, in words. Other queues are not named: a member of this queue may not see them."""

from core.units import format_duration
from scheduler.engine import wording
from scheduler.engine.decisions import Stop, StopCode
from scheduler.engine.jobs import Pod
from scheduler.engine.rules import runtime
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState


def explain_stop(session: Session, pod: Pod) -> Stop:
    """Return the decision to stop a pod that runs, with the cause that the session noted."""
    code, job, _ = session.causes[pod]
    moves_to = pod.node.view if pod.node is not None and pod.state is PodState.RESERVED else None
    queue = pod.job.queue.view.name
    if (limit := runtime.reached_limit(pod.job)) is not None and code is limit.code:
        has = "has run" if code is StopCode.TIME_LIMIT else "has not used its GPUs"
        work, most = wording.kind_of_work(pod.job), format_duration(limit.at_most_s)
        text = f"The limit of {most} for {work} is reached: it {has} for {format_duration(limit.lasted_s)}."
    elif job is None:
        text = "Fewer of its pods run than it needs, and have for longer than they may."
    elif moves_to is not None:
        code, text = (
            StopCode.MOVED,
            f"It moves to {moves_to.name}, so that {wording.call(job, pod.job)} finds capacity.",
        )
    elif code is StopCode.PREEMPTED:
        text = f"{job.view.label} of the same queue, {queue}, has the higher priority."
    else:
        text = f"Another queue claims its share; {queue} holds more than it may keep."
    for_job = job.view.id if job is not None else None
    moves_to_id = moves_to.id if moves_to is not None else None
    return Stop(pod.job.view.id, pod.id, moves_to_id, code, text, for_job)
