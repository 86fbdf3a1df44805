"""Waiting workloads on which the engine fails: each is found, left out of cycles for a while, and tried again.

So is a pool in which it fails whichever of them wait.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet

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

DECIDE_POOL = "scheduler.decide_pool"
"""The kind of failures that no workload causes; items are pools."""

Decide = Callable[[Session], object]


def find_delayed(failures: Sequence[Failure]) -> set[str]:
    """Return the ids of the workloads and pools whose next try is not due."""
    now = clock.now()
    return {failure.item_id for failure in failures if isolation.is_delayed(failure, now)}


def leave_out(view: ClusterView, failures: Sequence[Failure]) -> ClusterView:
    """Return the view without the workloads whose next try is not due."""
    delayed = find_delayed(failures)
    return view.without(delayed) if delayed else view


@dataclass(frozen=True)
class FailedPool:
    """A pool of which nothing was decided in a cycle, and why."""

    pool_id: str
    view: ClusterView
    policy: Policy
    decide: Decide
    error: Exception


@contextmanager
def isolated(
    failed: list[FailedPool], pool_id: str, view: ClusterView, policy: Policy, decide: Decide
) -> Iterator[None]:
    """Append an error of the engine in one pool to those that have failed, and go on."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001 (it is logged where it is recorded)
        failed.append(FailedPool(pool_id, view, policy, decide, error))


def blame(failed: Sequence[FailedPool]) -> None:
    """Record each error on the waiting workload that causes it, else on its pool."""
    for pool in failed:

        def fail(_id: str, error: Exception = pool.error) -> None:
            raise error

        workload_id = find_cause(pool.view, pool.policy, pool.decide)
        if workload_id is None:
            isolation.for_each(DECIDE_POOL, [pool.pool_id], fail, on_failure=_tell_pool)
        else:
            isolation.for_each(DECIDE, [workload_id], fail, on_failure=_tell)


def forget(failures: Sequence[Failure], pool_id: str, view: ClusterView) -> None:
    """Drop those of the failures that are of a pool in which a cycle has decided, or of a workload there."""
    isolation.forget(DECIDE_POOL, [row.item_id for row in failures if row.item_id == pool_id])
    isolation.forget(DECIDE, [row.item_id for row in failures if row.item_id in view.jobs])


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
    _write(Workload.objects.filter(pk=workload_id), failure, "schedule this job")


def _tell_pool(pool_id: str, failure: Failure) -> None:
    _write(Workload.objects.filter(queue__pool=pool_id), failure, "schedule the jobs of this pool")


def _write(workloads: QuerySet[Workload], failure: Failure, work: str) -> None:
    message = FailureView.of(failure, work).message
    workloads.filter(state=WorkloadState.PENDING).update(
        reason=f"{message} It tries again; the log has the details under {failure.pk}.",
        reason_code="internal_error",
        answer=None,
    )
