"""A copy in the making, in a folder that nobody sees until one rename publishes it."""

import contextlib
import os
import shutil
from pathlib import Path

from datasets.adapters.sites.folder import sealed_files
from datasets.engine.cache_ports import Sharing
from datasets.errors import CacheSiteUnavailable, StagingLost
from nearline.content.manifest import Entry
from nearline.hydrate.folder import sync_disk

# Hydration keeps the pieces of large files here; no file of a dataset can bear this name.
_WORK_FOLDER = ".nearline"
_DRAFT = b".nearline/copied"


class FolderStaging:
    """The staging folder of one copy under one token; its name holds the token, so a later token's rename ends our use.

    Files are written straight under their final names without a sync each: one sync at the end covers them all.
    """

    def __init__(self, *, root: Path, folder: Path, copy_id: str, sharing: Sharing) -> None:
        """Use `folder`, which exists."""
        self._root = root
        self._folder = folder
        self._top = os.fsencode(folder)
        self._copy_id = copy_id
        self._sharing = sharing
        self._made = {b""}

    @property
    def folder(self) -> Path:
        """Where the files are written."""
        return self._folder

    def share(self, entry: Entry, *, base: str, base_path: bytes) -> bool:
        """Link or clone the base's file, if nobody seems to have written to it."""
        source = os.fsencode(self._root / base) + b"/" + base_path
        target = self._top + b"/" + entry.path
        with sealed_files.staging_errors(self._folder):
            try:
                status = os.lstat(source)
            except (FileNotFoundError, NotADirectoryError):
                return False
            if not sealed_files.looks_untouched(status, entry):
                return False
            self._make_parent(entry.path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target)
            return sealed_files.share_file(source, target, entry, self._sharing)

    def copy(self, entry: Entry, source: Path) -> bool:
        """Read, hash and write; a copy that an earlier call completed is kept."""
        target = self._top + b"/" + entry.path
        draft = self._top + b"/" + _DRAFT
        with sealed_files.staging_errors(self._folder):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if sealed_files.looks_untouched(os.lstat(target), entry):
                    return True
            self._make_parent(entry.path)
            self._make_parent(_DRAFT)
            if not sealed_files.copy_verified(os.fsencode(source), draft, entry):
                return False
            os.rename(draft, target)
            return True

    def publish(self, path: str, *, files: int) -> None:
        """Seal, sync once, note the marker, rename."""
        target = self._root / path
        with sealed_files.staging_errors(self._folder):
            if sealed_files.read_marker(self._root, path) == self._copy_id and target.is_dir():
                # An earlier attempt died right after its rename.
                os.chmod(target, sealed_files.SEALED_FOLDER_MODE)
                sealed_files.point_early_name(self._root, self._copy_id, target)
                return
            shutil.rmtree(self._folder / _WORK_FOLDER, ignore_errors=True)
            self._seal(files)
            sync_disk(self._folder)
            self._clear(path)
            sealed_files.write_marker(self._root, path, self._copy_id)
            self._move_to(target)
            sealed_files.point_early_name(self._root, self._copy_id, target)
            os.chmod(target, sealed_files.SEALED_FOLDER_MODE)
            sync_disk(target.parent)

    def _move_to(self, target: Path) -> None:
        for is_last in (False, False, True):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                sealed_files.move_folder(self._folder, target)
            except FileNotFoundError:
                # The last other copy of the dataset left just now, and the folder that was empty then with it.
                if is_last or not self._folder.is_dir():
                    raise
            else:
                return

    def _seal(self, files: int) -> None:
        totals = sealed_files.seal_tree(self._top)
        if totals != files:
            sealed_files.move_folder(self._folder, self._root / ".trash" / self._folder.name)
            raise CacheSiteUnavailable(
                f"Another number of files was staged ({totals:,}) than the commit has ({files:,}): something "
                "else writes to the site's folder, or its file system cannot keep all names apart. "
                "What was staged is discarded.",
                found=totals,
                expected=files,
            )

    def _clear(self, path: str) -> None:
        """Move away what someone put where the copy goes; a complete copy that lies there is never touched."""
        target = self._root / path
        if not os.path.lexists(target):
            return
        owner = sealed_files.read_marker(self._root, path)
        if owner == self._copy_id or not self._folder.is_dir():
            raise StagingLost("Another worker has made this copy in the meantime.")
        if owner is not None:
            raise CacheSiteUnavailable(f"Another copy lies at {target}; it is swept away within the hour.")
        sealed_files.move_folder(target, self._root / ".trash" / f"unknown.{self._copy_id}")

    def _make_parent(self, path: bytes) -> None:
        parent = path.rpartition(b"/")[0]
        if parent not in self._made:
            # Not from the very top: that would make the staging folder again after another worker took it away.
            self._make_parent(parent)
            here = self._top + b"/" + parent
            try:
                os.mkdir(here, 0o755)
            except FileExistsError:
                os.chmod(here, sealed_files.OPEN_FOLDER_MODE)  # an earlier attempt closed it
            self._made.add(parent)
