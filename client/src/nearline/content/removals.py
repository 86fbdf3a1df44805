"""Removing a folder whatever is in it: jobs fill theirs as they like, thousands of levels deep, or closed to everybody.

Not `shutil.rmtree`: it needs a frame and a descriptor for each level, and ends at a folder that its owner may not list.
No link is followed. This module also runs on hosts that have only Python.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(path: str | Path) -> None:
    """Remove a folder and all that is in it; what is no folder, or is not there, stays so. Raises OSError."""
    for _ in remove_files(path):
        pass


def remove_files(path: str | Path) -> Iterator[None]:
    """Remove a folder as `remove_folder` does, and yield after each file; one that is given up can be repeated."""
    try:
        here = _open(os.fspath(path), None)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        # Each level's folder, and which folders in it are still to be removed; the last of these is being emptied.
        levels = [(os.fstat(here), (yield from _remove_files(here)))]
        while True:
            _, folders = levels[-1]
            if folders:
                try:
                    there = _open(folders[-1], here)
                except FileNotFoundError:  # somebody else removes it too
                    folders.pop()
                    continue
                levels.append((os.fstat(there), (yield from _remove_files(there))))
            elif len(levels) > 1:
                levels.pop()
                there = os.open("..", os.O_RDONLY | _FOLDER, dir_fd=here)
                outer, folders = levels[-1]
                if not os.path.samestat(outer, os.fstat(there)):
                    raise OSError(f"{path} was changed while it was removed.")
                os.rmdir(folders.pop(), dir_fd=there)
            else:
                break
            os.close(here)
            here = there
    finally:
        os.close(here)
    Path(path).rmdir()


def _open(name: str, folder: int | None) -> int:
    """Open a folder for listing, and let its owner list and change it."""
    place = os.open(name, os.O_PATH | _FOLDER, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRWXU)  # noqa: PTH101 (of what is open, whatever its name)
        return os.open(".", os.O_RDONLY | _FOLDER, dir_fd=place)
    finally:
        os.close(place)


def _remove_files(folder: int) -> Generator[None, None, list[str]]:
    """Remove what is no folder, and yield after each; return the names of the folders."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=folder)
                yield
    return folders
