"""The mark of a folder store: a random id in the store's row, and in a file at the top of its folder.

Where a disk is not mounted, its mount point is there and empty. Without the mark that would be the store, and what is
written there is hidden once the disk is back.
"""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

MARK: Final = ".nearline-store"
"""A key cannot start with a dot, so no object can lie here."""


def holds_objects(root: Path) -> bool:
    """Whether objects of datasets were ever written to a folder."""
    return (root / "datasets").is_dir()


def read_mark(root: Path) -> str:
    """Return the mark of a folder; empty where it has none. Raises OSError."""
    try:
        return (root / MARK).read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def ensure_mark(root: Path) -> str:
    """Return the mark of a folder, which gets one where it has none. Raises OSError.

    Of several callers at once all return the same.
    """
    if mark := read_mark(root):
        return mark
    descriptor, name = tempfile.mkstemp(dir=root, prefix=f"{MARK}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(16) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _name(Path(name), root / MARK)
    finally:
        Path(name).unlink(missing_ok=True)
    return read_mark(root)


def _name(draft: Path, target: Path) -> None:
    """Give a file its name, unless another one has it."""
    try:
        target.hardlink_to(draft)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        draft.replace(target)
