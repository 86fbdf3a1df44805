"""The mark of a folder: a random id in the row of a folder store or cache site, and in a file at the top of its folder.

Where a disk is not mounted, its mount point is there and empty. Without the mark that would be the folder, and what is
written there is hidden once the disk is back.
"""

import fcntl
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

STORE_MARK: Final = ".nearline-store"
"""A key cannot start with a dot, so no object can lie here."""
SITE_MARK: Final = ".nearline-site"


class MarkedFolder:
    """A folder that is to be used only while it has its mark, which is in the file called `name`."""

    def __init__(self, root: Path, name: str, mark: str) -> None:
        self._root, self._file, self._mark = root, root / name, mark
        self._checked_file: tuple[int, ...] = ()

    def find_absence(self) -> str:
        """Say why what lies at the folder's place is not the folder; empty: it is. Raises OSError.

        The mark is read once, and again when its file is another one.
        """
        try:
            status = self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            where = f": the folder at its place has no {self._file.name}" if self._root.is_dir() else ""
            return f"{self._root} is not there{where}"
        file = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if file != self._checked_file:
            if not self._mark or read_mark(self._root, self._file.name) != self._mark:
                return f"{self._root} is not there: {self._file.name} in the folder at its place is of another one"
            self._checked_file = file
        return ""


def holds_objects(root: Path) -> bool:
    """Whether objects of datasets were ever written to a folder."""
    return (root / "datasets").is_dir()


def read_mark(root: Path, name: str) -> str:
    """Return the mark of a folder; empty where it has none. Raises OSError."""
    try:
        return (root / name).read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def ensure_mark(root: Path, name: str) -> str:
    """Return the mark of a folder, which gets one where it has none, or an empty one. Raises OSError.

    Of several callers at once all return the same.
    """
    if mark := read_mark(root, name):
        return mark
    descriptor, draft = tempfile.mkstemp(dir=root, prefix=f"{name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(16) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _name(Path(draft), root / name)
    finally:
        Path(draft).unlink(missing_ok=True)
    return read_mark(root, name)


def _name(draft: Path, target: Path) -> None:
    """Give a file its name, unless another one with a mark has it."""
    try:
        target.hardlink_to(draft)
    except OSError:  # another one has it, or the file system has no hard links
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if not read_mark(target.parent, target.name):
                draft.replace(target)
        finally:
            os.close(folder)
