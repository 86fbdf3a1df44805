"""Cache sites of kind `folder`: a folder that this server can write, on a local disk or a network file system."""

import os
from pathlib import Path

from django import forms

from datasets.adapters.sites.folder.copy_folder import PosixFolder
from datasets.adapters.sites.folder.driver import FolderSite
from datasets.adapters.sites.kinds import SiteKind
from datasets.errors import InvalidCacheSite
from datasets.models import CacheSite, CacheSiteKind


class FolderForm(forms.Form):
    """Where the copies lie."""

    root = forms.CharField(
        max_length=1000, required=False, label="Folder", help_text="On this server, an absolute path."
    )


def check(site: CacheSite) -> None:
    """Require an absolute folder that lies in no other site's, and holds none. Raises InvalidCacheSite."""
    if site.config:
        raise InvalidCacheSite(f"A site in a folder has no setting '{min(site.config)}'.")
    if not Path(site.root).is_absolute():
        raise InvalidCacheSite(f"The folder of a cache site is given from the root on, unlike '{site.root}'.")
    site.root = os.path.normpath(site.root)
    new = Path(site.root)
    for known in CacheSite.objects.filter(kind=CacheSiteKind.FOLDER).exclude(pk=site.pk).order_by("pk"):
        other = Path(known.root)
        if new == other or new in other.parents or other in new.parents:
            raise InvalidCacheSite(f"{new} and {other} of the site '{known.name}' lie in each other.")


KIND = SiteKind(
    name="folder",
    label="folder: on this server's disk, or a network file system that it mounts",
    form=FolderForm,
    check=check,
    open=lambda site: FolderSite(PosixFolder(Path(site.root))),
    default_part=0.8,
)
