"""Reads about cache sites and what lies there, limited to the projects that the actor may see.

Stamps, for pages that wait for a change, are cheap and tell nothing but that there was one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Sum

from accounts.permissions import Actor, require
from core import hosts
from datasets import permissions
from datasets.adapters import copy_tokens
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.registry import KINDS
from datasets.engine import eviction
from datasets.engine.cache_states import CURRENT, LIVE, UNFINISHED, WORKING, CacheState, has_begun
from datasets.engine.eviction import Copy, EvictionPlan
from datasets.engine.volumes import claim_name, is_pool
from datasets.errors import ArrayNotFound, CachedCommitNotFound, CacheSiteNotFound, CacheSiteUnavailable
from datasets.models import (
    BYTES_ON_DISK,
    FILLED_KINDS,
    CachedCommit,
    CachedCommitEvent,
    CacheHold,
    CacheSite,
    CacheSiteKind,
    Commit,
    Dataset,
    SiteArray,
)

LOCAL_SITE = "local"
# What `_copy_of` reads. A site may have thousands of copies, and is locked while they are listed.
_OF_COPIES = (
    *("site_id", "commit_id", "base_id", "state", "bytes_total", "bytes_shared", "reserved_bytes"),
    *("last_used_at", "is_pinned", "is_for_holders"),
    *("dataset__name", "dataset__idle_days", "dataset__project__name"),
)


def list_kinds() -> Sequence[SiteKind]:
    """Return the kinds of cache sites that there are, with what each asks for."""
    return list(KINDS.values())


def get_kind(site: CacheSite) -> SiteKind:
    """Return the kind of a site."""
    return KINDS[site.kind]


@dataclass(frozen=True)
class Capacity:
    """What a site has, has promised, holds and can still promise, in bytes; a shared file counts once.

    `volumes` is how many volumes it has or has promised, those that leave included, of `max_volumes`; None: its copies
    are none, and any number.
    """

    total_bytes: int
    committed_bytes: int
    used_bytes: int
    volumes: int | None = None
    max_volumes: int | None = None

    @property
    def free_bytes(self) -> int:
        """What can be promised without anything leaving."""
        return max(0, self.total_bytes - self.committed_bytes)

    @property
    def has_too_many_volumes(self) -> bool:
        """Whether more volumes are promised than there may be, as others have not left yet."""
        return self.volumes is not None and self.max_volumes is not None and self.volumes > self.max_volumes


@dataclass(frozen=True)
class HeldCopy:
    """A cached commit as its holder sees it: ready, failed because of `error`, or neither yet, as while it is away.

    `has_begun`: its first files are there. `id` is its own.
    """

    id: str
    commit_id: str
    site: str
    is_ready: bool
    has_begun: bool
    has_failed: bool
    error: str


def list_held(holders: Collection[str]) -> dict[str, list[HeldCopy]]:
    """Return what each of these holders holds. For the apps that gave the names."""
    rows = CacheHold.objects.filter(holder__in=holders).order_by("pk")
    held: dict[str, list[HeldCopy]] = {}
    columns = ("commit_id", "site__name", "site__absence", "state", "bytes_done", "error")
    for holder, id_, commit_id, site, absence, state, bytes_done, error in rows.values_list(
        "holder", "cached_commit_id", *(f"cached_commit__{column}" for column in columns)
    ):
        is_ready, has_failed = state == CacheState.READY and not absence, state not in {*UNFINISHED, CacheState.READY}
        begun = has_begun(state, bytes_done) and not absence
        held.setdefault(holder, []).append(HeldCopy(id_, commit_id, site, is_ready, begun, has_failed, error))
    return held


def find_begun(cached_commit_ids: Collection[str]) -> QuerySet[CachedCommit]:
    """Return those of these copies that have an `early_source` and are not ready. For the apps that hold them."""
    begun = CachedCommit.objects.filter(pk__in=cached_commit_ids, state=CacheState.HYDRATING, bytes_done__gt=0)
    return begun.filter(site__kind__in=FILLED_KINDS, site__absence="")


def of_deleted() -> QuerySet[CachedCommit]:
    """Return the cached commits of deleted datasets, and those of the datasets of deleted projects."""
    of_project = Q(dataset__project__deleted_at__isnull=False)
    return CachedCommit.objects.filter(Q(dataset__deleted_at__isnull=False) | of_project)


def sign_reader(cached_commit_id: str, holder: str) -> str:
    """Return the token by which a job reads a copy that `holder` holds for it while that is filled."""
    return copy_tokens.sign_reader(cached_commit_id, holder)


def list_copies_of(holder: str) -> dict[str, CachedCommit]:
    """Return what a holder holds, by commit, with what it takes to mount it. For the app that gave the name."""
    return {row.commit_id: row for row in _loaded().filter(holds__holder=holder)}


def only_ahead() -> Q:
    """Return the condition that a copy is there, or on its way, for nothing but what may be read next."""
    holds = CacheHold.objects.filter(cached_commit=OuterRef("pk"))
    is_needed_now = Exists(holds.filter(is_ahead=False))
    return Q(Exists(holds.filter(is_ahead=True)), ~is_needed_now, is_for_holders=True, is_pinned=False)


def find_holds(*, prefix: str) -> QuerySet[CacheHold]:
    """Return the holds of holders whose name begins so. For the app that gave the names."""
    return CacheHold.objects.filter(holder__startswith=prefix)


def list_holders(*, prefix: str, before: datetime | None = None, project_id: str | None = None) -> list[str]:
    """Return who holds cached commits, among the holders whose name begins so. For the app that gave the names.

    With `before` only those who have held something since before that time; with a project, something of its datasets.
    """
    holds = find_holds(prefix=prefix)
    if project_id is not None:
        holds = holds.filter(cached_commit__dataset__project=project_id)
    if before is not None:
        holds = holds.filter(created_at__lt=before)
    return sorted(set(holds.values_list("holder", flat=True)))


def list_sites(*, actor: Actor) -> QuerySet[CacheSite]:  # noqa: ARG001 (every signed-in person may see the sites)
    """Return the cache sites by name."""
    return CacheSite.objects.order_by("name")


def get_site(*, actor: Actor, name: str = "") -> CacheSite:
    """Return a site by name; without one the local site, or the oldest. Raises CacheSiteNotFound."""
    sites = list_sites(actor=actor)
    if name:
        site = sites.filter(name=name).first()
    else:
        site = sites.filter(name=LOCAL_SITE).first() or sites.order_by("pk").first()
    if site is None:
        raise CacheSiteNotFound(f"There is no cache site called '{name}'." if name else "There is no cache site yet.")
    return site


def list_arrays(sites: Collection[str]) -> list[SiteArray]:
    """Return the storage arrays behind the sites of these names. Everybody may see their numbers, nobody accounts."""
    return list(SiteArray.objects.filter(site__name__in=sites).select_related("site").order_by("site__name"))


def get_array(*, actor: Actor, site: CacheSite) -> SiteArray:  # noqa: ARG001 (every actor sees all)
    """Return the array behind a site. Raises ArrayNotFound."""
    row = SiteArray.objects.filter(site=site).select_related("site").first()
    if row is None:
        raise ArrayNotFound(f"Nearline reads no storage array for the site {site.name}.")
    return row


def find_sites(names: Collection[str]) -> list[CacheSite]:
    """Return those of these sites that exist. For other apps."""
    return list(CacheSite.objects.filter(name__in=names).order_by("name"))


def find_leaving_volumes() -> QuerySet[CachedCommit]:
    """Return the cached commits on volumes of clusters that are on their way out. For the app whose jobs read them."""
    return CachedCommit.objects.filter(state=CacheState.EVICTING, site__kind=CacheSiteKind.VOLUME)


def list_leaving_claims() -> set[str]:
    """Return the claims that go with these cached commits; one that several share stays."""
    rows = find_leaving_volumes().values_list("pk", "site__config")
    return {claim_name(id_) for id_, config in rows if not is_pool(config)}


def find_absence(folder: str) -> str:
    """Say why a folder of this host is not there: that of the cache site that it lies in is away; empty: it is not.

    For the app whose jobs read it.
    """
    for site in CacheSite.objects.filter(kind=CacheSiteKind.FOLDER, host__in=hosts.here()).order_by("pk"):
        if Path(folder).is_relative_to(site.root):
            try:
                KINDS[site.kind].open(site)
            except CacheSiteUnavailable as error:
                return error.message
    return ""


def is_elsewhere(name: str, host: str) -> bool:
    """Whether a site of that name lies in a folder of another host than `host`. For other apps."""
    return CacheSite.objects.filter(name=name).exclude(host__in=(hosts.ANY, host)).exists()


def measure_capacity(site: CacheSite) -> Capacity:
    """Return how full a site is."""
    return measure_capacities([site])[site.pk]


def measure_capacities(sites: Collection[CacheSite]) -> dict[str, Capacity]:
    """Return how full sites are, by id, in one query."""
    rows = CachedCommit.objects.filter(site__in=sites, state__in=LIVE).order_by().values("site_id")
    full = rows.annotate(committed=Sum("reserved_bytes"), used=Sum(BYTES_ON_DISK), copies=Count("pk"))
    sums = {row["site_id"]: (row["committed"], row["used"], row["copies"]) for row in full}
    capacities = {}
    for site in sites:
        committed, used, copies = sums.get(site.pk, (0, 0, 0))
        volumes = copies if site.has_volumes else None
        capacities[site.pk] = Capacity(site.capacity_bytes, committed, used, volumes, site.max_volumes)
    return capacities


def list_cached_commits(*, actor: Actor, site: CacheSite | None = None) -> QuerySet[CachedCommit]:
    """Return what is cached or on its way in or out, newest first."""
    rows = _visible(actor).filter(state__in=LIVE)
    return rows.filter(site=site) if site is not None else rows


def get_cached_commit(*, actor: Actor, cached_commit_id: str) -> CachedCommit:
    """Return a cached commit by id, also one that is gone. Raises CachedCommitNotFound."""
    row = _visible(actor).filter(pk=cached_commit_id).first()
    if row is None:
        raise CachedCommitNotFound("There is no such cached commit, or you are not a member of its project.")
    return row


def find_cached(*, actor: Actor, commit: Commit, site: CacheSite) -> CachedCommit:
    """Return the present copy of a commit on a site. Raises CachedCommitNotFound when it is not cached there."""
    require(actor, permissions.VIEW, commit.dataset.project_id)
    row = _visible(actor).filter(commit=commit, site=site, state__in=CURRENT).first()
    if row is None:
        raise CachedCommitNotFound(f"{commit.short} is not cached on {site.name}.")
    return row


def get_cached(commit_id: str, site_id: str) -> CachedCommit | None:
    """Return the present copy of a commit on a site, whatever its state; None when there is none. For other apps."""
    rows = CachedCommit.objects.filter(commit_id=commit_id, site_id=site_id, state__in=CURRENT)
    return rows.select_related("site", "dataset__project").first()


def list_events(*, actor: Actor, cached_commit: CachedCommit) -> QuerySet[CachedCommitEvent]:
    """Return what happened to a cached commit, oldest first."""
    require(actor, permissions.VIEW, cached_commit.dataset.project_id)
    return CachedCommitEvent.objects.filter(cached_commit=cached_commit).order_by("pk")


def shared_with(label: str) -> str:
    """Say why a copy stays from which another one is being made."""
    return f"shared with {label}, which is being cached"


def label_of(row: CachedCommit) -> str:
    """Return `project/dataset@commit`; the dataset and its project should be loaded."""
    return f"{row.dataset.project.name}/{row.dataset.name}@{row.commit_id[:8]}"


def idle_days_of(row: CachedCommit) -> float:
    """Return after how many idle days a copy leaves: the dataset's word goes before the site's; 0: never."""
    own = row.dataset.idle_days
    return row.site.idle_days if own is None else float(own)


def evicts_at(row: CachedCommit) -> datetime | None:
    """Return when idleness evicts a copy; None while something keeps it. Holds should be prefetched."""
    return eviction.evicts_at(_copy_of(row, bases={}))


def list_copies(site: CacheSite) -> list[Copy]:
    """Return every live copy of a site as eviction sees it, in a fixed number of queries."""
    live = CachedCommit.objects.filter(site=site, state__in=LIVE).order_by("pk").prefetch_related("holds")
    rows = list(live.select_related("dataset__project").only(*_OF_COPIES))
    for row in rows:
        row.site = site
    bases = {row.base_id: label_of(row) for row in rows if row.base_id and row.state in WORKING}
    return [_copy_of(row, bases) for row in rows]


def hide_labels(actor: Actor, copies: Sequence[Copy]) -> list[Copy]:
    """Return the copies without the names of those that the actor may not know of."""
    seen = set(_visible(actor).filter(pk__in=[copy.id for copy in copies]).values_list("pk", flat=True))
    hidden = "a commit of a project that is not yours"
    return [
        copy if copy.id in seen else replace(copy, label=hidden, users=("jobs",) if copy.users else ())
        for copy in copies
    ]


def plan_eviction(actor: Actor, site: CacheSite, need_bytes: int = 0) -> EvictionPlan:
    """Return what would leave now if so many bytes were needed for another copy. Nothing happens."""
    copies = hide_labels(actor, list_copies(site))
    return eviction.plan_space(
        copies,
        capacity_bytes=site.capacity_bytes,
        need_bytes=need_bytes,
        max_volumes=site.max_volumes,
        need_volumes=1 if need_bytes else 0,
    )


def find_quiet_since(row: CachedCommit) -> int | None:
    """Return when, by the site's clock, the platform last changed files that a copy may share; None when unknown."""
    rows = CachedCommit.objects.filter(site_id=row.site_id, dataset_id=row.dataset_id)
    if rows.filter(state__in=[*UNFINISHED, CacheState.EVICTING]).exists():
        return None
    latest: int | None = rows.aggregate(latest=Max("settled_ns"))["latest"]
    return latest


