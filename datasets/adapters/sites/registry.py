"""From the row of a cache site to the volume behind it."""

from pathlib import Path

from datasets.adapters.sites.folder.copy_folder import PosixFolder
from datasets.engine.cache_ports import CopyFolder
from datasets.models import CacheSite


def open_volume(site: CacheSite) -> CopyFolder:
    """Return the volume of a site. Raises CacheSiteUnavailable when its folder cannot be used."""
    return PosixFolder(Path(site.root))
