"""Copies on their way out: those idle for too long, those of deleted datasets, and the removal itself.

A copy leaves in two steps: the row says so, then one rename takes the copy out of sight, and its files are removed
behind the scenes, however long that takes. Dying in between costs nothing: the next call goes on.
"""

from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import F, QuerySet

from core import clock, hosts, isolation, leases
from core.tasks import enqueue, enqueue_on_commit
from datasets.adapters.sites.registry import open_site
from datasets.engine import eviction
from datasets.engine.cache_states import CURRENT, LIVE, CacheState
from datasets.errors import CacheSiteUnavailable, RemovalHeldUp, StagingLost
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import caches, failures
from datasets.services import cache_rows
from datasets.services.cache_rows import change_state
from datasets.workers import cache_leases
from datasets.workers.cache_leases import Heartbeat


def find_current() -> list[QuerySet[CachedCommit]]:
    """Return the copies that may be idle, or whose dataset was deleted."""
    return [CachedCommit.objects.filter(state__in=CURRENT)]


def evict_idle() -> int:
    """Let go what nobody used for too long or whose dataset was deleted; return how many copies that were."""
    (current,) = find_current()
    # What nobody can reach is not idle.
    sites = CacheSite.objects.filter(pk__in=current.values("site"), absence="").order_by("pk")
    ids = list(sites.values_list("pk", flat=True))
    return sum(isolation.for_each("datasets.evict_idle", ids, _evict_idle_on))


@transaction.atomic
def _evict_idle_on(site_id: str) -> int:
    """Decide with the site locked and every row looked at again, so that a job's hold is never overlooked."""
    site = cache_rows.lock_site(site_id)
    cache_rows.lock_copies(site)
    copies = caches.list_copies(site)
    idle = eviction.plan_idle_eviction(copies, now=clock.now())
    deleted = set(caches.of_deleted().filter(site=site, state__in=CURRENT).values_list("pk", flat=True))
    unwanted = [copy.id for copy in copies if copy.id in deleted and not copy.users and copy.id not in idle]
    rows = CachedCommit.objects.in_bulk([*idle, *unwanted])

    @transaction.atomic
    def evict(id_: str) -> bool:
        message = "The dataset or its project was deleted." if id_ in deleted else "Not used for too long."
        is_evicted = change_state(
            rows[id_], CacheState.EVICTING, message=message, lease_token="", lease_expires_at=None
        )
        if is_evicted:
            enqueue_on_commit("datasets.evict", cached_commit_id=id_)
        return is_evicted

    return sum(isolation.for_each("datasets.evict_copy", [*idle, *unwanted], evict))


@transaction.atomic
def give_up(row: CachedCommit, message: str) -> None:
    """Let a ready copy leave that may not be read any more, whoever uses it."""
    if change_state(row, CacheState.EVICTING, message=message, lease_token="", lease_expires_at=None):
        enqueue_on_commit("datasets.evict", cached_commit_id=row.pk)


def remove_each(ids: Sequence[str]) -> None:
    """Take these evicted copies off their sites. One that fails stops none of the others."""
    isolation.for_each(failures.REMOVE, ids, lambda id_: remove_copy(cached_commit_id=id_))


def remove_copy(*, cached_commit_id: str) -> None:
    """Take an evicted copy out of sight and off the disk. Goes on where an earlier call ended."""
    row = _claim(cached_commit_id)
    if row is None:
        return
    try:
        driver = open_site(row.site)
        with Heartbeat(row, states={CacheState.EVICTING}) as heartbeat:
            is_gone = driver.delete(
                row.pk,
                location=row.location,
                token=row.lease_token,
                settle=None if row.is_weighed else lambda own_bytes: _settle_charge(row, own_bytes),
                keep_going=lambda: not heartbeat.is_lost,
            )
    except StagingLost:
        is_gone = False
    except RemovalHeldUp as error:
        _note_reason(row, error.message)
        return
    except CacheSiteUnavailable as error:
        _note_reason(row, f"its site: {error.message}")
        return
    if is_gone:
        change_state(
            row,
            CacheState.GONE,
            token=row.lease_token,
            reserved_bytes=0,
            settled_ns=driver.now_ns(),
            waits_for="",
            lease_token="",
            lease_expires_at=None,
        )
        _enqueue_waiting(row)