def list_ready_siblings(site: CacheSite, dataset: Dataset) -> list[CachedCommit]:
    """Return the ready copies of a dataset on a site: what a new copy can share files with."""
    rows = _loaded().filter(site=site, dataset=dataset, state=CacheState.READY)
    return list(rows.order_by("pk"))


def stamp_of_all_copies() -> str:
    """Return a stamp that is another one whenever any cached commit changed its state or got on."""
    newest = CachedCommitEvent.objects.aggregate(newest=Max("pk"))["newest"]
    moving = _moving().aggregate(files=Sum("files_done"), size=Sum("bytes_done"), count=Count("pk"))
    return f"{newest} {moving['files']} {moving['size']} {moving['count']}"


def stamps_of_copies(dataset_ids: Collection[str]) -> Mapping[str, str]:
    """Return for each of these datasets a stamp that is another one whenever a copy of its commits moved."""
    events = CachedCommitEvent.objects.filter(cached_commit__dataset__in=dataset_ids)
    newest = dict(events.values_list("cached_commit__dataset").annotate(newest=Max("pk")).order_by())
    moving = {
        row["dataset"]: f"{row['files']} {row['size']}"
        for row in _moving()
        .filter(dataset__in=dataset_ids)
        .values("dataset")
        .annotate(files=Sum("files_done"), size=Sum("bytes_done"))
        .order_by()
    }
    return {key: f"{newest.get(key)} {moving.get(key)}" for key in dataset_ids}


