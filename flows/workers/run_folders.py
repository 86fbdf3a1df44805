"""The folder for what a run needs on the platform's host besides its jobs' own folders."""

from pathlib import Path

from django.conf import settings


def run_folder(run_id: str) -> Path:
    """Return the folder of a run, which may not exist yet."""
    return Path(settings.NEARLINE.home, "runs", run_id).absolute()


def list_run_folders() -> list[Path]:
    """Return the folders of all runs that have one."""
    runs = run_folder("any").parent
    return sorted(runs.iterdir()) if runs.is_dir() else []
