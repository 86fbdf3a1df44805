"""Comparing a copy in a folder with what its commit says: a glance at every file, a full read where it is due."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator

from datasets.adapters.sites.folder import sealed_files
from datasets.engine.cache_ports import Damage, DamageKind
from nearline.content.manifest import Entry, EntryKind


def inspect_tree(
    top: bytes, entries: Iterable[Entry], *, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
) -> Iterator[Damage]:
    """Yield every path below `top` that is missing, changed, or not part of the commit.

    Modes and times that are wrong although the content is right are put right.
    """
    expected: set[bytes] = set()
    folders: set[bytes] = {b""}
    for entry in entries:
        expected.add(entry.path)
        parent = entry.path.rpartition(b"/")[0]
        while parent not in folders:
            folders.add(parent)
            parent = parent.rpartition(b"/")[0]
        damage = _inspect_entry(top + b"/" + entry.path, entry, quiet_since_ns, must_read)
        if damage is not None:
            yield damage
    yield from _find_strays(top, b"", expected, folders)


def _inspect_entry(
    path: bytes, entry: Entry, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
) -> Damage | None:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Damage(entry.path, DamageKind.MISSING)
    if entry.kind is EntryKind.SYMLINK:
        is_intact = stat.S_ISLNK(status.st_mode) and sealed_files.has_content(path, entry)
        return None if is_intact else Damage(entry.path, DamageKind.CHANGED)
    if not stat.S_ISREG(status.st_mode):
        return Damage(entry.path, DamageKind.CHANGED)
    is_untouched = sealed_files.looks_untouched(status, entry)
    # A change in the very tick of the clock in which we were done may be another's.
    was_quiet = quiet_since_ns is None or status.st_ctime_ns < quiet_since_ns
    if is_untouched and was_quiet and not must_read(entry):
        return None
    if status.st_size != entry.size or not sealed_files.has_content(path, entry):
        return Damage(entry.path, DamageKind.CHANGED, status.st_ino)
    if not is_untouched:
        sealed_files.seal_file(path, entry)
    return None


def _find_strays(top: bytes, folder: bytes, expected: set[bytes], folders: set[bytes]) -> Iterator[Damage]:
    here = os.path.join(top, folder) if folder else top
    try:
        with os.scandir(here) as listed:
            items = sorted(listed, key=lambda item: item.name)
    except FileNotFoundError:
        return
    for item in items:
        path = folder + b"/" + item.name if folder else item.name
        if path in folders and item.is_dir(follow_symlinks=False):
            yield from _find_strays(top, path, expected, folders)
        elif path not in expected and path not in folders:
            yield Damage(path, DamageKind.STRAY)
    if stat.S_IMODE(os.stat(here).st_mode) != sealed_files.SEALED_FOLDER_MODE:
        os.chmod(here, sealed_files.SEALED_FOLDER_MODE)
