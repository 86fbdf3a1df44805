"""Lines that the platform reads from a job's log: `::nearline {json}`, one line each."""

import json
import math
import sys
import time
from os import PathLike, fspath
from pathlib import Path

from nearline.run.places import output

PREFIX = "::nearline "

Scalar = str | int | float | bool | None


def log_metric(key: str, value: float, step: int | None = None) -> None:
    """Record one point of a metric. Without `step` the platform numbers the points."""
    _emit(kind="metric", key=_name(key), value=_number(value), step=None if step is None else int(step))


def log_param(key: str, value: Scalar) -> None:
    """Record a parameter that the code chose itself."""
    _emit(kind="param", key=_name(key), value=_scalar(value))


def set_tag(key: str, value: Scalar) -> None:
    """Record a fact that later steps can read and conditions can compare."""
    _emit(kind="tag", key=_name(key), value=_scalar(value))


def checkpoint_saved(step: int) -> None:
    """Tell that a checkpoint is complete in the checkpoint folder: work up to this step is not lost any more."""
    _emit(kind="checkpoint", key="checkpoint", value=int(step))


def log_artifact(path: str | PathLike[str]) -> None:
    """Record a file or folder as a result; one outside of the output folder is copied there.

    Raises FileNotFoundError.
    """
    source = Path(fspath(path))
    if not source.exists():
        raise FileNotFoundError(f"There is no file '{source}' to record.")
    folder, artifact = output().resolve(), source.resolve()
    if not artifact.is_relative_to(folder):
        artifact = _copy(artifact, folder / artifact.name)
    inside = artifact.relative_to(folder).as_posix()
    _emit(kind="artifact", key=inside, value=inside)


def _emit(**fields: object) -> None:
    text = json.dumps({**fields, "at": time.time_ns() // 1_000_000}, default=str, allow_nan=False)
    # One write, so that the lines of several threads do not mix; flushed, so that a killed job loses none.
    sys.stdout.write(f"{PREFIX}{text}\n")
    sys.stdout.flush()


def _number(value: float) -> float | int | str:
    if isinstance(value, int):
        return int(value)
    number = float(value)  # also of NumPy and PyTorch scalars
    return number if math.isfinite(number) else str(number)


def _scalar(value: Scalar) -> Scalar:
    return _number(value) if isinstance(value, float) else value


def _name(key: str) -> str:
    if not key or not key.isprintable():
        raise ValueError(f"{key!r} cannot name what is recorded: it must be one line of text.")
    return key


def _copy(source: Path, target: Path) -> Path:
    import shutil  # noqa: PLC0415 (slow to load, and only this needs it)

    target.parent.mkdir(parents=True, exist_ok=True)
    rest = [(source, target)]  # not `copytree`, which needs a frame for each level
    while rest:
        here, there = rest.pop()
        if here.is_dir():
            there.mkdir(exist_ok=True)
            rest += [(path, there / path.name) for path in here.iterdir()]
        else:
            shutil.copy2(here, there)
    return target
