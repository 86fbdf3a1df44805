"""The whole scheduler in one call: overdue work ends, then the actions run from the least to the most disruptive.

Who is stopped is told why. Other queues are not named: a member of this queue may not see them.
"""

from collections.abc import Callable, Iterable

from core.units import format_duration
from scheduler.engine import wording
from scheduler.engine.actions.ending import end_overdue, evict_stale_gangs, reached_limit
from scheduler.engine.actions.starting import allocate, honor_reservations
from scheduler.engine.actions.taking import consolidate, preempt, reclaim
from scheduler.engine.decisions import Decision, Move, Reserve, Start, Stop, StopCode, Withdraw
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
        decisions.append(_explain_stop(session, pod))
    if now is PodState.STARTING:
        decisions.append(Start(job_id, pod.id, node_id, pod.devices))
    elif now is PodState.RESERVED and (before is not now or (node_id, pod.devices) != _place_of(pod.view)):
        decisions.append(Reserve(job_id, pod.id, node_id, pod.devices))
    elif before is PodState.RESERVED and now is not before:
        decisions.append(Withdraw(job_id, pod.id))
    return decisions


def _place_of(view: PodView) -> tuple[str | None, tuple[str, ...]]:
    return view.node_id, view.devices


def _explain_stop(session: Session, pod: Pod) -> Stop:
    """Return the decision to stop a pod that runs, with the cause that the session noted."""
    code, job, _ = session.causes[pod]
    moves_to = pod.node.view if pod.node is not None and pod.state is PodState.RESERVED else None
    queue = pod.job.queue.view.name
    if (limit := reached_limit(pod.job)) is not None and code is limit.code:
        has = "has run" if code is StopCode.TIME_LIMIT else "has not used its GPUs"
        work, most = wording.kind_of_work(pod.job), format_duration(limit.at_most_s)
        text = f"The limit of {most} for {work} is reached: it {has} for {format_duration(limit.lasted_s)}."
    elif job is None:
        text = "Fewer of its pods run than it needs, and have for longer than they may."
    elif moves_to is not None:
        code = StopCode.MOVED
        text = f"It moves to {moves_to.name}, so that {wording.call(job, pod.job)} finds capacity."
    elif code is StopCode.PREEMPTED:
        text = f"{job.view.label} of the same queue, {queue}, has the higher priority."
    else:
        text = f"Another queue claims its share; {queue} holds more than it may keep."
    for_job = job.view.id if job is not None else None
    moves_to_id = moves_to.id if moves_to is not None else None
    return Stop(pod.job.view.id, pod.id, moves_to_id, code, text, for_job)
