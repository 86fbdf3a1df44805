"""Holds of cached commits: what is held is never evicted, and what nobody holds any more may be unneeded."""

from django.db import transaction

from core import clock
from core.tasks import enqueue_on_commit
from datasets.engine.cache_states import UNFINISHED, CacheState
from datasets.models import CachedCommit, CacheHold
from datasets.services.cache_events import change_state


def write_hold(row: CachedCommit, holder: str, why: str) -> CacheHold:
    """Keep a copy for `holder`, whose words are `why`; again is no error."""
    held, _ = CacheHold.objects.get_or_create(cached_commit=row, holder=holder, defaults={"why": why[:200]})
    CachedCommit.objects.filter(pk=row.pk).update(last_used_at=clock.now(), last_used_by=(why or holder)[:200])
    return held


@transaction.atomic
def release_holds(holder: str) -> int:
    """End all holds of `holder` and return how many there were; the idle clocks start now.

    What was on its way for holders only, and has none left, is cancelled.
    """
    ids = list(CacheHold.objects.filter(holder=holder).values_list("cached_commit_id", flat=True))
    if not ids:
        return 0
    list(CachedCommit.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    CacheHold.objects.filter(holder=holder).delete()
    rows = CachedCommit.objects.filter(pk__in=ids)
    rows.update(last_used_at=clock.now())
    unneeded = rows.filter(is_for_holders=True, is_pinned=False, state__in=sorted(UNFINISHED), holds=None)
    for row in unneeded.order_by("pk"):
        message = "Cancelled: nothing that needed it is left."
        if change_state(row, CacheState.EVICTING, message=message, lease_token="", lease_expires_at=None):
            enqueue_on_commit("datasets.evict", cached_commit_id=row.pk)
    return len(ids)
