"""What was written reaches the disk."""

import ctypes
import os
from itertools import islice
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_FEW_FILES = 256


def sync_disk(folder: Path) -> None:
    """Make everything written to the file system of `folder` durable, with one call for all files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if hasattr(_libc, "syncfs"):
            if _libc.syncfs(descriptor) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(folder))
        else:
            os.sync()
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make a folder and what is in it durable; where that are few files, without waiting for what others write."""
    paths = list(islice(folder.rglob("*"), _FEW_FILES + 1))
    if len(paths) > _FEW_FILES:
        sync_disk(folder)
        return
    for path in (*paths, folder):
        if path.is_symlink():
            continue  # its folder holds it
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
