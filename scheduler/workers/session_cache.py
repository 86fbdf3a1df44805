"""The engine's session of this process, kept from cycle to cycle and told only what has changed in the database."""

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
from scheduler.workers.snapshots import Books, View

_KEEP_FOR = timedelta(minutes=1)
"""Then everything is read anew, so that no mistake in keeping it lasts."""


@dataclass(frozen=True)
class Moment:
    """What a cycle decides on, and whether it can come to another end than the last one, which moved nothing."""

    session: Session
    view: View
    is_news: bool


@dataclass(frozen=True)
class _Kept:
    books: Books
    session: Session
    view: View
    since: datetime


class SessionKeeper:
    """Keeps a session. A cycle that is cut short leaves none behind."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._lock = Lock()

    @contextmanager
    def look(self, policy: Policy, failures: Sequence[Failure] = ()) -> Iterator[Moment]:
        """Look at the present moment. Who comes while somebody looks waits for his turn.

        Workloads on which the engine failed lately are left out.
        """
        with self._lock:
            kept, self._kept = self._kept, None
            now = clock.now()
            if kept is None or not timedelta(0) <= now - kept.since < _KEEP_FOR:
                books = Books()
                moment, since = _anew(undecided.leave_out(books.read(), failures), policy), now
            else:
                books, since = kept.books, kept.since
                moment = _go_on(kept, undecided.leave_out(books.read(), failures), policy)
            yield moment
            self._kept = _Kept(books, moment.session, moment.view, since)

    def forget(self) -> None:
        """Drop the session, which the engine has left in an unknown state."""
        with self._lock:
            self._kept = None


def _anew(view: View, policy: Policy) -> Moment:
    return Moment(Session(Snapshot(view.nodes, view.queues, list(view.jobs.values())), policy), view, is_news=True)


def _go_on(kept: _Kept, view: View, policy: Policy) -> Moment:
    before, session = kept.view, kept.session
    if (before.nodes, before.queues, session.policy) != (view.nodes, view.queues, policy):
        return _anew(view, policy)
    has_moved = bool(session.moved_since(0))
    gone = before.jobs.keys() - view.jobs.keys()
    known = before.jobs
    changed = [job for pk, job in view.jobs.items() if (old := known.get(pk)) is not job and old != job]
    session.change(changed, gone)
    return Moment(session, view, is_news=bool(has_moved or gone or changed))
