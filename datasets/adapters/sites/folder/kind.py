"""Cache sites of kind `folder`: a folder that this server can write, on a local disk or a network file system."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from django import forms
from django.conf import settings
from django.db.models import Sum

from core import clock, hosts
from datasets.adapters.folder_marks import SITE_MARK
from datasets.adapters.sites.folder.copy_folder import SITE_FOLDERS, PosixFolder, make_folder
from datasets.adapters.sites.kinds import SiteKind
from datasets.engine.cache_ports import (
    CacheSiteDriver,
    CopyFolder,
    CopyLease,
    CopyProgress,
    CopyRequest,
    Fetched,
    Sharing,
    SiteUsage,
    Staging,
)
from datasets.engine.cache_states import LIVE
from datasets.engine.hydration_plan import is_shareable
from datasets.errors import CacheSiteAway, CacheSiteUnavailable, InvalidCacheSite, StagingLost
from datasets.models import BYTES_ON_DISK, CachedCommit, CacheSite, CacheSiteKind, Store, StoreKind
from nearline.content.manifest import Entry

_PLATFORM_FOLDERS = frozenset(
    {"artifacts", "code", "docker", "empty", "jobs", "kubernetes", "runs", "sample", "simulated", "store", "trees"}
)
"""What the platform keeps in its home folder, beside the cache of its first site; `code` is of earlier releases."""
_REPORT_EVERY = 256
_TIMEOUT_S = 30.0
"""So long may a file of a copy that is being filled elsewhere take to appear; then the store gives the rest."""
_LOOK_EVERY_S = 0.2


class FolderForm(forms.Form):
    """Where the copies lie."""

    root = forms.CharField(
        max_length=1000,
        required=False,
        label="Folder",
        help_text="An absolute path. New, empty, or of an earlier site.",
    )


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


class FolderSite:
    """A cache site in a folder of this host."""

    verifier = None

    def __init__(self, folder: CopyFolder) -> None:
        self.folder = folder

    @property
    def sharing(self) -> Sharing:
        """How copies in the folder share files."""
        return self.folder.sharing

    def usage(self) -> SiteUsage:
        """Return the size of the file system and what is free in it."""
        return self.folder.usage()

    def now_ns(self) -> int:
        """Return the file system's time."""
        return self.folder.now_ns()

    def can_read(self, other: CacheSiteDriver) -> bool:
        """Read whatever lies in a folder of this host."""
        return other.folder is not None

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Fill a staging folder and publish it."""
        filling = _Filling(copy, self.folder.stage(copy.id, copy.token), lease)
        if not self.folder.is_published(copy.location, copy.id):
            filling.run()
        lease.confirm()
        filling.staging.publish(copy.location, files=copy.files)
        return filling.progress(is_ready=True)

    def delete(
        self,
        copy_id: str,
        *,
        location: str,
        token: str,
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """Rename the copy into the trash, then remove it file by file."""
        # A worker that still fills the copy loses its staging folder first; then it cannot publish any more.
        self.folder.stage(copy_id, token)
        if location:
            self.folder.hide(location, copy_id)
        if settle is not None:
            settle(self.folder.weigh(copy_id))
        return self.folder.remove(copy_id, keep_going=keep_going)

    def list(self) -> Mapping[str, str]:
        """Return what is published, and what is staged or in the trash."""
        return {**dict.fromkeys(self.folder.list_leftovers(), ""), **self.folder.list_published()}


class _Filling:
    """One call that fills a copy: what its base has is shared, what its donor has is copied, the rest is fetched."""

    def __init__(self, copy: CopyRequest, staging: Staging, lease: CopyLease) -> None:
        self.staging = staging
        self._copy = copy
        self._lease = lease
        self._files = self._shared = self._copied = 0
        self._fetched = Fetched()
        self._donor = (
            copy.donor.site.folder.early_path_of(copy.donor.id) if copy.donor and copy.donor.site.folder else None
        )
        self._is_patient, self._is_donor_doubted = True, False

    def run(self) -> None:
        """Bring every file into the staging folder."""
        self._copy.fetch(self._missing_entries(), self.staging.folder, self._note_fetched)
        self._lease.report(self.progress())

    def progress(self, *, is_ready: bool = False) -> CopyProgress:
        """Return how far the copy is."""
        fetched = self._fetched
        return CopyProgress(
            files_done=self._files + fetched.files,
            bytes_done=self._shared + self._copied + fetched.size_bytes,
            bytes_shared=self._shared,
            bytes_copied=self._copied,
            bytes_moved=fetched.bytes_moved,
            waits_for=fetched.waits_for,
            is_ready=is_ready,
        )

    def _missing_entries(self) -> Iterator[Entry]:
        """Bring what lies near, and yield the other entries, which the store must give."""
        for entry in self._copy.list_entries():
            if self._share(entry):
                self._shared += entry.size
            elif self._take_from_donor(entry):
                self._copied += entry.size
            else:
                yield entry
                continue
            self._files += 1
            if self._files % _REPORT_EVERY == 0:
                self._lease.report(self.progress())
                self._require_lease()

    def _share(self, entry: Entry) -> bool:
        base = self._copy.base
        path = base.find_path(entry) if base is not None else None
        return base is not None and path is not None and self.staging.share(entry, base=base.location, base_path=path)

    def _take_from_donor(self, entry: Entry) -> bool:
        if self._donor is None or not is_shareable(entry):
            return False
        source = self._donor / os.fsdecode(entry.path)
        self._wait_for(source)
        if self.staging.copy(entry, source):
            return True
        self._doubt_donor()
        return False

    def _doubt_donor(self) -> None:
        assert self._copy.donor is not None  # noqa: S101 (who calls has looked)
        if not self._is_donor_doubted:
            self._is_donor_doubted = True
            self._copy.donor.doubt()

    def _wait_for(self, file: Path) -> None:
        """Return once a file of the donor is there, or cannot be expected any more. Raises StagingLost."""
        assert self._copy.donor is not None  # noqa: S101 (who calls has looked)
        until = clock.monotonic() + _TIMEOUT_S
        while self._is_patient and not os.path.lexists(file) and self._copy.donor.is_coming():
            self._require_lease()
            if clock.monotonic() > until:
                self._is_patient = False
            time.sleep(_LOOK_EVERY_S)

    def _require_lease(self) -> None:
        if self._lease.is_lost:
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")

    def _note_fetched(self, fetched: Fetched) -> None:
        self._fetched = fetched
        self._lease.report(self.progress())


class ElsewhereSite:
    """Stands for the driver of a site of kind `folder` in processes of other hosts."""

    folder = verifier = None
    # What can be shared is found out on its host; until then the best is expected.
    sharing = Sharing.REFLINK

    def __init__(self, site: CacheSite) -> None:
        self._site = site

    def usage(self) -> SiteUsage:
        """Return the capacity, less what the copies take: how full its disk is only its host sees."""
        copies = CachedCommit.objects.filter(site=self._site, state__in=LIVE)
        used: int = copies.aggregate(used=Sum(BYTES_ON_DISK))["used"] or 0
        return SiteUsage(self._site.capacity_bytes, max(0, self._site.capacity_bytes - used), is_measured=False)

    def now_ns(self) -> int:
        """Refuse."""
        self._refuse()

    def can_read(self, other: CacheSiteDriver) -> bool:  # noqa: ARG002
        """Read nothing from here."""
        return False

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:  # noqa: ARG002
        """Refuse."""
        self._refuse()

    def delete(
        self,
        copy_id: str,  # noqa: ARG002
        *,
        location: str,  # noqa: ARG002
        token: str,  # noqa: ARG002
        settle: Callable[[int], None] | None,  # noqa: ARG002
        keep_going: Callable[[], bool],  # noqa: ARG002
    ) -> bool:
        """Refuse."""
        self._refuse()

    def list(self) -> Mapping[str, str]:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise CacheSiteUnavailable(f"{self._site.name} is a folder of the host {hosts.name_of(self._site.host)}.")


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
