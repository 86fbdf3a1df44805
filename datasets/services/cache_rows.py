"""The rows of cached commits: space that is promised to them on their sites, and how they change their state.

Space: what fits, what must leave for it, and what is in the way when it cannot. The caller holds the row of the site
locked, so that two requests never count the same free bytes. State: every change is checked, fenced, recorded and told.
"""

from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.db.models import QuerySet

from accounts.permissions import Actor
from core import orm
from core.tasks import enqueue_on_commit, send_on_commit
from core.units import format_bytes
from datasets import signals
from datasets.adapters.sites.registry import open_site
from datasets.engine import eviction
from datasets.engine.cache_states import CURRENT, LIFE, CacheState
from datasets.engine.eviction import EvictionPlan
from datasets.errors import CacheFull, CacheSiteAway, NoVolumeLeft
from datasets.models import CachedCommit, CachedCommitEvent, CachedCommitEventKind, CacheHold, CacheSite
from datasets.selectors import caches

_NAMED_OBSTACLES = 10


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
