"""Folders as they lie on disk, thousands of levels deep or not."""

import errno
import os
from collections.abc import Iterator
from typing import AnyStr, NamedTuple

from nearline.content.paths import find_fault

# A job may close what it leaves, or make it so deep that its path cannot be opened.
_UNREADABLE = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG}


class PlainFile(NamedTuple):
    """A plain file below a folder; with `why`, one that cannot be carried, or a folder of such files."""

    path: bytes
    size_bytes: int = 0
    mode: int = 0
    mtime_ns: int = 0
    why: str = ""


def walk_folders(top: AnyStr) -> Iterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """Yield what `os.walk` yields, whose version in Python 3.11 ends at a thousand levels.

    Of the names of folders, those that the caller takes out are not entered. Folders that cannot be read are passed.
    """
    rest = [top]
    while rest:
        place = rest.pop()
        folders: list[AnyStr] = []
        names: list[AnyStr] = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    (folders if entry.is_dir() else names).append(entry.name)
        except OSError:
            continue
        yield place, folders, names
        inner = [os.path.join(place, name) for name in reversed(folders)]
        rest += [path for path in inner if not os.path.islink(path)]


def list_plain_files(top: bytes) -> Iterator[PlainFile]:
    """Yield the plain files of a folder in the order of their paths' bytes, and once what cannot be carried or read.

    Links are passed, and so is what is removed meanwhile. Raises OSError for the folder itself.
    """
    levels = [(b"", _list_in_order(top))]
    while levels:
        prefix, entries = levels[-1]
        entry = next(entries, None)
        if entry is None:
            levels.pop()
            continue
        path = prefix + entry.name
        try:
            if not entry.is_dir(follow_symlinks=False):
                file = _describe(path, entry)
            elif why := find_fault(path):
                file = PlainFile(path, why=why)
            else:
                levels.append((path + b"/", _list_in_order(entry.path)))
                continue
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            file = PlainFile(path, why=f"cannot be read: {error.strerror}")
        if file is not None:
            yield file


def _describe(path: bytes, entry: os.DirEntry[bytes]) -> PlainFile | None:
    if not entry.is_file(follow_symlinks=False):
        return None
    facts = entry.stat(follow_symlinks=False)
    mode = facts.st_mode & 0o777
    if mode & 0o444 != 0o444 and not os.access(entry.path, os.R_OK):  # noqa: PLR2004 (readable by everybody)
        return PlainFile(path, why=f"cannot be read: {os.strerror(errno.EACCES)}")
    return PlainFile(path, facts.st_size, mode, facts.st_mtime_ns)


def _list_in_order(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    with os.scandir(folder) as entries:
        return iter(sorted(entries, key=_place))


def _place(entry: os.DirEntry[bytes]) -> bytes:
    # A folder stands where its files stand in the order of whole paths.
    return entry.name + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
