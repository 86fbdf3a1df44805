"""The right of one worker to fill or remove a copy: renewed while it works, lost when it dies or is too slow.

The token is a fence: every write of the worker names it, so one that was thought dead can change nothing any more.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeAlias

import structlog
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from core import clock
from datasets.engine.cache_states import CacheState
from datasets.errors import StagingLost
from datasets.models import CachedCommit

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=15)
_BEAT_S = 0.5
_RENEW_S = 4.0
# How much the newest measurement counts in the smoothed rate.
_RATE_WEIGHT = 0.2

Columns: TypeAlias = dict[str, int | float | str | None]
"""How far a copy is, as columns of its row."""


def expiry(now: datetime) -> datetime:
    """Return until when a lease lasts that is taken or renewed now."""
    return now + LEASE


class Heartbeat:
    """Keeps a lease alive on a thread of its own and writes progress at most twice a second.

    Once `is_lost`, the work must stop: the row has another token or state, or could not be reached for too long.
    """

    def __init__(
        self, row: CachedCommit, *, states: Collection[CacheState], on_begun: Callable[[], None] = lambda: None
    ) -> None:
        """Watch over `row`, whose lease is held, as long as it is in one of `states`.

        `on_begun` is called once it was written that the first bytes are there.
        """
        self._copy = CachedCommit.objects.filter(pk=row.pk)
        self._next_packs: Sequence[str] = ()
        self._on_begun = on_begun
        self._rows = CachedCommit.objects.filter(pk=row.pk, lease_token=row.lease_token, state__in=states)
        self._progress: Columns = {}
        self._written: Columns = {}
        self._rate: float | None = None
        self._measured = (clock.monotonic(), row.bytes_done)
        self._renewed_at = clock.monotonic()
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease of {row.pk}", daemon=True)

    def __enter__(self) -> Self:
        """Begin to beat."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop beating."""
        self._ended.set()
        self._news.set()
        self._thread.join()

    @property
    def is_lost(self) -> bool:
        """Whether the work must stop."""
        return self._lost.is_set()

    def report(self, **progress: float | str | None) -> None:
        """Note how far the work is; it is written with the next beat, the first bytes at once."""
        has_begun = bool(self._progress.get("bytes_done"))
        self._progress = progress
        if progress.get("bytes_done") and not has_begun:
            self._news.set()

    def next_packs(self) -> Sequence[str]:
        """Return what those who read the copy meanwhile need next, as of the last beat."""
        return self._next_packs

    def confirm(self) -> None:
        """Renew now and write the progress. Raises StagingLost when the lease is no longer ours."""
        if self.is_lost or not self._renew():
            self._lost.set()
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")

    def _beat(self) -> None:
        try:
            while not self._ended.is_set():
                is_news = self._news.wait(_BEAT_S)
                self._news.clear()
                if self._ended.is_set():
                    return
                silent_s = clock.monotonic() - self._renewed_at
                if self._progress == self._written and silent_s < _RENEW_S:
                    continue
                try:
                    is_ours = self._renew()
                    self._next_packs = self._copy.values_list("next_packs", flat=True).first() or ()
                    if is_ours and is_news:
                        self._on_begun()
                except DatabaseError:
                    log.warning("cache.heartbeat_failed", silent_s=round(silent_s, 1))
                    close_old_connections()  # one that broke: the next beat makes another
                    is_ours = silent_s < LEASE.total_seconds() / 2
                if not is_ours:
                    self._lost.set()
                    return
        finally:
            connection.close()

    def _renew(self) -> bool:
        progress = self._progress
        self._measure(progress)
        # Getting on is what proves that taking the work up again makes sense.
        gets_on = {"attempts": 0} if progress != self._written else {}
        written = {"rate_bytes_s": self._rate, **progress, **gets_on}
        changed = self._rows.update(lease_expires_at=expiry(clock.now()), **written)
        if changed:
            self._written, self._renewed_at = progress, clock.monotonic()
        return changed == 1

    def _measure(self, progress: Columns) -> None:
        now, done = clock.monotonic(), int(progress.get("bytes_done") or 0)
        before, done_before = self._measured
        if now > before and done > done_before:
            rate = (done - done_before) / (now - before)
            self._rate = rate if self._rate is None else self._rate + _RATE_WEIGHT * (rate - self._rate)
            self._measured = (now, done)
