"""The driver of kind `folder`: this host fills the folder itself, so `ensure` returns when the copy is ready."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from core import clock
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
from datasets.engine.hydration_plan import is_shareable
from datasets.errors import StagingLost
from nearline.content.manifest import Entry

_REPORT_EVERY = 256
_TIMEOUT_S = 30.0
"""So long may a file of a copy that is being filled elsewhere take to appear; then the store gives the rest."""
_LOOK_EVERY_S = 0.2


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
