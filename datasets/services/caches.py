"""Asking for cached commits, and saying who uses them. Who asks never waits: workers do the work.

Asked for twice, or by many at once, a commit is cached once: at most one row of a commit and a site is current.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor, require
from core import clock, isolation
from core.tasks import enqueue_on_commit
from datasets import permissions
from datasets.engine.cache_states import CURRENT, UNFINISHED, WORKING, CacheState
from datasets.engine.eviction import EvictionPlan
from datasets.errors import (
    CachedCommitNotFound,
    CacheFull,
    CacheInUse,
    CacheNotReady,
    CachePinned,
    CacheSiteUnavailable,
    OtherCommit,
    SourceOnSite,
)
from datasets.models import CachedCommit, CacheHold, CacheSite, Commit
from datasets.selectors import cache_plans, caches, failures, in_place
from datasets.services import cache_rows
from datasets.services.cache_rows import announce, change_state

_TOUCH_STEP = timedelta(minutes=1)
_JOINABLE = CURRENT - {CacheState.FAILED}


def require_cache(*, actor: Actor, commit_ids: Collection[str]) -> None:
    """Raise PermissionDenied (or ProjectNotFound) unless the actor may cache these commits.

    For who has them cached later, by the platform itself, on the actor's behalf.
    """
    for project_id in sorted(set(Commit.objects.filter(pk__in=commit_ids).values_list("dataset__project", flat=True))):
        require(actor, permissions.CACHE, project_id)


def request_cache(
    *,
    actor: Actor,
    commit: Commit,
    site: CacheSite,
    holder: str | None = None,
    why: str = "",
    is_ahead: bool = False,
) -> CachedCommit:
    """Ask for a commit on a site and return its cached commit, which may be ready, on its way, or new.

    A failed one is tried again, going on where it failed. With a `holder` it is held for that one from now on (`why`
    says so in words). What nobody asked for without one is cancelled if its holders release it before it is ready.
    `is_ahead`: the holder may read it next, so it takes no space and no turn from what is needed now.
    Raises CacheFull when there is no capacity and nothing may be evicted, and CacheSiteUnavailable.
    """
    require(actor, permissions.CACHE, commit.dataset.project_id)
    joined = _join(actor, commit, site, holder, why, is_ahead=is_ahead)
    if joined is not None:
        return joined
    if site.config.get("commit", commit.pk) != commit.pk:
        what = f"the commit {site.config['commit']}" if site.config["commit"] else "no commit before they are imported"
        raise OtherCommit(f"{site.name} is made of existing files, which are {what}.")
    only_site = in_place.find_only_site(commit)
    if only_site is not None and only_site.cluster != site.cluster:
        raise SourceOnSite(f"The bytes of {commit.label} lie only on {only_site.name}: promote them first.")
    request = _Request(actor, commit, site, holder, why, is_ahead, cache_rows.measure_disk(site))
    row, plan = request.reserve(commit.size_bytes, may_evict=False)
    if row is not None:
        return row
    plans = []
    # Only a full site makes it worth reading manifests to learn how little may be needed.
    cheapest = cache_plans.plan_hydration(commit, site)
    for need_bytes, keep in ((cheapest.write_bytes, cheapest.base_id), (commit.size_bytes, None)):
        row, plan = request.reserve(need_bytes, may_evict=True, keep=keep)
        if row is not None:
            return row
        plans.append(plan)
    site.refresh_from_db(fields=["capacity_bytes", "config"])
    nearest = min(plans, key=lambda plan: (plan.missing_bytes, plan.missing_volumes))
    raise cache_rows.explain_full(actor, site, nearest, wanted_for=request.label)


def request_nearest(
    *,
    actor: Actor,
    commit: Commit,
    sites: Sequence[CacheSite],
    holder: str | None = None,
    why: str = "",
    is_ahead: bool = False,
) -> CachedCommit:
    """Ask for a commit on one of these sites, the nearest first, and return its cached commit.

    A ready copy on any of them is taken, else one on its way; otherwise it is requested on the first site with the
    capacity for it. A site whose folder is away is chosen only where all are. Raises what `request_cache` raises for
    the nearest site when none can take it.
    """
    require(actor, permissions.CACHE, commit.dataset.project_id)
    sites = [site for site in sites if not site.absence] or sites
    refusals: list[CacheFull | CacheSiteUnavailable] = []
    # Read once, or a copy that becomes ready between two looks would be neither ready nor on its way.
    copies = [(site, copy) for site in sites if (copy := caches.get_cached(commit.pk, site.pk)) is not None]
    for states in ({CacheState.READY}, UNFINISHED):
        for site, copy in copies:
            if copy.state in states:
                joined = _join(actor, commit, site, holder, why, is_ahead=is_ahead)
                if joined is not None:
                    return joined
    for site in sites:
        try:
            return request_cache(actor=actor, commit=commit, site=site, holder=holder, why=why, is_ahead=is_ahead)
        except (CacheFull, CacheSiteUnavailable) as error:
            refusals.append(error)
    raise refusals[0]


@transaction.atomic
def uncache(*, actor: Actor, cached_commit_id: str) -> CachedCommit:
    """Let a cached commit leave now; it is gone from view at once. One that is leaving already is no error.

    One that shares files with a copy that is being filled stays until that is ready: the space promised to that one
    would not suffice. Raises CacheInUse, CachePinned and CachedCommitNotFound.
    """
    site_id = CachedCommit.objects.filter(pk=cached_commit_id).values_list("site_id", flat=True).first()
    if site_id is not None:  # locked before its copies, as whoever begins to fill one does
        cache_rows.lock_site(site_id)
    row = _lock(actor, cached_commit_id)
    if row.state in {CacheState.EVICTING, CacheState.GONE}:
        return row
    users = [hold.why or hold.holder for hold in row.holds.order_by("pk")]
    heirs = CachedCommit.objects.filter(base_id=row.pk, state__in=WORKING).select_related("dataset__project", "commit")
    users += [caches.shared_with(caches.label_of(heir)) for heir in heirs.order_by("pk")]
    if users:
        raise CacheInUse(f"{caches.label_of(row)} is in use: {', '.join(users)}.", users=users)
    if row.is_pinned:
        raise CachePinned(f"{caches.label_of(row)} is pinned on {row.site.name}.")
    change_state(row, CacheState.EVICTING, message=f"Cleared by {actor.name}.", lease_token="", lease_expires_at=None)
    audit.record(actor, "datasets.uncache", row, project_id=row.dataset.project_id)
    enqueue_on_commit("datasets.evict", cached_commit_id=row.pk)
    return row


@transaction.atomic
def set_pinned(*, actor: Actor, cached_commit_id: str, is_pinned: bool) -> CachedCommit:
    """Keep a cached commit whoever needs space, or let idleness and need of space decide again, from now on.

    Raises CacheNotReady for one that is leaving or gone.
    """
    row = _lock(actor, cached_commit_id)
    if row.state not in CURRENT:
        raise CacheNotReady(f"{caches.label_of(row)} is {row.state}.")
    if row.is_pinned != is_pinned:
        row.is_pinned, row.last_used_at, row.last_used_by = is_pinned, clock.now(), actor.name[:200]
        row.save(update_fields=["is_pinned", "last_used_at", "last_used_by"])
        audit.record(actor, "datasets.pin" if is_pinned else "datasets.unpin", row, project_id=row.dataset.project_id)
    return row


def hold(*, actor: Actor, cached_commit_id: str, holder: str, why: str) -> CacheHold:
    """Keep a cached commit for `holder` until it releases it; again is no error. Raises CacheNotReady.

    What is held is never evicted nor cleared, whether it is ready or still on its way.
    """
    return _hold_current(actor, cached_commit_id, holder, why, is_ahead=False)


@transaction.atomic
def release_holds(*, actor: Actor, holder: str, keep: Collection[str] = (), why: str = "") -> int:
    """End all holds of `holder`, but for the cached commits to `keep`, and return how many; the idle clocks start now.

    What was on its way for holders only, and has none left, is cancelled; its log says why.
    """
    holds = CacheHold.objects.filter(holder=holder).exclude(cached_commit__in=keep)
    projects = dict(holds.values_list("cached_commit_id", "cached_commit__dataset__project_id"))
    if not projects:
        return 0
    for project_id in set(projects.values()):
        require(actor, permissions.CACHE, project_id)
    ids = list(projects)
    list(CachedCommit.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    holds.delete()
    rows = CachedCommit.objects.filter(pk__in=ids)
    rows.update(last_used_at=clock.now())
    unneeded = rows.filter(is_for_holders=True, is_pinned=False, state__in=sorted(UNFINISHED), holds=None)
    for row in unneeded.order_by("pk"):
        message = f"Cancelled: {why or 'nothing that needed it is left.'}"
        if change_state(row, CacheState.EVICTING, message=message, lease_token="", lease_expires_at=None):
            enqueue_on_commit("datasets.evict", cached_commit_id=row.pk)
    return len(ids)


def touch_commit(*, actor: Actor, commit: Commit) -> None:
    """Note that the actor reads a commit in the browser: every cached copy of it counts as used."""
    require(actor, permissions.VIEW, commit.dataset.project_id)
    _touch(CachedCommit.objects.filter(commit=commit, state=CacheState.READY), f"{actor.name} in the browser")


@transaction.atomic
def scrub(*, actor: Actor, cached_commit_id: str) -> CachedCommit:
    """Ask that every file of a ready copy is read, compared and healed where damaged. Raises CacheNotReady."""
    row = _lock(actor, cached_commit_id)
    if row.state != CacheState.READY:
        raise CacheNotReady(f"{caches.label_of(row)} is {row.state}.")
    row.scrub_requested_at = clock.now()
    row.save(update_fields=["scrub_requested_at"])
    audit.record(actor, "datasets.scrub", row, project_id=row.dataset.project_id)
    isolation.forget(failures.SCRUB, [row.pk])
    enqueue_on_commit("datasets.scrub", cached_commit_id=row.pk)
    return row


@dataclass(frozen=True)
class _Request:
    """One call of `request_cache`: the same question put with different needs."""

    actor: Actor
    commit: Commit
    site: CacheSite
    holder: str | None
    why: str
    is_ahead: bool
    disk_bytes: int

    @property
    def label(self) -> str:
        """The commit as people name it."""
        return f"{self.commit.dataset.project.name}/{self.commit.dataset.name}@{self.commit.short}"

    @transaction.atomic
    def reserve(
        self, need_bytes: int, *, may_evict: bool, keep: str | None = None
    ) -> tuple[CachedCommit | None, EvictionPlan]:
        """Promise `need_bytes` and queue the commit if that is possible; else return the plan that says why not."""
        site = cache_rows.lock_site(self.site.pk)
        joined = _join(self.actor, self.commit, site, self.holder, self.why, is_ahead=self.is_ahead)
        if joined is not None:
            return joined, EvictionPlan(0, 0)
        failed = CachedCommit.objects.filter(commit=self.commit, site=site, state=CacheState.FAILED).first()
        plan = cache_rows.plan_capacity(
            site,
            need_bytes=need_bytes,
            usable=min(site.capacity_bytes, self.disk_bytes),
            keep=[keep] if keep else [],
            extending=failed.pk if failed else None,
            is_ahead=self.is_ahead,
        )
        if not plan.is_sufficient or (plan.victims and not may_evict):
            return None, plan
        cache_rows.free_capacity(plan, wanted_for=self.label)
        row = self._queue_again(failed, need_bytes) if failed else None
        row = row or self._create(site, need_bytes)
        if self.holder is not None:
            _hold(row, self.holder, self.why, is_ahead=self.is_ahead)
        audit.record(self.actor, "datasets.cache", row, project_id=self.commit.dataset.project_id, site=site.name)
        enqueue_on_commit("datasets.hydrate", cached_commit_id=row.pk)
        return row, plan

    def _create(self, site: CacheSite, need_bytes: int) -> CachedCommit:
        dataset = self.commit.dataset
        row = CachedCommit.objects.create(
            site=site,
            dataset=dataset,
            commit=self.commit,
            location=f"{dataset.project.name}/{dataset.name}/{self.commit.id}",
            requested_by=self.actor.name[:200],
            is_for_holders=self.holder is not None,
            last_used_by=self.actor.name[:200],
            files_total=self.commit.files,
            bytes_total=self.commit.size_bytes,
            reserved_bytes=need_bytes,
        )
        announce(row, f"Requested by {self.actor.name}.")
        return row

    def _queue_again(self, row: CachedCommit, need_bytes: int) -> CachedCommit | None:
        """Queue a failed copy; None when somebody has cleared it meanwhile."""
        isolation.forget(failures.HYDRATE, [row.pk])
        is_queued = change_state(
            row,
            CacheState.QUEUED,
            message=f"Asked for again by {self.actor.name}.",
            reserved_bytes=max(need_bytes, row.reserved_bytes),
            is_for_holders=row.is_for_holders and self.holder is not None,
            error_code="",
            error="",
            error_hint="",
            attempts=0,
            started_at=None,
            paused_at=None,
            lease_token="",
            lease_expires_at=None,
            last_used_at=clock.now(),
        )
        return row if is_queued else None


def _join(
    actor: Actor, commit: Commit, site: CacheSite, holder: str | None, why: str, *, is_ahead: bool
) -> CachedCommit | None:
    """Return the copy that is there or on its way, held if need be; None when there is none or it failed."""
    row = caches.get_cached(commit.pk, site.pk)
    if row is None or row.state == CacheState.FAILED:
        return None
    if holder is not None:
        try:
            _hold_current(actor, row.pk, holder, why, is_ahead=is_ahead)
        except CacheNotReady:
            return None
    elif not CachedCommit.objects.filter(pk=row.pk, state__in=_JOINABLE).update(is_for_holders=False):
        return None  # it was cancelled since, as its last holder has let go of it
    _touch(CachedCommit.objects.filter(pk=row.pk, state__in=CURRENT), actor.name)
    return row


@transaction.atomic
def _hold_current(actor: Actor, cached_commit_id: str, holder: str, why: str, *, is_ahead: bool) -> CacheHold:
    row = _lock(actor, cached_commit_id)
    if row.state not in _JOINABLE:
        raise CacheNotReady(f"{caches.label_of(row)} is {row.state}.")
    return _hold(row, holder, why, is_ahead=is_ahead)


def _hold(row: CachedCommit, holder: str, why: str, *, is_ahead: bool) -> CacheHold:
    facts = {"why": why[:200], "is_ahead": is_ahead}
    held, _ = CacheHold.objects.get_or_create(cached_commit=row, holder=holder, defaults=facts)
    if row.waits_for and not is_ahead:  # it may have waited only because nobody needed it yet
        enqueue_on_commit("datasets.hydrate", cached_commit_id=row.pk)
    CachedCommit.objects.filter(pk=row.pk).update(last_used_at=clock.now(), last_used_by=(why or holder)[:200])
    return held


def _touch(rows: QuerySet[CachedCommit], by: str) -> None:
    """Restart the idle clocks of copies. Written at most once a minute."""
    now = clock.now()
    rows.filter(last_used_at__lt=now - _TOUCH_STEP).update(last_used_at=now, last_used_by=by[:200])


def _lock(actor: Actor, cached_commit_id: str) -> CachedCommit:
    """Return the row, locked, if the actor may cache commits of its project."""
    rows = CachedCommit.objects.select_for_update(of=("self",)).select_related("site", "dataset__project")
    row = rows.filter(pk=cached_commit_id).first()
    if row is None:
        raise CachedCommitNotFound("There is no such cached commit, or you are not a member of its project.")
    require(actor, permissions.CACHE, row.dataset.project_id)
    return row
