"""What was written reaches the disk."""

import ctypes
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


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
