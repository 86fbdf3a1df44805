"""Removing a folder whatever is in it, as the agents in pods do."""

from pathlib import Path

from nearline.content.removals import remove_files, remove_folder

__all__ = ["remove", "remove_files", "remove_folder"]


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, a file or a link; what is not there stays so. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)
