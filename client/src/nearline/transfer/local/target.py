"""Writing into a folder by names that others chose: never through a link, never outside, never half a file."""

import contextlib
import itertools
import os
import stat

from nearline.content.entries import Entry
from nearline.content.hashing import Buffer
from nearline.content.paths import check_path
from nearline.content.symlinks import check_target
from nearline.errors import Conflict, NearlineError
from nearline.transfer.local.walk import Found, cannot, describe


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

    def find(self, path: bytes) -> Found | None:
        """Return what lies at a path if it is a file or a link; None when nothing does. Raises Conflict otherwise."""
        full = self._full(path)
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                return describe(path, status, os.readlink(full))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISREG(status.st_mode):
            return describe(path, status)
        raise _in_the_way(path)

    def open_new(self, entry: Entry) -> tuple[int, bytes]:
        """Open a new file that is not visible yet; return its descriptor and its place for `publish`."""
        place = os.path.join(self._temporary, b"%d-%d" % (os.getpid(), next(self._numbers)))
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(place, flags, 0o777 if entry.mode & 0o100 else 0o666), place
        except OSError as error:
            raise cannot("write", entry.path, error) from error

    def write_file(self, path: bytes, entry: Entry, data: Buffer) -> Found:
        """Make a file visible at `path`, at once and complete, with the mode and time of its entry."""
        descriptor, place = self.open_new(entry)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:
            os.close(descriptor)
            self.discard(place)
            raise cannot("write", path, error) from error
        return self.publish(descriptor, place, path, entry)

    def write_link(self, path: bytes, entry: Entry) -> Found:
        """Make a symbolic link visible at `path`."""
        check_target(path, entry.target)
        place = os.path.join(self._temporary, b"%d-%d" % (os.getpid(), next(self._numbers)))
        try:
            os.symlink(entry.target, place)
            os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)
        except OSError as error:
            raise cannot("write", path, error) from error
        return self._move(place, path)

    def publish(self, descriptor: int, place: bytes, path: bytes, entry: Entry) -> Found:
        """Close a file made by `open_new` and make it visible at `path`."""
        try:
            try:
                os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))
            finally:
                os.close(descriptor)
        except OSError as error:
            self.discard(place)
            raise cannot("write", path, error) from error
        return self._move(place, path)

    def discard(self, place: bytes) -> None:
        """Remove a file that will not be made visible."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)

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

    def _move(self, place: bytes, path: bytes) -> Found:
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
            self.discard(place)
            raise cannot("write", path, error) from error
        except NearlineError:
            self.discard(place)
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
    for folder, _, _ in os.walk(full, topdown=False):
        os.rmdir(folder)


def _in_the_way(path: bytes) -> Conflict:
    name = path.decode("utf-8", "backslashreplace")
    return Conflict(
        f"'{name}' is in the way: the dataset needs a file or folder of that name there.",
        code="client.in_the_way",
        hint="Move it away and try again.",
        details={"path": name},
    )
