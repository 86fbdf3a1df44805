"""What is looked up about cache sites again and again: their folders, clusters and arrays, and what copies will share.

Sites on volumes are compared with their clusters: how they take snapshots, and with whom their claims are shared.
"""

from pathlib import Path

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q

from core import clock, hosts, isolation
from core.errors import PlatformError
from datasets.adapters.folder_marks import SITE_MARK, read_mark
from datasets.adapters.ontap import open_array
from datasets.adapters.sites.folder.copy_folder import holds_any, make_folder
from datasets.adapters.sites.registry import open_site
from datasets.adapters.sites.volume.kind import connection_of, open_driver, settle_snapshots
from datasets.engine.cache_states import CURRENT, UNFINISHED, CacheState
from datasets.errors import CacheSiteUnavailable
from datasets.models import CachedCommit, CacheSite, CacheSiteKind, Commit, SharedContent, SiteArray
from datasets.selectors import cache_plans, failures

_FOUND = ("snapshot_class", "warning")


log = structlog.get_logger(__name__)


_AT_ONCE = 50


_NOT_BEGUN = frozenset({CacheState.QUEUED, CacheState.FAILED})


def check_sites(*, site_id: str | None = None) -> None:
    """Ask the clusters of all sites on volumes, or of one. One that does not answer holds up no other."""
    sites = CacheSite.objects.filter(kind=CacheSiteKind.VOLUME, **({} if site_id is None else {"pk": site_id}))
    isolation.for_each("datasets.check_site", sites.order_by("pk"), _check_site)


def _check_site(site: CacheSite) -> None:
    settled = settle_snapshots(site.config, connection_of(site))
    if settled != site.config:
        with transaction.atomic():
            fresh = CacheSite.objects.select_for_update().get(pk=site.pk)
            config = {key: value for key, value in fresh.config.items() if key not in _FOUND}
            fresh.config = config | {key: settled[key] for key in _FOUND if key in settled}
            fresh.save(update_fields=["config"])
    open_driver(site).settle_shares()


def check_folders() -> None:
    """Note which folders are away and which are back. One that cannot be read holds up no other."""
    sites = CacheSite.objects.filter(kind=CacheSiteKind.FOLDER, host__in=hosts.here()).order_by("pk")
    isolation.for_each("datasets.check_folder", sites, check_folder)


def check_folder(site: CacheSite) -> None:
    """Note whether the folder of a site of this host is there, as its row says; one that has no mark yet gets it."""
    absence = ""
    try:
        if not site.mark:
            _mark(site)
        open_site(site)
    except CacheSiteUnavailable as error:
        absence = error.for_admins
    if absence != site.absence:
        CacheSite.objects.filter(pk=site.pk).update(absence=absence)
        log.warning("cache.folder_away" if absence else "cache.folder_back", site=site.name, error=absence)


def _mark(site: CacheSite) -> None:
    """Mark the folder of an earlier version, or one that another host was told of: it must hold what was cached there.

    One that has a mark was marked by us, or by an admin.
    """
    root = Path(site.root)
    begun = CachedCommit.objects.filter(Q(state=CacheState.READY) | Q(bytes_done__gt=0), site=site, state__in=CURRENT)
    copies = dict(begun.order_by("pk").values_list("pk", "location"))
    if not copies or holds_any(root, copies) or read_mark(root, SITE_MARK):
        site.mark = make_folder(root)
        CacheSite.objects.filter(pk=site.pk).update(mark=site.mark)


def read_arrays() -> int:
    """Read every array that is due, and return how many were read. One that failed is tried less and less often."""
    rows = isolation.take(failures.READ_ARRAY, SiteArray.objects.order_by("read_at", "pk"), _AT_ONCE)
    return len(isolation.for_each(failures.READ_ARRAY, rows, _read_array))


def _read_array(array: SiteArray) -> None:
    rows = SiteArray.objects.filter(pk=array.pk)
    try:
        space = open_array(array).read_space()
    except PlatformError as error:
        rows.update(failed_at=array.failed_at or clock.now(), error=error.message)
        raise
    rows.update(space=[each.to_json() for each in space], read_at=clock.now(), failed_at=None, error="")


def measure_shared() -> None:
    """Work out what copies will share with those that are on the sites of this host, before anybody asks for them.

    So it is known of each site how much of a commit has yet to be moved there, also where no copy is on its way. What
    cannot be read stops none of the others.
    """
    isolation.for_each(
        failures.MEASURE_SHARED,
        _find_unmeasured(),
        lambda pair: _measure_pair(*pair),
        key=lambda pair: f"{pair[0].pk}:{pair[1].pk}",
    )


def _find_unmeasured() -> list[tuple[CacheSite, Commit]]:
    """Return sites with ready copies, and commits of the same datasets: heads of branches and what is on its way."""
    ready = CachedCommit.objects.filter(state=CacheState.READY, ready_at__isnull=False, site__host__in=hosts.here())
    newest = ready.order_by("site", "dataset").values_list("site", "dataset").annotate(newest_at=Max("ready_at"))
    changed_at = {(site_id, dataset_id): at for site_id, dataset_id, at in newest}
    if not changed_at:
        return []
    live_commits = Commit.objects.filter(dataset__in={id_ for _, id_ in changed_at}, dataset__deleted_at=None)
    is_wanted = Q(branches__isnull=False) | Q(cached_commits__state__in=sorted(UNFINISHED))
    commits = list(live_commits.filter(is_wanted).select_related("dataset__store").order_by("pk").distinct())
    begun = CachedCommit.objects.filter(commit__in=commits, state__in=sorted(CURRENT - _NOT_BEGUN)).order_by()
    known = SharedContent.objects.filter(Q(base=None) | Q(base__state=CacheState.READY), commit__in=commits).order_by()
    is_begun = set(begun.values_list("site", "commit"))
    measured_at = {
        (site_id, commit_id): at for site_id, commit_id, at in known.values_list("site", "commit", "measured_at")
    }
    sites = CacheSite.objects.in_bulk({id_ for id_, _ in changed_at})
    return [
        (sites[site_id], commit)
        for (site_id, dataset_id), at in changed_at.items()
        for commit in commits
        if commit.dataset_id == dataset_id and (site_id, commit.pk) not in is_begun
        if (site_id, commit.pk) not in measured_at or measured_at[site_id, commit.pk] < at
    ]


def _measure_pair(site: CacheSite, commit: Commit) -> None:
    now = clock.now()  # what becomes ready meanwhile is looked at again
    plan = cache_plans.plan_hydration(commit, site)
    SharedContent.objects.update_or_create(
        site=site,
        commit=commit,
        defaults={"base_id": plan.base_id, "shared_bytes": plan.shared_bytes, "measured_at": now},
    )


def bind_sites() -> None:
    """Take the cache sites in folders that an earlier version made for the host that has these folders."""
    for site in CacheSite.objects.filter(host=hosts.UNBOUND).order_by("pk"):
        if settings.NEARLINE.is_embedded or Path(site.root).is_dir():
            CacheSite.objects.filter(pk=site.pk, host=hosts.UNBOUND).update(host=hosts.this_host())
