"""The one way in which a cached commit changes its state: checked, fenced, recorded, told."""

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models import QuerySet

from core.signals import send_on_commit
from core.tasks import enqueue_on_commit
from datasets import signals
from datasets.engine.cache_states import LIFE, CacheState
from datasets.models import CachedCommit, CachedCommitEvent, CachedCommitEventKind


@transaction.atomic
def change_state(
    row: CachedCommit, to: CacheState, *, message: str = "", token: str | None = None, **changes: object
) -> bool:
    """Move `row` to a state that may follow its present one in the database; say whether that was possible.

    With a `token` only the worker that holds the lease under it can. On success the object in hand, the events and
    whoever listens to `cached_commit_changed` know.
    """
    rows = CachedCommit.objects.filter(pk=row.pk, state__in=LIFE.sources_of(to))
    if token is not None:
        rows = rows.filter(lease_token=token)
    if rows.update(state=to, **changes) == 0:
        return False
    _take_over([row], to, message, changes)
    return True


@transaction.atomic
def change_states(
    rows: QuerySet[CachedCommit], to: CacheState, *, message: str, **changes: object
) -> Sequence[CachedCommit]:
    """Move those of `rows` that can to a state, and return them: the same as one by one, in a few statements."""
    locked = list(rows.filter(state__in=LIFE.sources_of(to)).select_for_update().order_by("pk"))
    CachedCommit.objects.filter(pk__in=[row.pk for row in locked]).update(state=to, **changes)
    _take_over(locked, to, message, changes)
    return locked


def _take_over(rows: Sequence[CachedCommit], to: CacheState, message: str, changes: Mapping[str, object]) -> None:
    """Let the objects in hand, the events and whoever listens know of a change in the database."""
    for row in rows:
        for name, value in {"state": to, **changes}.items():
            setattr(row, name, value)
    kind = CachedCommitEventKind.STATE
    CachedCommitEvent.objects.bulk_create(
        CachedCommitEvent(cached_commit=row, kind=kind, state=row.state, message=message, facts={}) for row in rows
    )
    for row in rows:
        tell_changed(row)


@transaction.atomic
def announce(row: CachedCommit, message: str) -> None:
    """Record and tell that a new row begins its life."""
    record(row, CachedCommitEventKind.STATE, message)
    tell_changed(row)


def tell_changed(row: CachedCommit) -> None:
    """Tell that a copy is another one than before: it is new or in another state, or its first files are there."""
    send_on_commit(signals.cached_commit_changed, cached_commit_id=row.pk, state=str(row.state))
    if row.state in {CacheState.QUEUED, CacheState.READY}:
        enqueue_on_commit("datasets.measure_shared")


def record(row: CachedCommit, kind: CachedCommitEventKind, message: str, **facts: object) -> None:
    """Append an event. `facts` hold JSON types."""
    CachedCommitEvent.objects.create(cached_commit=row, kind=kind, state=row.state, message=message, facts=facts)
