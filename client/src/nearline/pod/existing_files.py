"""Comparing a folder that is not ours with a commit. Nothing is written: neither content nor mode, nor time."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nearline.content.entries import Entry, EntryKind
from nearline.content.paths import find_fault
from nearline.hydrate.folder import hash_open_file

# What file servers show at the top of a volume, and nobody has put there.
_OF_SERVERS = {b".snapshot", b"lost+found"}


def find_difference(folder: Path, entry: Entry, *, must_read: bool) -> str:
    """Say how a path differs from an entry: `missing` or `changed`; empty: not at all. Modes and times do not count."""
    path = os.fsencode(folder) + b"/" + entry.path
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    if entry.kind is EntryKind.SYMLINK:
        return "" if stat.S_ISLNK(status.st_mode) and os.readlink(path) == entry.target else "changed"
    if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
        return "changed"
    return "changed" if must_read and _hash_file(path) != entry.content_id else ""


def list_files(folder: Path) -> Iterator[bytes]:
    """Yield the path of everything but folders, in an order of its own.

    A folder whose path no commit may hold is yielded too, and nothing of what is in it.
    """
    top = os.fsencode(folder)
    rest = [b""]
    while rest:
        prefix = rest.pop()
        with os.scandir(os.path.join(top, prefix)) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False) or find_fault(path):
                    yield path
                elif prefix or path not in _OF_SERVERS:
                    rest.append(path + b"/")


def _hash_file(path: bytes) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return hash_open_file(descriptor)
    finally:
        os.close(descriptor)
