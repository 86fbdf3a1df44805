"""Finding places for the tasks that come next: all of them, or none."""

from collections.abc import Mapping, Sequence

from scheduler.engine.jobs import Job, Task
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.rules import affinity, limits, pools, scoring, topology
from scheduler.engine.session import Session
from scheduler.engine.snapshot import TaskState


def place(session: Session, job: Job, tasks: Sequence[Task], *, promise_only: bool = False) -> bool:
    """Give the tasks room, or promise it; return whether all of them got some. Nothing is changed if not.

    Of several pools the first in which all may start at once is taken, else the first in which room is coming.
    """
    if not job.view.pools:
        return place_as_asked(session, job, tasks, promise_only=promise_only)

    def start_all() -> bool:
        mark = session.mark()
        if place_as_asked(session, job, tasks) and all(task.state is TaskState.STARTING for task in tasks):
            return True
        session.take_back(mark)
        return False

    is_now = not promise_only and session.policy.prefers_free_now and pools.in_order(session, job, tasks, start_all)
    return is_now or pools.in_order(
        session, job, tasks, lambda: place_as_asked(session, job, tasks, promise_only=promise_only)
    )


def place_as_asked(session: Session, job: Job, tasks: Sequence[Task], *, promise_only: bool = False) -> bool:
    """Do the same where the tasks say by themselves which nodes serve them.

    If what runs for real does not make a pod set whole, all that was started here is only promised.
    """
    if not tasks or session.best_node(tasks[0]) is None:
        return False
    mark = session.mark()
    amounts = session.charge_all(tasks, at_least=True)
    if not limits.may_hold(session, job, amounts):
        return False
    if not topology.place_together(session, job, tasks, promise_only=promise_only, place_one=place_one):
        session.take_back(mark)
        return False
    if not promise_only:
        _promise_all_unless_whole(session, job, tasks)
    return True


def place_one(
    session: Session,
    task: Task,
    nodes: Sequence[NodeLedger] | None,
    preferences: Mapping[str, int] | None,
    *,
    promise_only: bool,
) -> bool:
    """Give one task the best room that fits it; `nodes` None stands for all of them."""
    is_anywhere = nodes is None and not preferences and task.view.may_run_anywhere
    if is_anywhere:
        best = session.best_node(task)
        if best is None:
            return False
        if _take(session, task, best, promise_only=promise_only):
            return True
    for node in scoring.rank(session, task, session.ready if nodes is None else nodes, preferences):
        if affinity.allows(session, task, node) and _take(session, task, node, promise_only=promise_only):
            return True
    return False


def _take(session: Session, task: Task, node: NodeLedger, *, promise_only: bool) -> bool:
    """Take room on a node unless the charge there breaks a limit or no device serves the task."""
    request = task.shape.request
    if (request.share_mib or request.mig) and not limits.may_hold(session, task.job, task.shape.charge(node.kind)):
        return False
    picked = scoring.pick_devices(session, task, node, promise_only=promise_only)
    if picked is None:
        return False
    devices, now = picked
    if now:
        session.start(task, node, devices)
    else:
        session.plan(task, node, devices)
    return True


def _promise_all_unless_whole(session: Session, job: Job, tasks: Sequence[Task]) -> None:
    for pod_set in job.pod_sets.values():
        if pod_set.planned and pod_set.active < pod_set.view.min_available:
            break
    else:
        return
    for task in tasks:
        if task.state is TaskState.STARTING and task.node is not None:
            session.plan(task, task.node, () if task.shape.request.gpus else task.devices)
