"""Folders that programs of other users may enter."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Give a folder that everybody may enter, and remove it at the end.

    Those of pytest are no place for it: each run of tests that starts closes their common parent to other users.
    """
    with tempfile.TemporaryDirectory(prefix="nearline-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
