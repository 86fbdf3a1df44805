"""A cache site in a folder: copies become visible by one rename and share files by reflinks or hard links.

.staging/<copy>.<token>/   copies in the making
.early/<copy>              a link to the copy, in the making or complete, for those who read it before it is
.ready/<path>              says which complete copy lies at <path>; outside the trees, which hold only the commit
.trash/<copy>/             copies on their way out
<project>/<dataset>/<commit>/
.nearline-site             the site's mark: while the folder has not this one, it is not used
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from core.removals import remove_files, remove_folder
from datasets.adapters.folder_marks import SITE_MARK, MarkedFolder, ensure_mark
from datasets.adapters.sites.folder import sealed_files
from datasets.engine.cache_ports import EARLY_FOLDER, Damage, Sharing, SiteUsage, Staging
from datasets.errors import CacheSiteAway, CacheSiteUnavailable, StagingLost
from nearline.content.manifest import Entry, EntryKind
from nearline.hydrate.folder import sync_disk

SITE_FOLDERS = (".staging", ".ready", ".trash", EARLY_FOLDER)
_CHECK_EVERY = 256
# Hydration keeps the pieces of large files here; no file of a dataset can bear this name.
_WORK_FOLDER = ".nearline"
_DRAFT = b".nearline/copied"
_known_sharing: dict[str, Sharing] = {}


def make_folder(root: Path) -> str:
    """Make the folder of a site, as far as it is not there, and return its mark. Raises CacheSiteUnavailable."""
    with sealed_files.disk_errors():
        root.mkdir(parents=True, exist_ok=True)
        return ensure_mark(root, SITE_MARK)


def holds_any(root: Path, copies: Mapping[str, str]) -> bool:
    """Whether any of these copies, by id with its path, lies in a folder, complete or not."""
    return any(
        sealed_files.read_marker(root, path) == id_ or any(root.glob(f".staging/{id_}.*"))
        for id_, path in copies.items()
    )


class PosixFolder:
    """A cache volume in a folder of a local or network file system, used only while that has its mark."""

    def __init__(self, root: Path, *, site: str, mark: str, sharing: Sharing | None = None) -> None:
        """Use the folder of a site, which is named in errors. `sharing` is found out by trying unless it is given.

        Raises CacheSiteAway and CacheSiteUnavailable.
        """
        self._root = root
        self._site = site
        self._mark = mark
        self._marked = MarkedFolder(root, SITE_MARK, mark)
        self._sharing = sharing
        self.require_folder()
        with sealed_files.disk_errors():
            for name in SITE_FOLDERS:
                (root / name).mkdir(exist_ok=True)

    def require_folder(self) -> None:
        """Raise CacheSiteAway where the folder is not that of the site: what is missing there is not lost."""
        try:
            absence = self._marked.find_absence()
        except OSError as error:
            raise CacheSiteAway.of(self._site, f"The folder {self._root} cannot be read: {error.strerror}.") from error
        if absence:
            mark = f" Its mark is {self._mark}." if self._mark else ""
            raise CacheSiteAway.of(self._site, f"The folder {absence}. Is its disk mounted?{mark}")

    @property
    def sharing(self) -> Sharing:
        """How copies in this folder share files; tried out once per process."""
        if self._sharing is None:
            key = str(self._root)
            if key not in _known_sharing:
                _known_sharing[key] = sealed_files.probe_sharing(self._root / ".staging")
            self._sharing = _known_sharing[key]
        return self._sharing

    def usage(self) -> SiteUsage:
        """Return the size of the file system and what is free for us in it."""
        try:
            status = os.statvfs(self._root)
        except OSError as error:
            raise sealed_files.as_platform_error(error) from error
        return SiteUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def now_ns(self) -> int:
        """Return what the file system's clock says: on a network file system it is not ours."""
        stamp = self._root / ".staging" / ".clock"
        with sealed_files.disk_errors():
            stamp.touch()
            os.utime(stamp)
            return stamp.stat().st_ctime_ns

    def path_of(self, path: str) -> Path:
        """Return the copy's folder."""
        return self._root / path

    def early_path_of(self, copy_id: str) -> Path:
        """Return the link to the copy."""
        return sealed_files.early_name(self._root, copy_id)

    def stage(self, copy_id: str, token: str) -> Staging:
        """Take the staging folder over by renaming it, so that the worker who had it can find it no longer."""
        folder = self._root / ".staging" / f"{copy_id}.{token}"
        with sealed_files.disk_errors():
            earlier = [path for path in self._root.glob(f".staging/{copy_id}.*") if path != folder]
            if len(earlier) > 1:
                # A worker that was thought dead has made its folder again. The one that got furthest is worth keeping.
                earlier.sort(key=lambda path: sum(1 for _ in sealed_files.walk_files(os.fsencode(path))))
            for path in reversed(earlier):
                aside = self._root / ".trash" / path.name
                with contextlib.suppress(FileNotFoundError):
                    sealed_files.move_folder(path, aside if folder.exists() else folder)
            folder.mkdir(mode=0o755, exist_ok=True)
            if not sealed_files.is_early_name_of_published(self._root, copy_id):
                sealed_files.point_early_name(self._root, copy_id, folder)
        return FolderStaging(root=self._root, folder=folder, copy_id=copy_id, sharing=self.sharing)

    def is_published(self, path: str, copy_id: str) -> bool:
        """Say whether marker and folder are there."""
        return sealed_files.read_marker(self._root, path) == copy_id and (self._root / path).is_dir()

    def hide(self, path: str, copy_id: str) -> None:
        """Rename the copy into the trash, then drop its marker: a marker without a folder shows nothing."""
        if sealed_files.read_marker(self._root, path) != copy_id:
            return
        with sealed_files.disk_errors():
            with contextlib.suppress(FileNotFoundError):
                sealed_files.move_folder(self._root / path, self._trash_of(copy_id))
            if sealed_files.read_marker(self._root, path) not in {copy_id, None}:
                # We slept between look and leap, and what we moved is the copy that came after ours.
                sealed_files.move_folder(self._trash_of(copy_id), self._root / path)
                return
            sealed_files.drop_marker(self._root, path)
            for folder in list((self._root / path).parents)[:2]:
                with contextlib.suppress(OSError):  # another copy lies there
                    folder.rmdir()

    def weigh(self, copy_id: str) -> int:
        """Add up the files that nobody else has."""
        with sealed_files.disk_errors():
            size_bytes = sum(
                sealed_files.own_bytes(item, self.sharing)
                for folder in self._hidden(copy_id)
                for item in sealed_files.walk_files(os.fsencode(folder))
            )
        self.require_folder()  # what went away meanwhile was not counted
        return size_bytes

    def remove(self, copy_id: str, *, keep_going: Callable[[], bool]) -> bool:
        """Remove the copy's folders in the trash and in staging, file by file."""
        with sealed_files.disk_errors():
            sealed_files.early_name(self._root, copy_id).unlink(missing_ok=True)
            for folder in self._hidden(copy_id):
                for number, _ in enumerate(remove_files(folder)):
                    if number % _CHECK_EVERY == 0 and not keep_going():
                        return False
        self.require_folder()  # what went away meanwhile was not removed
        return True

    def list_leftovers(self) -> set[str]:
        """Return the ids that folders in staging and trash are named by."""
        names = [*os.listdir(self._root / ".staging"), *os.listdir(self._root / ".trash")]
        return {name.partition(".")[0] for name in names if not name.startswith(".")}

    def list_published(self) -> Mapping[str, str]:
        """Read the markers."""
        top = self._root / ".ready"
        published = {}
        for marker in sorted(top.glob("*/*/*")):
            path = str(marker.relative_to(top))
            owner = None if marker.name.startswith(".") else sealed_files.read_marker(self._root, path)
            if owner is not None:
                published[owner] = path
        return published

    def inspect(
        self, path: str, entries: Iterable[Entry], *, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
    ) -> Iterator[Damage]:
        """Compare files and folders with the entries."""
        with sealed_files.disk_errors():
            yield from sealed_files.inspect_tree(
                os.fsencode(self._root / path), entries, quiet_since_ns=quiet_since_ns, must_read=must_read
            )
        self.require_folder()  # what went away meanwhile is not damaged

    def find_sharers(self, paths: Collection[str], file_keys: Collection[int]) -> Mapping[int, list[tuple[str, bytes]]]:
        """Walk the copies for the inode numbers; a directory listing holds them, so no file is touched."""
        keys = set(file_keys)
        sharers: dict[int, list[tuple[str, bytes]]] = {key: [] for key in keys}
        if not keys:
            return sharers
        for path in sorted(paths):
            top = os.fsencode(self._root / path)
            for item in sealed_files.walk_files(top):
                if item.inode() in keys:
                    sharers[item.inode()].append((path, item.path[len(top) + 1 :]))
        return sharers

    def replace(self, targets: Iterable[tuple[str, bytes]], entry: Entry, *, good: Path) -> None:
        """Give the good file to each target by a link or clone beside it and a rename."""
        source = os.fsencode(good)
        with sealed_files.disk_errors():
            if entry.kind is EntryKind.FILE:
                sealed_files.seal_file(source, entry)
            for path, name in targets:
                top = os.fsencode(self._root / path)
                if os.path.isdir(top):
                    self._put(source, top, name, entry)

    def discard(self, path: str, stray: bytes, copy_id: str) -> None:
        """Move the stray thing into the trash and remove it there."""
        with sealed_files.disk_errors():
            self._set_aside(os.path.join(os.fsencode(self._root / path), stray), copy_id)

    def _put(self, good: bytes, top: bytes, name: bytes, entry: Entry) -> None:
        target = os.path.join(top, name)
        parent = os.path.dirname(target)
        if os.path.isdir(target) and not os.path.islink(target):
            self._set_aside(target, "damaged")
        with sealed_files.writable_folder(top, parent):
            beside = os.path.join(parent, b".nearline-healing")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
            if not sealed_files.share_file(good, beside, entry, self.sharing):
                sealed_files.copy_file(good, beside, entry)
            os.rename(beside, target)

    def _set_aside(self, thing: bytes, copy_id: str) -> None:
        aside = os.fsencode(self._root / ".trash" / f"{copy_id}.stray-{time.monotonic_ns()}")
        with sealed_files.writable_folder(os.path.dirname(thing), os.path.dirname(thing)):
            if os.path.isdir(thing) and not os.path.islink(thing):
                os.chmod(thing, sealed_files.OPEN_FOLDER_MODE)
            os.rename(thing, aside)
        if os.path.isdir(aside) and not os.path.islink(aside):
            remove_folder(os.fsdecode(aside))
        else:
            os.unlink(aside)

    def _hidden(self, copy_id: str) -> list[Path]:
        return [*self._root.glob(f".trash/{copy_id}*"), *self._root.glob(f".staging/{copy_id}.*")]

    def _trash_of(self, copy_id: str) -> Path:
        return self._root / ".trash" / copy_id


class FolderStaging:
    """The staging folder of one copy under one token, which nobody sees until one rename publishes it.

    Its name holds the token, so a later token's rename ends our use.
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
