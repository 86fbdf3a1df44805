"""The sessions of this process, one for each pool, cached from cycle to cycle: only what changed is applied."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from core import clock
from core.models import Failure
from scheduler.engine.decisions import Answer
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, Policy, Snapshot
from scheduler.selectors.packing import apply_prices
from scheduler.selectors.snapshots import ClusterView, SnapshotReader
from scheduler.workers import undecided

_MAX_AGE = timedelta(minutes=10)
"""Then everything is read again, so that no mistake in a cached session lasts."""


@dataclass(frozen=True)
class CycleInput:
    """What a cycle decides on in one pool. Without `has_changes` it ends as the last cycle, which moved nothing.

    `answers` are those of the last cycle.
    """

    session: Session
    view: ClusterView
    has_changes: bool
    answers: Sequence[Answer] = ()


@dataclass(frozen=True)
class _Cached:
    reader: SnapshotReader
    inputs: dict[str, CycleInput]
    since: datetime


class SessionCache:
    """Caches the sessions. A cycle that is cut short leaves none behind."""

    def __init__(self) -> None:
        self._cached: _Cached | None = None
        self._lock = Lock()
        self.lease_token: str | None = None
        """That of the reader, of the cycle that reads now (`SnapshotReader.lease_token`)."""

        self.is_complete = True
        """Whether that cycle has the input of all pools."""

    @contextmanager
    def read(
        self, policy: Policy, failures: Sequence[Failure] = (), failed: list[undecided.FailedPool] | None = None
    ) -> Iterator[dict[str, CycleInput]]:
        """Return the input of a cycle that runs now, by pool; a second caller waits for the first.

        The caller puts in the answers of the pools in which it decides. Workloads on which the engine failed lately are
        left out, and so are pools. Pools on which it fails now are appended to `failed`.
        """
        with self._lock:
            cached, self._cached = self._cached, None
            now = clock.now()
            if cached is None or not timedelta(0) <= now - cached.since < _MAX_AGE:
                cached = _Cached(SnapshotReader(), {}, now)
            views = cached.reader.read()
            self.lease_token = cached.reader.lease_token
            policy = apply_prices(policy, cached.reader.packing)
            inputs: dict[str, CycleInput] = {}
            failed = [] if failed is None else failed
            delayed_ids = undecided.find_delayed(failures)
            for pool_id in [pool_id for pool_id in views if pool_id not in delayed_ids]:
                view, rules = undecided.leave_out(views[pool_id], failures), views[pool_id].apply_rules(policy, now)
                with undecided.isolated(failed, pool_id, view, rules, lambda session: session):
                    inputs[pool_id] = _read(cached.inputs.get(pool_id), view, rules)
            self.is_complete = len(inputs) == len(views)
            yield inputs
            self._cached = _Cached(cached.reader, inputs, cached.since)


def _read(cached: CycleInput | None, view: ClusterView, policy: Policy) -> CycleInput:
    return _rebuild(view, policy) if cached is None else _update(cached, view, policy)


def _rebuild(view: ClusterView, policy: Policy) -> CycleInput:
    session = Session(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy)
    return CycleInput(session, view, has_changes=True)


def _update(cached: CycleInput, view: ClusterView, policy: Policy) -> CycleInput:
    before, session = cached.view, cached.session
    has_turn = policy.consolidates and not session.policy.consolidates and not session.has_looked_for_moves
    if session.policy.consolidates != policy.consolidates:
        session.policy = replace(session.policy, consolidates=policy.consolidates)
    if (before.nodes, before.queues, session.policy) != (view.nodes, view.queues, policy):
        return _rebuild(view, policy)
    has_moved = bool(session.moved_since(0))
    ended_ids: Collection[str] = ()
    changed_jobs: list[JobView] = []
    if view is not before:
        known, present = before.jobs, view.jobs
        # A view before in which jobs are left out is not the one to which the reader compares.
        touched_ids = view.touched_ids if before.touched_ids is not None else None
        ended_ids = [pk for pk in (known if touched_ids is None else touched_ids) if pk in known and pk not in present]
        changed_jobs = [
            present[pk]
            for pk in (present if touched_ids is None else touched_ids)
            if pk in present and (old := known.get(pk)) is not present[pk] and old != present[pk]
        ]
    has_changes = bool(has_moved or has_turn or ended_ids or changed_jobs)
    if has_changes:
        session.change(changed_jobs, ended_ids)
    return CycleInput(session, view, has_changes, cached.answers)
