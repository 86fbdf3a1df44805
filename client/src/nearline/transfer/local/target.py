"""Writing into a folder by names that others chose: never through a link, never outside, never half a file."""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator

from nearline.content.entries import Entry, check_target
from nearline.content.folders import walk_folders
from nearline.content.hashing import Buffer
from nearline.content.paths import check_path, show_path
from nearline.errors import Conflict, NearlineError
from nearline.hydrate.folder import HiddenFiles, hidden_name, write_at
from nearline.transfer.local.sharing import Donor
from nearline.transfer.local.walk import LocalFile, cannot, describe


class TargetFolder:
    """A folder that files are put into. `temporary` lies on the same file system. Safe to use from several threads."""

    def __init__(self, root: bytes, temporary: bytes) -> None:
        self._root = root
        self._temporary = temporary
        self._numbers = itertools.count()
        self._folders: set[bytes] = set()

    def folds_names(self) -> bool:
        """Return whether the file system takes names that differ only in case for the same."""
        probe = os.path.join(self._temporary, b"Case-%d" % os.getpid())
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY, 0o600))
        try:
            return os.path.lexists(probe.replace(b"Case-", b"cASE-"))
        finally:
            os.unlink(probe)

    def find(self, path: bytes) -> LocalFile | None:
        """Return what lies at a path if it is a file or a link; None when nothing does. Raises Conflict otherwise."""
        full = self._full(path)
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                return describe(path, status, os.readlink(full))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise cannot("read", path, error) from error
        if stat.S_ISREG(status.st_mode):
            return describe(path, status)
        raise _in_the_way(path)

    def write_file(self, path: bytes, entry: Entry, content: Buffer) -> LocalFile:
        """Make a file visible at `path`, at once and complete, with the mode and time of its entry."""
        place = self._new_place()
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(place, flags, 0o777 if entry.mode & 0o100 else 0o666)
            try:
                write_at(descriptor, content)
                os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
            finally:
                os.close(descriptor)
        except OSError as error:
            self._remove_hidden(place)
            raise cannot("write", path, error) from error
        return self._move(place, path)

    def share_file(self, path: bytes, entry: Entry, donor: Donor) -> LocalFile | None:
        """Make a file visible at `path` that a donor has; None where it has not."""
        place = self._new_place()
        return self._move(place, path) if donor.put(entry, place) else None

    def write_piece(self, entry: Entry, offset: int, content: Buffer) -> None:
        """Write a piece of a large file, which stays hidden until `publish`."""
        with self._hidden_files(entry) as hidden:
            hidden.write(entry, offset, content)

    def is_whole(self, entry: Entry) -> bool:
        """Return whether a hidden file has the content of its entry."""
        with self._hidden_files(entry) as hidden:
            return hidden.is_whole(entry)

    def publish(self, path: bytes, entry: Entry) -> LocalFile:
        """Make a hidden file visible at `path`."""
        with self._hidden_files(entry) as hidden, hidden.open(entry) as descriptor:
            os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
        return self._move(os.path.join(self._temporary, os.fsencode(hidden_name(entry))), path)

    def discard(self, entry: Entry) -> None:
        """Remove a hidden file that will not be made visible."""
        with self._hidden_files(entry) as hidden:
            hidden.discard(entry)

    def write_link(self, path: bytes, entry: Entry) -> LocalFile:
        """Make a symbolic link visible at `path`."""
        check_target(path, entry.target)
        place = self._new_place()
        try:
            os.symlink(entry.target, place)
            os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)
        except OSError as error:
            raise cannot("write", path, error) from error
        return self._move(place, path)

    def remove(self, path: bytes) -> bool:
        """Remove a file, and the folders that it leaves empty; return False when there was none."""
        self._check_folders(path)
        try:
            os.unlink(self._full(path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise cannot("remove", path, error) from error
        folder = path.rpartition(b"/")[0]
        while folder:
            try:
                os.rmdir(self._full(folder))
            except OSError:
                break
            self._folders.discard(folder)
            folder = folder.rpartition(b"/")[0]
        return True

    def _new_place(self) -> bytes:
        return os.path.join(self._temporary, b"%d-%d" % (os.getpid(), next(self._numbers)))

    def _remove_hidden(self, place: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)

    @contextlib.contextmanager
    def _hidden_files(self, entry: Entry) -> Iterator[HiddenFiles]:
        try:
            descriptor = os.open(self._temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                yield HiddenFiles(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise cannot("write", entry.path, error) from error

    def _move(self, place: bytes, path: bytes) -> LocalFile:
        try:
            check_path(path)
            self._make_folders(path)
            full = self._full(path)
            try:
                os.replace(place, full)
            except IsADirectoryError:
                _remove_empty_folders(full)
                os.replace(place, full)
            status = os.lstat(full)
        except OSError as error:
            self._remove_hidden(place)
            raise cannot("write", path, error) from error
        except NearlineError:
            self._remove_hidden(place)
            raise
        target = os.readlink(full) if stat.S_ISLNK(status.st_mode) else b""
        return describe(path, status, target)

    def _make_folders(self, path: bytes) -> None:
        folder = path.rpartition(b"/")[0]
        if not folder or folder in self._folders:
            return
        self._make_folders(folder)
        full = self._full(folder)
        try:
            os.mkdir(full)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(full).st_mode):
                raise _in_the_way(folder) from None
        self._folders.add(folder)

    def _check_folders(self, path: bytes) -> None:
        """Raise Conflict when the way to a path leads through a link."""
        end = path.find(b"/")
        while end != -1:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISLNK(os.lstat(self._full(path[:end])).st_mode):
                    raise _in_the_way(path[:end])
            end = path.find(b"/", end + 1)

    def _full(self, path: bytes) -> bytes:
        return self._root + b"/" + path


def _remove_empty_folders(full: bytes) -> None:
    for folder in reversed([folder for folder, _, _ in walk_folders(full)]):
        os.rmdir(folder)


def _in_the_way(path: bytes) -> Conflict:
    name = show_path(path)
    return Conflict(
        f"'{name}' is in the way: the dataset needs a file or folder of that name there.",
        code="client.in_the_way",
        hint="Move it away and try again.",
        details={"path": name},
    )
