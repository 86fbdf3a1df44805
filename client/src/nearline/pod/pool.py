"""A volume that many copies share, a folder for each: how one leaves, and files that several have.

`ID/` is a copy, complete or in the making, `.trash/ID/` one on its way out.
"""

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from nearline.content.removals import remove_folder
from nearline.hydrate.folder import sync_disk

_TRASH = ".trash"
_OPEN, _CLOSED = 0o755, 0o555
_HEALING = b".nearline-healing"


def remove(pool: Path, copy: str) -> None:
    """Take a copy out of sight in one step and then off the volume. One that was interrupted can be repeated."""
    trash = pool / _TRASH / copy
    trash.parent.mkdir(exist_ok=True)
    remove_folder(trash)
    with contextlib.suppress(FileNotFoundError):
        (pool / copy).rename(trash)
    remove_folder(trash)
    sync_disk(pool)


def find_names(pool: Path, inodes: Collection[int], files: str) -> Mapping[int, list[tuple[str, bytes]]]:
    """Return the copies, complete or in the making, and the paths below their folder `files` that are these files.

    A listing of a folder holds the numbers, so no file is touched.
    """
    names: dict[int, list[tuple[str, bytes]]] = {inode: [] for inode in inodes}
    for copy in sorted(pool.iterdir()) if names else ():
        for path, inode in _list_files(os.fsencode(copy / files), b""):
            if inode in names:
                names[inode].append((copy.name, path))
    return names


def link_over(good: Path, name: Path) -> None:
    """Put a good file in the place of one in a closed folder, whoever reads that; nothing where the folder is gone."""
    folder, target = os.fsencode(name.parent), os.fsencode(name)
    draft = os.path.join(folder, _HEALING)
    with contextlib.suppress(FileNotFoundError):
        os.chmod(folder, _OPEN)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        os.link(good, draft)
        os.rename(draft, target)
        os.chmod(folder, _CLOSED)


def _list_files(top: bytes, prefix: bytes) -> Iterator[tuple[bytes, int]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(top) as listed:
        for item in listed:
            path = prefix + item.name
            if item.is_dir(follow_symlinks=False):
                yield from _list_files(item.path, path + b"/")
            else:
                yield path, item.inode()