def _moving() -> QuerySet[CachedCommit]:
    return CachedCommit.objects.filter(state__in=sorted(UNFINISHED))


def _copy_of(row: CachedCommit, bases: Mapping[str, str]) -> Copy:
    users = tuple(sorted(hold.why or hold.holder for hold in row.holds.all()))
    if row.pk in bases:
        users = (*users, shared_with(bases[row.pk]))
    is_complete = row.state in {CacheState.READY, CacheState.EVICTING}
    is_asked_for = row.is_pinned or (row.state in UNFINISHED and not row.is_for_holders)
    return Copy(
        id=row.pk,
        label=label_of(row),
        size_bytes=row.bytes_total if is_complete else row.reserved_bytes,
        charged_bytes=row.reserved_bytes,
        last_used_at=row.last_used_at,
        idle_days=idle_days_of(row),
        base_id=row.base_id if is_complete else None,
        shared_bytes=row.bytes_shared if is_complete else 0,
        clone_of=row.base_id if row.site.has_volumes else None,
        is_pinned=row.is_pinned,
        is_unfinished=row.state in UNFINISHED,
        is_failed=row.state == CacheState.FAILED,
        is_leaving=row.state == CacheState.EVICTING,
        users=users,
        makes_way=bool(users) and not is_asked_for and row.pk not in bases and all(h.is_ahead for h in row.holds.all()),
    )


def _loaded() -> QuerySet[CachedCommit]:
    rows = CachedCommit.objects.select_related("site", "commit", "dataset__project", "dataset__store")
    return rows.prefetch_related("holds")


def _visible(actor: Actor) -> QuerySet[CachedCommit]:
    rows = _loaded()
    return rows if actor.sees_everything else rows.filter(dataset__project_id__in=actor.project_ids)
