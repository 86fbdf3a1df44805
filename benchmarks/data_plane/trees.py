"""Folders to copy, and whether a copy of one is right."""

import hashlib
import os
import shutil
from pathlib import Path

_FILES_IN_A_FOLDER = 1000
_HIDDEN = {".nearline", ".dvc", ".dvcignore", ".nearlineignore"}


def write_tree(folder: Path, *, files: int, size: int, seed: int) -> None:
    """Write incompressible files, all different, and different for each seed, into folders of 1,000."""
    block = os.urandom(size * 2)
    for number in range(files):
        parent = folder / f"d{number // _FILES_IN_A_FOLDER:03}"
        if number % _FILES_IN_A_FOLDER == 0:
            parent.mkdir(parents=True)
        start = (number * 7919) % size
        name = f"{seed}-{number}".encode().ljust(16)
        (parent / f"f{number:06}.bin").write_bytes((name + block[start : start + size])[:size])


def hash_tree(folder: Path) -> str:
    """Return a hash of all paths and contents; what tools keep for themselves does not count."""
    total = hashlib.sha256()
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _HIDDEN)
        for name in sorted(set(names) - _HIDDEN):
            path = Path(base, name)
            total.update(os.fsencode(path.relative_to(folder)) + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def remove_tree(folder: Path) -> None:
    """Remove a folder; there may be none."""
    shutil.rmtree(folder, ignore_errors=True)
