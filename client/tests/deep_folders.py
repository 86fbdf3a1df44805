"""Folders with more levels than Python has frames, or than a path can name."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def deep_folder(top: Path, levels: int, name: str = "d") -> Iterator[Path]:
    """Make `top` with so many folders in each other, a file `f` beside each, and remove it at the end."""
    top.mkdir(exist_ok=True)
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        yield top
    finally:
        # What removes the folders of tests goes through them by recursion.
        subprocess.run(["rm", "-rf", str(top)], check=True)
