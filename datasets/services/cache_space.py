"""Promising space on a cache site: what fits, what must leave for it, and what is in the way when it cannot.

The caller holds the site's row locked, so that two requests never count the same free bytes.
"""

from collections.abc import Collection

from accounts.actor import Actor
from core import orm
from core.tasks import enqueue_on_commit
from core.units import format_bytes
from datasets.adapters.sites.registry import open_site
from datasets.engine import eviction
from datasets.engine.cache_states import CURRENT, CacheState
from datasets.engine.eviction import EvictionPlan
from datasets.errors import CacheFull, CacheSiteAway, NoVolumeLeft
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.selectors import caches
from datasets.services.cache_events import change_states

_NAMED_OBSTACLES = 10


def measure_disk(site: CacheSite) -> int:
    """Return how much the disk behind a site could hold for it, whatever its capacity. Raises CacheSiteUnavailable.

    While its folder is away, that is its capacity: what is asked for waits there.
    """
    try:
        return caches.measure_capacity(site).used_bytes + open_site(site).usage().free_bytes
    except CacheSiteAway:
        return site.capacity_bytes


def lock_site(site_id: str) -> CacheSite:
    """Return the site's row, locked until the transaction ends."""
    return CacheSite.objects.select_for_update().get(pk=site_id)


def lock_copies(site: CacheSite) -> None:
    """Lock what lies on a site, so that nobody takes a hold between reading the holds and the decision."""
    rows = CachedCommit.objects.select_for_update().filter(site=site, state__in=CURRENT)
    list(rows.order_by("pk").values_list("pk"))


def plan_capacity(
    site: CacheSite,
    *,
    need_bytes: int,
    usable: int,
    keep: Collection[str] = (),
    extending: str | None = None,
    is_ahead: bool = False,
) -> EvictionPlan:
    """Plan the capacity for a promise of `need_bytes`. `extending` names a copy whose present promise it replaces.

    The copies are listed only where it does not fit beside all that is promised.
    A copy that is extended has its volume already. `is_ahead`: for what may be read next (see `eviction.plan_space`).
    """
    promised = caches.measure_capacity(site)
    own = CachedCommit.objects.filter(pk=extending).values_list("reserved_bytes", flat=True).first() if extending else 0
    need_bytes, need_volumes = max(0, need_bytes - (own or 0)), 0 if extending else 1
    has_volumes = site.max_volumes is None or (promised.volumes or 0) + need_volumes <= site.max_volumes
    if need_bytes <= usable - promised.committed_bytes and (has_volumes or not need_volumes):
        return EvictionPlan(need_bytes, usable - promised.committed_bytes)
    lock_copies(site)
    return eviction.plan_space(
        caches.list_copies(site),
        capacity_bytes=usable,
        need_bytes=need_bytes,
        max_volumes=site.max_volumes,
        need_volumes=need_volumes,
        keep=[*keep, *([extending] if extending else [])],
        is_ahead=is_ahead,
    )


def free_capacity(plan: EvictionPlan, *, wanted_for: str) -> None:
    """Let the plan's victims leave. They are gone from view at once and from the disk soon.

    Who held one for what may be read next holds it no more, and may ask for it again.
    """
    message = f"Evicted to free space for {wanted_for}."
    for ids in orm.in_batches(plan.victims):
        rows = CachedCommit.objects.filter(pk__in=ids)
        leaving = change_states(rows, CacheState.EVICTING, message=message, lease_token="", lease_expires_at=None)
        CacheHold.objects.filter(cached_commit__in=leaving, is_ahead=True).delete()
        for row in leaving:
            enqueue_on_commit("datasets.evict", cached_commit_id=row.pk)


def explain_full(actor: Actor, site: CacheSite, plan: EvictionPlan, *, wanted_for: str) -> CacheFull:
    """Return the error that says what is in the way, without names that the actor may not know."""
    shown = {copy.id: copy for copy in caches.hide_labels(actor, caches.list_copies(site))}
    obstacles = [
        {
            "id": item.id,
            "label": shown[item.id].label,
            "size_bytes": item.charged_bytes,
            "reason": (eviction.find_obstacle(shown[item.id]) or item.reason) if item.id in shown else item.reason,
        }
        for item in plan.obstacles
    ]
    parts = [
        f"{item['label']} ({format_bytes(int(str(item['size_bytes'])))}, {item['reason']})"
        for item in obstacles[:_NAMED_OBSTACLES]
    ]
    if others := obstacles[_NAMED_OBSTACLES:]:
        parts.append(f"and {len(others)} more")
    if plan.missing_volumes and not plan.missing_bytes:
        volumes = caches.measure_capacity(site).volumes
        staying = "all of them" if len(obstacles) == volumes else f"{len(obstacles)} of them"
        return NoVolumeLeft(
            f"{site.name} has no volume left for {wanted_for}: it has {volumes} of at most {site.max_volumes}, and "
            f"{staying} have to stay: {'; '.join(parts)}. {plan.missing_volumes} of these must leave first.",
            site=site.name,
            volumes=volumes,
            max_volumes=site.max_volumes,
            missing_volumes=plan.missing_volumes,
            obstacles=obstacles,
        )
    if plan.need_bytes > site.capacity_bytes:
        why = f"The whole site holds {format_bytes(site.capacity_bytes)}."
    elif parts:
        why = "In the way: " + "; ".join(parts) + "."
    else:
        why = "The disk behind the site is used by something else."
    return CacheFull(
        f"{site.name} has no space for {wanted_for}: it needs {format_bytes(plan.need_bytes)}, "
        f"{format_bytes(plan.missing_bytes)} more than could be freed. {why}",
        site=site.name,
        need_bytes=plan.need_bytes,
        missing_bytes=plan.missing_bytes,
        capacity_bytes=site.capacity_bytes,
        obstacles=obstacles,
    )
