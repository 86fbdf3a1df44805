"""The files of a folder in the order of their paths, streamed: nothing is held but the folders being read."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from nearline.content.entries import EntryKind
from nearline.content.errors import BadPath
from nearline.content.paths import check_path, check_paths
from nearline.content.symlinks import check_target
from nearline.errors import Failed
from nearline.transfer.local.ignore import IgnoreRules


class LocalFile(NamedTuple):
    """A file or link on disk. The numbers after `mode` tell whether it is still the same; a link has its `target`."""

    path: bytes
    kind: EntryKind
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    target: bytes = b""

    @property
    def signature(self) -> tuple[int, int, int, int]:
        """Return what changes when the content does."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode


# The same as `LocalFile._make` without a Python call for each of a million files.
_new_file: Callable[[Iterable[object]], LocalFile] = partial(tuple.__new__, LocalFile)
# Asking an enumeration for a member costs as much as the rest of describing a file.
_FILE = EntryKind.FILE


class Skipped(NamedTuple):
    """Something that cannot be carried, with the reason."""

    path: bytes
    why: str


def normal_mode(mode: int) -> int:
    """Return the mode as it is carried: whether the owner may execute is kept, the rest is everyone's umask."""
    return 0o755 if mode & 0o100 else 0o644


def describe(path: bytes, status: os.stat_result, target: bytes = b"") -> LocalFile:
    """Return what a stat says about a file or, with its target, a link."""
    if stat.S_ISLNK(status.st_mode):
        kind, mode, size = EntryKind.SYMLINK, 0o777, len(target)
    else:
        kind, mode, size = _FILE, normal_mode(status.st_mode), status.st_size
    return _new_file((path, kind, mode, size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, target))


def walk(root: bytes, rules: IgnoreRules, skipped: list[Skipped]) -> Iterator[LocalFile]:
    """Yield every file and link below `root` that is not ignored; append to `skipped` what cannot be carried."""
    base = root + b"/"
    stack = [_read_folder(base, b"", rules)]
    while stack:
        listed, is_sound = stack[-1]
        for order, path in listed:
            if order is not path:
                if not _is_empty(base + path):
                    stack.append(_read_folder(base, order, rules))
                    break
                skipped.append(Skipped(path, "is an empty folder, and a dataset keeps files only"))
                continue
            try:
                if not is_sound:
                    check_path(path)
                status = os.lstat(base + path)
                if stat.S_ISREG(status.st_mode):
                    yield describe(path, status)
                else:
                    yield _describe_link(base, path, status)
            except BadPath as error:
                skipped.append(Skipped(path, error.why))
            except (FileNotFoundError, NotADirectoryError):
                # It left while the folder was read.
                continue
        else:
            stack.pop()


def _read_folder(base: bytes, prefix: bytes, rules: IgnoreRules) -> tuple[Iterator[tuple[bytes, bytes]], bool]:
    """Return what is in a folder and not ignored, in the order of paths, and whether all paths may be carried.

    The first of each two is what decides the order. A file's is its path, the same object; a folder stands where its
    files stand in the order of whole paths.
    """
    files: list[bytes] = []
    folders: list[bytes] = []
    try:
        with os.scandir(base + prefix) as entries:
            for entry in entries:
                (folders if entry.is_dir(follow_symlinks=False) else files).append(prefix + entry.name)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise cannot("read the folder", prefix or b".", error) from error
    listed = [(path, path) for path in rules.leave_out(files, is_folder=False)]
    listed += [(path + b"/", path) for path in rules.leave_out(folders, is_folder=True)]
    listed.sort()
    try:
        check_paths([path for _, path in listed])
    except BadPath:
        return iter(listed), False
    return iter(listed), True


def _is_empty(folder: bytes) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        # Reading it says why.
        return False


def _describe_link(base: bytes, path: bytes, status: os.stat_result) -> LocalFile:
    if not stat.S_ISLNK(status.st_mode):
        raise BadPath(path, "is neither a file nor a folder nor a link")
    target = os.readlink(base + path)
    check_target(path, target)
    return describe(path, status, target)


def cannot(what: str, path: bytes, error: OSError) -> Failed:
    """Return the error that says that something could not be done to a local file."""
    name = path.decode("utf-8", "backslashreplace")
    return Failed(f"Cannot {what} '{name}': {error.strerror}.", code="client.local_file", details={"path": name})
