"""The folder for what a run needs on the platform's host besides its jobs' own folders."""

from functools import lru_cache
from pathlib import Path

from django.conf import settings


def run_folder(run_id: str) -> Path:
    """Return the folder of a run, which may not exist yet."""
    return _folder_in(settings.NEARLINE.home, run_id)


@lru_cache(maxsize=64)
def _folder_in(home: Path, run_id: str) -> Path:
    return Path(home, "runs", run_id).absolute()


def list_run_folders() -> list[Path]:
    """Return the folders of all runs that have one."""
    runs = run_folder("any").parent
    return sorted(runs.iterdir()) if runs.is_dir() else []
