"""From the row of a cache site to the volume behind it."""

from pathlib import Path

from datasets.adapters.folder_site import FolderVolume
from datasets.engine.cache_ports import CacheVolume
from datasets.models import CacheSite


def open_volume(site: CacheSite) -> CacheVolume:
    """Return the volume of a site. Raises CacheSiteUnavailable when its folder cannot be used."""
    return FolderVolume(Path(site.root))
