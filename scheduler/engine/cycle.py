"""The whole scheduler in one call: overdue work ends, then the actions run from the least to the most disruptive."""

from collections.abc import Callable, Iterable

from scheduler.engine.actions.allocate import allocate
from scheduler.engine.actions.consolidate import consolidate
from scheduler.engine.actions.end_overdue import end_overdue
from scheduler.engine.actions.evict_stale import evict_stale_gangs
from scheduler.engine.actions.honor_reservations import honor_reservations
from scheduler.engine.actions.preempt import preempt
from scheduler.engine.actions.reclaim import reclaim
from scheduler.engine.causes import explain_stop
from scheduler.engine.decisions import Decision, Move, Reserve, Start, Withdraw
from scheduler.engine.explain import explain
from scheduler.engine.jobs import Pod
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState, PodView, Policy, Snapshot

ACTIONS: dict[str, Callable[[Session], None]] = {
    "end_overdue": end_overdue,
    "honor_reservations": honor_reservations,
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
    Actions that are left out have no effect.
    """
    return decide(Session(snapshot, policy), actions)


def decide(session: Session, actions: Iterable[str] = tuple(ACTIONS)) -> list[Decision]:
    """Run a cycle on a session, new or cached, on which nothing has been decided yet."""
    return [*decide_moves(session, actions), *explain(session)]


def decide_moves(session: Session, actions: Iterable[str] = tuple(ACTIONS)) -> list[Move]:
    """Decide on such a session what moves; why the others wait, `list_answers` tells."""
    for name in actions:
        ACTIONS[name](session)
    return [decision for pod in session.moved_since(0) for decision in _of(session, pod)]


def _of(session: Session, pod: Pod) -> list[Move]:
    job_id, before, now = pod.job.view.id, pod.view.state, pod.state
    node_id = pod.node.view.id if pod.node is not None else ""
    decisions: list[Move] = []
    if before is PodState.RUNNING and now is not PodState.RUNNING:
        decisions.append(explain_stop(session, pod))
    if now is PodState.STARTING:
        decisions.append(Start(job_id, pod.id, node_id, pod.devices))
    elif now is PodState.RESERVED and (before is not now or (node_id, pod.devices) != _place_of(pod.view)):
        decisions.append(Reserve(job_id, pod.id, node_id, pod.devices))
    elif before is PodState.RESERVED and now is not before:
        decisions.append(Withdraw(job_id, pod.id))
    return decisions


def _place_of(view: PodView) -> tuple[str | None, tuple[str, ...]]:
    return view.node_id, view.devices
