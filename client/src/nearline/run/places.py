"""Where a job finds what it was given, and where it puts what it makes."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearline.reading.commit_files import CommitFiles

_EARLY = "NEARLINE_EARLY_DATA"


def parameters() -> dict[str, Any]:
    """Return the step's parameters; none outside of a job."""
    given = os.environ.get("NEARLINE_PARAMETERS", "").strip()
    if not given:
        return {}
    values: dict[str, Any] = json.loads(given if given.startswith("{") else Path(given).read_text(encoding="utf-8"))
    return values


def data(name: str) -> Path:
    """Return the folder of a dataset that the step asked for. Raises FileNotFoundError.

    In a job that reads it early, wait until all files are there; raises Failed where they could not be brought.
    """
    folder = _data_folder(name)
    if name in json.loads(os.environ.get(_EARLY) or "{}").get("tokens", {}):
        from nearline.resources.early_data import EarlyData  # noqa: PLC0415 (few jobs start early)

        EarlyData(name, folder).wait()
    return folder


def open_data(name: str) -> "CommitFiles":
    """Open a dataset that the job reads early (`start: early`), as `client.datasets.open_commit` opens a commit.

    What is there is read from the job's folder, the rest from the store. Raises FileNotFoundError, and InvalidRequest
    in a job that does not read it early.
    """
    from nearline.resources.early_data import EarlyData, EarlyFiles  # noqa: PLC0415 (few jobs start early)

    return EarlyFiles(EarlyData(name, _data_folder(name)))


def input(step: str) -> Path:  # noqa: A001 (the word of the product)
    """Return the folder with the outputs of an earlier step. Raises FileNotFoundError."""
    return _child("NEARLINE_INPUT", "/input", step, "input from a step")


def output() -> Path:
    """Return the folder whose content is kept; made when it is missing. Outside of a job: `output` here."""
    folder = Path(os.environ.get("NEARLINE_OUTPUT") or "output")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def checkpoints() -> Path:
    """Return the folder that outlives the runs of this job; made when it is missing.

    Outside of a job, and in one that keeps no checkpoints: `checkpoints` here.
    """
    folder = Path(os.environ.get("NEARLINE_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _data_folder(name: str) -> Path:
    return _child("NEARLINE_DATA", "/data", name, "dataset")


def _child(variable: str, default: str, name: str, what: str) -> Path:
    base = Path(os.environ.get(variable) or default)
    path = base / name
    if not path.exists():
        there = sorted(entry.name for entry in base.iterdir()) if base.is_dir() else []
        has = f"This job has no {what} '{name}'. It has: {', '.join(there) or 'none'}."
        elsewhere = "" if base.is_dir() else f" A job has them in ${variable}, which is no folder here."
        raise FileNotFoundError(has + elsewhere)
    return path
