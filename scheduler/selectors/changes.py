"""What has changed since a reader last asked, from the log that the database keeps (`workers/change_log.py`).

To learn that nothing has changed costs one statement, however much there is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache

from django.db import connection

from core import clock
from core.prepared import read_rows
from scheduler.models import ChangeKind

CYCLE_LEASE = "scheduler.cycle"

_LAST = "SELECT id, kind, key, {position} FROM scheduler_change ORDER BY id DESC LIMIT 1"
_SINCE = "SELECT id, kind, key, {position} FROM scheduler_change WHERE {is_since} OR id = %s"
# As a row of its own, without the id of a change.
_LEASE = "SELECT 0, '', (SELECT lease_token FROM core_lease WHERE name = %s AND lease_expires_at <= %s), 0"
_OLDEST_OPEN = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_PARTS: Mapping[str, tuple[str, str]] = {
    # One transaction writes at a time, so ids come in the order of commits. `COALESCE(%s, id)` would read all rows.
    "sqlite": ("id", f"id > COALESCE(%s, {2**63 - 1})"),
    # Ids do not: what the oldest open transaction, or one after it, has written may not be visible yet. It has that
    # transaction's id or a greater one, and is asked for again.
    "postgresql": (_OLDEST_OPEN, f"at >= COALESCE(%s::bigint, {_OLDEST_OPEN})"),
}

_Row = tuple[int, str, str]


@dataclass(frozen=True)
class News:
    """What has changed, by ids; `is_all`: anything may have. The workloads of `new_ids` are as they were enqueued."""

    is_all: bool = False
    workload_ids: Collection[str] = field(default=frozenset())
    new_ids: Collection[str] = field(default=frozenset())
    gone_ids: Collection[str] = field(default=frozenset())
    node_ids: Collection[str] = field(default=frozenset())
    has_reservations: bool = False
    has_queues: bool = False
    has_packing: bool = False


class ChangeReader:
    """Remembers how far it has read the log."""

    def __init__(self) -> None:
        self._position: int | None = None
        self._last: _Row | None = None
        self._known: frozenset[_Row] = frozenset()
        self.lease_token: str | None = None
        """Whose the lease of cycles was last when the log was read; None: somebody held it, or nobody ever had it."""

    def read(self) -> News:
        """Return what has changed since the last call."""
        rows, position = self._rows()
        # Where the last row is gone, the log was cut, or what was read was rolled back.
        is_all = self._position is None or (self._last is not None and self._last not in rows)
        news = News(is_all=True) if is_all else _news(rows - self._known)
        self._position, self._last, self._known = position, max(rows, default=None), rows
        return news

    def _rows(self) -> tuple[frozenset[_Row], int]:
        """Return the last row, and those that may be new, with the position from which to ask next time.

        The lease is read by the same statement: whoever finds that nobody has had it since knows of all placements.
        """
        known_id = self._last[0] if self._last is not None else 0
        now = connection.ops.adapt_datetimefield_value(clock.now())
        rows = read_rows(_statement(connection.vendor), [self._position, known_id, CYCLE_LEASE, now])
        (self.lease_token,) = (token for pk, _, token, _ in rows if not pk)
        return frozenset((pk, kind, key) for pk, kind, key, _ in rows if pk), max(row[3] for row in rows)


@cache
def _statement(vendor: str) -> str:
    at, is_since = _PARTS[vendor]
    last, since = (part.format(position=at, is_since=is_since) for part in (_LAST, _SINCE))
    return f"SELECT * FROM ({last}) AS newest UNION ALL {since} UNION ALL {_LEASE}"  # noqa: S608 (of the texts above)


def _news(rows: Collection[_Row]) -> News:
    kinds: dict[str, set[str]] = {kind: set() for kind in ChangeKind}
    for _, kind, key in rows:
        kinds[kind].add(key)
    changed = kinds[ChangeKind.CHANGED] | kinds[ChangeKind.RESERVED]
    gone = kinds[ChangeKind.GONE]
    return News(
        workload_ids=(changed | kinds[ChangeKind.NEW]) - gone,
        new_ids=kinds[ChangeKind.NEW] - changed - gone,
        gone_ids=gone,
        node_ids=kinds[ChangeKind.NODE],
        has_reservations=bool(kinds[ChangeKind.RESERVED]),
        has_queues=bool(kinds[ChangeKind.QUEUE]),
        has_packing=bool(kinds[ChangeKind.PACKING]),
    )
