"""Where a job finds what it was given, and where it puts what it makes."""

import json
import os
from pathlib import Path
from typing import Any


def parameters() -> dict[str, Any]:
    """Return the step's parameters; none outside of a job."""
    given = os.environ.get("NEARLINE_PARAMETERS", "").strip()
    if not given:
        return {}
    values: dict[str, Any] = json.loads(given if given.startswith("{") else Path(given).read_text(encoding="utf-8"))
    return values


def data(name: str) -> Path:
    """Return the folder of a dataset that the step asked for. Raises FileNotFoundError."""
    return _child("NEARLINE_DATA", "/data", name, "dataset")


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


def _child(variable: str, default: str, name: str, what: str) -> Path:
    base = Path(os.environ.get(variable) or default)
    path = base / name
    if not path.exists():
        there = sorted(entry.name for entry in base.iterdir()) if base.is_dir() else []
        raise FileNotFoundError(f"This job has no {what} '{name}'. It has: {', '.join(there) or 'none'}.")
    return path