def _note_reason(row: CachedCommit, reason: str) -> None:
    """Say what a removal waits for, and let the next worker look again."""
    rows = CachedCommit.objects.filter(pk=row.pk, lease_token=row.lease_token)
    rows.update(waits_for=reason[:300], lease_token="", lease_expires_at=None)


def sweep_leftovers() -> int:
    """Remove what lies on sites of this host although no row wants it; return how many copies.

    Such as after a restored database.
    """
    ours = CacheSite.objects.filter(host__in=hosts.here()).order_by("pk")
    return sum(isolation.for_each("datasets.sweep_site", ours, _sweep_site))


def _sweep_site(site: CacheSite) -> int:
    driver = open_site(site)
    copies = driver.list()

    def delete(id_: str) -> None:
        token = leases.new_token()
        driver.delete(id_, location=copies[id_], token=token, settle=None, keep_going=lambda: True)

    return len(isolation.for_each("datasets.remove_leftover", _find_unwanted(copies), delete))


def _find_unwanted(ids: Iterable[str]) -> list[str]:
    own_ids = {id_ for id_ in ids if not id_.startswith(HEALING)}
    return sorted(
        own_ids - set(CachedCommit.objects.filter(pk__in=own_ids, state__in=LIVE).values_list("pk", flat=True))
    )


HEALING = "healing-"
"""The beginning of the names under which scrubs stage good files; they remove them by themselves."""


@transaction.atomic
def _claim(cached_commit_id: str) -> CachedCommit | None:
    rows = CachedCommit.objects.select_for_update(of=("self",)).select_related("site")
    row = rows.filter(pk=cached_commit_id, state=CacheState.EVICTING, site__host__in=hosts.here()).first()
    now = clock.now()
    if row is None or row.is_leased_at(now):
        return None
    row.lease_token, row.lease_expires_at = leases.new_token(), cache_leases.expiry(now)
    row.save(update_fields=["lease_token", "lease_expires_at"])
    return row


@transaction.atomic
def _settle_charge(row: CachedCommit, own_bytes: int) -> None:
    """Charge what stays, because others share it, to one of those others, which is locked and so has not gone since.

    One that leaves passes on what it is charged, unless it is weighed already.
    """
    siblings = CachedCommit.objects.filter(site=row.site, dataset_id=row.dataset_id)
    locked = list(siblings.filter(state__in=LIVE).select_for_update().order_by("pk"))
    if CachedCommit.objects.filter(pk=row.pk, lease_token=row.lease_token).update(is_weighed=True) == 0:
        raise StagingLost("Another worker removes this copy.")
    row.refresh_from_db(fields=["reserved_bytes"])
    stays = max(0, row.reserved_bytes - own_bytes)
    order = {CacheState.READY: 0, CacheState.EVICTING: 2}
    others = [heir for heir in locked if heir.pk != row.pk]
    heirs = sorted(others, key=lambda heir: (order.get(CacheState(heir.state), 1), heir.is_weighed, heir.pk))
    if stays and heirs:
        CachedCommit.objects.filter(pk=heirs[0].pk).update(reserved_bytes=F("reserved_bytes") + stays)
    CachedCommit.objects.filter(pk=row.pk).update(reserved_bytes=F("reserved_bytes") - stays)


def _enqueue_waiting(row: CachedCommit) -> None:
    waiting = CachedCommit.objects.filter(site_id=row.site_id, state=CacheState.QUEUED)
    for id_ in waiting.order_by("pk").values_list("pk", flat=True)[:10]:
        enqueue("datasets.hydrate", cached_commit_id=id_)
