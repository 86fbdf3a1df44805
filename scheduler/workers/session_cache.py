"""The engine's session of this process, cached from cycle to cycle: only what changed in the database is applied."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

from core import clock
from core.models import Failure
from scheduler.engine.session import Session
from scheduler.engine.snapshot import Policy, Snapshot
from scheduler.workers import undecided
from scheduler.workers.snapshots import ClusterView, SnapshotReader

_MAX_AGE = timedelta(minutes=1)
"""Then everything is read again, so that no mistake in a cached session lasts."""


@dataclass(frozen=True)
class CycleInput:
    """What a cycle decides on. `has_changes`: it may decide otherwise than the last cycle, which moved nothing."""

    session: Session
    view: ClusterView
    has_changes: bool


@dataclass(frozen=True)
class _CachedSession:
    reader: SnapshotReader
    session: Session
    view: ClusterView
    since: datetime


class SessionCache:
    """Caches one session. A cycle that is cut short leaves none behind."""

    def __init__(self) -> None:
        self._cached: _CachedSession | None = None
        self._lock = Lock()

    @contextmanager
    def read(self, policy: Policy, failures: Sequence[Failure] = ()) -> Iterator[CycleInput]:
        """Return the input of a cycle that runs now; a second caller waits for the first.

        Workloads on which the engine failed lately are left out.
        """
        with self._lock:
            cached, self._cached = self._cached, None
            now = clock.now()
            if cached is None or not timedelta(0) <= now - cached.since < _MAX_AGE:
                reader, since = SnapshotReader(), now
                cycle_input = _rebuild(undecided.leave_out(reader.read(), failures), policy)
            else:
                reader, since = cached.reader, cached.since
                cycle_input = _update(cached, undecided.leave_out(reader.read(), failures), policy)
            yield cycle_input
            self._cached = _CachedSession(reader, cycle_input.session, cycle_input.view, since)

    def forget(self) -> None:
        """Drop the session, which the engine has left in an unknown state."""
        with self._lock:
            self._cached = None


def _rebuild(view: ClusterView, policy: Policy) -> CycleInput:
    session = Session(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy)
    return CycleInput(session, view, has_changes=True)


def _update(cached: _CachedSession, view: ClusterView, policy: Policy) -> CycleInput:
    before, session = cached.view, cached.session
    if (before.nodes, before.queues, session.policy) != (view.nodes, view.queues, policy):
        return _rebuild(view, policy)
    has_moved = bool(session.moved_since(0))
    ended_ids = before.jobs.keys() - view.jobs.keys()
    known = before.jobs
    changed_jobs = [job for pk, job in view.jobs.items() if (old := known.get(pk)) is not job and old != job]
    session.change(changed_jobs, ended_ids)
    return CycleInput(session, view, has_changes=bool(has_moved or ended_ids or changed_jobs))
