"""Whether the folders of this host's cache sites are there, as their rows say, and the marks of those without one."""

from pathlib import Path

import structlog
from django.db.models import Q

from core import hosts, isolation
from datasets.adapters.folder_marks import SITE_MARK, read_mark
from datasets.adapters.sites.folder.copy_folder import holds_any, make_folder
from datasets.adapters.sites.registry import open_site
from datasets.engine.cache_states import CURRENT, CacheState
from datasets.errors import CacheSiteUnavailable
from datasets.models import CachedCommit, CacheSite, CacheSiteKind

log = structlog.get_logger(__name__)


def check_folders() -> None:
    """Note which folders are away and which are back. One that cannot be read holds up no other."""
    sites = CacheSite.objects.filter(kind=CacheSiteKind.FOLDER, host__in=hosts.here()).order_by("pk")
    isolation.for_each("datasets.check_folder", sites, check_folder)


def check_folder(site: CacheSite) -> None:
    """Note whether the folder of a site of this host is there; one that has no mark yet gets it."""
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
