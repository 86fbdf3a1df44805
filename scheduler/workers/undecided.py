"""Waiting workloads on which the engine fails: each is found, left out of cycles for a while, and tried again."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from core import clock, isolation
from core.isolation import FailureView
from core.models import Failure
from scheduler.engine.session import Session
from scheduler.engine.snapshot import PodState, Policy, Snapshot
from scheduler.engine.states import WorkloadState
from scheduler.models import Workload
from scheduler.selectors.snapshots import ClusterView

DECIDE = "scheduler.decide"
"""The kind of failures; items are workloads."""

Decide = Callable[[Session], object]


def leave_out(view: ClusterView, failures: Sequence[Failure]) -> ClusterView:
    """Return the view without the workloads whose next try is not due."""
    now = clock.now()
    delayed = {failure.item_id for failure in failures if isolation.is_delayed(failure, now)}
    return view.without(delayed) if delayed else view


def blame(view: ClusterView, policy: Policy, decide: Decide, error: Exception) -> None:
    """Record a failed cycle on the pending workload that causes it. Raises an error that no workload causes."""
    workload_id = find_cause(view, policy, decide)
    if workload_id is None:
        raise error

    def fail(_workload_id: str) -> None:
        raise error

    isolation.for_each(DECIDE, [workload_id], fail, on_failure=_tell)


def find_cause(view: ClusterView, policy: Policy, decide: Decide) -> str | None:
    """Return the last of the fewest waiting workloads with which a cycle fails; None if it fails without any, or never.

    It takes one cycle for each doubling of their number.
    """
    waiting = [job for job in view.jobs.values() if any(pod.state is PodState.PENDING for pod in job.pods)]
    waiting_ids = {job.id for job in waiting}
    others = [job for job in view.jobs.values() if job.id not in waiting_ids]

    def fails(count: int) -> bool:
        try:
            decide(Session(Snapshot(view.nodes, view.queues, [*others, *waiting[:count]]), policy))
        except Exception:  # noqa: BLE001 (the caller has it, and logs it)
            return True
        return False

    if fails(0):
        return None
    place = bisect_left(range(len(waiting)), 1, key=lambda index: fails(index + 1))
    return waiting[place].id if place < len(waiting) else None


def _tell(workload_id: str, failure: Failure) -> None:
    message = FailureView.of(failure, "schedule this job").message
    Workload.objects.filter(pk=workload_id, state=WorkloadState.PENDING).update(
        reason=f"{message} It tries again; the log has the details under {failure.pk}.",
        reason_code="internal_error",
        answer=None,
    )
