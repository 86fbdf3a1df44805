"""The kinds of cache sites, and from the row of a site to its driver: the one place where a kind becomes an adapter."""

from collections.abc import Mapping

from datasets.adapters.sites.existing import KIND as EXISTING
from datasets.adapters.sites.folder.kind import KIND as FOLDER
from datasets.adapters.sites.kinds import SiteKind
from datasets.adapters.sites.nfs import KIND as NFS
from datasets.adapters.sites.simulated import KIND as SIMULATED
from datasets.adapters.sites.ssh import KIND as SSH
from datasets.adapters.sites.volume.kind import KIND as VOLUME
from datasets.engine.cache_ports import CacheSiteDriver
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite

KINDS: Mapping[str, SiteKind] = {kind.name: kind for kind in (FOLDER, NFS, SIMULATED, VOLUME, EXISTING, SSH)}


def get_kind(name: str) -> SiteKind:
    """Return a kind of cache site. Raises InvalidCacheSite."""
    if name not in KINDS:
        raise InvalidCacheSite(f"'{name}' is no kind of cache site. There are: {', '.join(KINDS)}.")
    return KINDS[name]


def open_site(site: CacheSite) -> CacheSiteDriver:
    """Return the driver of a site. Raises CacheSiteUnavailable when it cannot be used."""
    return get_kind(site.kind).open(site)
