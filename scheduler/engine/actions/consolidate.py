"""Consolidate: move running work together so that a waiting job fits. Nobody loses a place."""

from collections.abc import Callable, Sequence

from scheduler.engine.actions.taking import serve_by_taking, victims
from scheduler.engine.decisions import StopCode
from scheduler.engine.jobs import Job, Pod
from scheduler.engine.ledger import HOLDING
from scheduler.engine.queues import GPU
from scheduler.engine.rules import limits
from scheduler.engine.rules.runtime import may_move
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Request
from scheduler.engine.victims import VictimQueue


def consolidate(session: Session) -> None:
    """Serve every preemptible job for which there is enough capacity in all, but not in one place."""
    is_exact = not session.policy.honors_reservations
    tried: set[object] = set()

    def may_try(job: Job, pods: list[Pod]) -> bool:
        return job.view.is_preemptible and _is_enough_in_all(session, pods) and (is_exact or is_new(job, pods))

    def is_new(job: Job, pods: list[Pod]) -> bool:
        """Return whether nobody asked for the same since something was moved: the answer is the same in all queues."""
        if len(pods) > 1 or not pods[0].view.may_run_anywhere:
            return True
        if job in session.reserved_nodes or not limits.may_hold(session, job, session.charge_all(pods)):
            return True
        question = session.checkpoint(), pods[0].shape
        is_asked_first = question not in tried
        tried.add(question)
        return is_asked_first

    def victims_of(job: Job, pods: list[Pod]) -> Callable[[], VictimQueue]:
        def may_take(other: Job) -> bool:
            return other is not job and may_move(session, other) and (is_exact or not is_no_help(other))

        def is_no_help(other: Job) -> bool:
            return all(_would_do(pod, pods) for pod in other.pods if pod.state in HOLDING)

        return lambda: victims(session, in_queue=lambda _queue: True, may_take=may_take)

    is_due = session.policy.consolidates and not session.has_looked_for_moves
    could_help = bool(session.waiting) and (session.free_milli() > 0 or not session.total[GPU])
    session.has_consolidated = is_due and could_help
    if not is_due:
        return
    session.has_looked_for_moves = True
    serve_by_taking(
        session,
        StopCode.MOVED,
        may_try=may_try,
        victims_of=victims_of,
        judge=lambda _job: lambda _pods, _units: lambda lost: not lost,
    )


def _is_enough_in_all(session: Session, pods: list[Pod]) -> bool:
    if any(pod.shape.counts_slices for pod in pods):
        return True
    request = session.charge_all(pods, at_least=True)[0]
    return not request or session.free_milli() >= request


def _would_do(pod: Pod, claimants: Sequence[Pod]) -> bool:
    """Return whether any place to which a pod could be moved would do for each of the wanted ones: it may stay.

    Where several are wanted, more than one of them might come to where it is, so they must be as large as it is.
    """
    if not all(each.view.may_run_anywhere for each in claimants):
        return False
    theirs = pod.shape.request
    return all(
        _nodes_for(ours) == _nodes_for(theirs)
        and 0 < ours.gpus <= theirs.gpus
        and (len(claimants) == 1 or ours.gpus == theirs.gpus)
        and ours.cpu_millicores <= theirs.cpu_millicores
        and ours.memory_bytes <= theirs.memory_bytes
        for ours in {each.shape.request for each in claimants}
    )


def _nodes_for(request: Request) -> tuple[object, ...]:
    return request.pool, request.node_labels, request.selector, request.tolerations
