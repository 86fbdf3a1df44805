"""The whole scheduler in one call. What is over ends; then the actions run from the least to the most disruptive."""

from collections.abc import Callable, Iterable

from scheduler.engine.actions.allocate import allocate
from scheduler.engine.actions.consolidate import consolidate
from scheduler.engine.actions.end_overdue import end_overdue
from scheduler.engine.actions.evict_stale import evict_stale_gangs
from scheduler.engine.actions.keep_promises import keep_promises
from scheduler.engine.actions.preempt import preempt
from scheduler.engine.actions.reclaim import reclaim
from scheduler.engine.causes import explain_stop
from scheduler.engine.decisions import Decision, Plan, Start, Withdraw
from scheduler.engine.explain import explain
from scheduler.engine.jobs import Task
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Policy, Snapshot, TaskState, TaskView

ACTIONS: dict[str, Callable[[Session], None]] = {
    "end_overdue": end_overdue,
    "keep_promises": keep_promises,
    "allocate": allocate,
    "consolidate": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "evict_stale_gangs": evict_stale_gangs,
}
"""Every action by name, in the order in which they run."""


def run_cycle(snapshot: Snapshot, policy: Policy, actions: Iterable[str] = tuple(ACTIONS)) -> list[Decision]:
    """Decide for one moment. Same input, same output: no clock, no I/O, no hidden order.

    Moves come in the order in which they were decided; then each job of which something goes on waiting is explained.
    Actions that are left out take room from nobody.
    """
    return decide(Session(snapshot, policy), actions)


def decide(session: Session, actions: Iterable[str] = tuple(ACTIONS)) -> list[Decision]:
    """Run a cycle on a session, new or kept, on which nothing has been decided yet."""
    for name in actions:
        ACTIONS[name](session)
    return [*_moves(session), *explain(session)]


def _moves(session: Session) -> list[Decision]:
    return [decision for task in session.moved_since(0) for decision in _of(session, task)]


def _of(session: Session, task: Task) -> list[Decision]:
    job_id, before, now = task.job.view.id, task.view.state, task.state
    node_id = task.node.view.id if task.node is not None else ""
    decisions: list[Decision] = []
    if before is TaskState.RUNNING and now is not TaskState.RUNNING:
        decisions.append(explain_stop(session, task))
    if now is TaskState.STARTING:
        decisions.append(Start(job_id, task.id, node_id, task.devices))
    elif now is TaskState.PLANNED and (before is not now or (node_id, task.devices) != _place_of(task.view)):
        decisions.append(Plan(job_id, task.id, node_id, task.devices))
    elif before is TaskState.PLANNED and now is not before:
        decisions.append(Withdraw(job_id, task.id))
    return decisions


def _place_of(view: TaskView) -> tuple[str | None, tuple[str, ...]]:
    return view.node_id, view.devices
