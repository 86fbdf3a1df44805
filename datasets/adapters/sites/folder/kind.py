"""Cache sites of kind `folder`: a folder that this server can write, on a local disk or a network file system."""

import os
from collections.abc import Iterator
from pathlib import Path

from django import forms
from django.conf import settings

from core import hosts
from datasets.adapters.folder_marks import SITE_MARK
from datasets.adapters.sites.folder.copy_folder import SITE_FOLDERS, PosixFolder, make_folder
from datasets.adapters.sites.folder.driver import FolderSite
from datasets.adapters.sites.folder.elsewhere import ElsewhereSite
from datasets.adapters.sites.kinds import SiteKind
from datasets.engine.cache_ports import CacheSiteDriver
from datasets.errors import CacheSiteAway, InvalidCacheSite
from datasets.models import CacheSite, CacheSiteKind, Store, StoreKind


class FolderForm(forms.Form):
    """Where the copies lie."""

    root = forms.CharField(
        max_length=1000,
        required=False,
        label="Folder",
        help_text="An absolute path. New, empty, or of an earlier site.",
    )


_PLATFORM_FOLDERS = frozenset(
    {"artifacts", "code", "docker", "empty", "jobs", "kubernetes", "runs", "sample", "simulated", "store", "trees"}
)
"""What the platform keeps in its home folder, beside the cache of its first site; `code` is of earlier releases."""


def check(site: CacheSite) -> None:
    """Require an absolute folder that lies in none that is used for something else, and holds none, nor other files.

    Symbolic links are followed. On this host it is made, and its mark noted. Raises InvalidCacheSite and
    CacheSiteUnavailable.
    """
    if site.config:
        raise InvalidCacheSite(f"A site in a folder has no setting '{min(site.config)}'.")
    if not Path(site.root).is_absolute():
        raise InvalidCacheSite(f"The folder of a cache site is given from the root on, unlike '{site.root}'.")
    site.root = os.path.normpath(site.root)
    for folder, use in _list_used_folders(site):
        if _overlap(Path(site.root), folder):
            raise InvalidCacheSite(f"{site.root} and {folder} {use} lie in each other. Choose a folder of its own.")
    if hosts.is_here(site.host):
        if names := _list_other_files(Path(site.root)):
            raise InvalidCacheSite(f"{site.root} holds other files, such as {names[0]}. Choose an empty folder.")
        site.mark = make_folder(Path(site.root))


def _list_other_files(root: Path) -> list[str]:
    """Return the names in a folder that no site has made there: the path of a marker is that of a copy."""
    return sorted(_list_names(root) - _list_names(root / ".ready") - {*SITE_FOLDERS, SITE_MARK, "lost+found"})


def _list_names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise InvalidCacheSite(f"The folder {folder} cannot be read: {error.strerror}.") from error


def _list_used_folders(site: CacheSite) -> Iterator[tuple[Path, str]]:
    on_host = CacheSite.objects.filter(kind=CacheSiteKind.FOLDER, host=site.host)
    for known in on_host.exclude(pk=site.pk).order_by("pk"):
        yield Path(known.root), f"of the site '{known.name}'"
    if not hosts.is_here(site.host):
        return
    for store in Store.objects.filter(kind=StoreKind.FOLDER).order_by("pk"):
        yield Path(store.location), f"of the store '{store.name}'"
    home = Path(settings.NEARLINE.home).absolute()
    for name in sorted(_PLATFORM_FOLDERS):
        yield home / name, "of the platform"


def _overlap(first: Path, second: Path) -> bool:
    """Whether two folders are the same or one holds the other, once links are followed."""
    try:
        one, other = first.resolve(), second.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidCacheSite(f"The folder {first} cannot be followed to where it lies: {error}.") from error
    return one == other or one in other.parents or other in one.parents


def open_site(site: CacheSite) -> CacheSiteDriver:
    """Return the driver; of a folder of another host what the database knows of it. Raises CacheSiteAway."""
    if hosts.is_here(site.host):
        return FolderSite(PosixFolder(Path(site.root), site=site.name, mark=site.mark))
    if site.absence:
        raise CacheSiteAway.of(site.name, site.absence)
    return ElsewhereSite(site)


KIND = SiteKind(
    name="folder",
    label="folder: on this server's disk, or a network file system that it mounts",
    form=FolderForm,
    check=check,
    open=open_site,
    is_read_early=True,
    has_host=True,
    pauses=True,
    default_part=0.8,
)
