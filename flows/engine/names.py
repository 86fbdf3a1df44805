"""Names that follow from others: how people call steps, of jobs, and of variables that jobs see."""

import hashlib
import re
from collections.abc import Iterable, Mapping

from flows.engine.expressions import Value, value_text

EXPERIMENT_KIND = "attempt"
"""The kind of source that attempts are to experiments."""

_LONGEST_KEY = 30
_LONGEST_VALUE = 60
LONGEST_LABEL = 200
"""A label that would be longer is cut."""

MAX_VARIABLES = 2000
"""A job with more variables than this could not be started by every kernel; those beyond are left out."""


def step_label(key: str, parameters: Mapping[str, Value], grid: Iterable[str], part: int | None = None) -> str:
    """Return what people call an instance of a step: its name and its values of the grid, `train C=10`.

    One of several parts is called by its index, as a part of a job is: `train-3`.
    """
    if part is not None:
        return f"{key}-{part}"
    values = ((axis, value_text(parameters[axis])) for axis in grid if axis in parameters)
    return _cut(" ".join([key, *(f"{axis}={_cut(text, _LONGEST_VALUE)}" for axis, text in values)]), LONGEST_LABEL)


def run_label(flow: str, number: int) -> str:
    """Return what people call a run: `digits #7`."""
    return f"{flow} #{number}"


def attempt_label(flow: str, number: int, step: str, attempt: int = 1) -> str:
    """Return what people call the job of a step, and what it recorded: `digits #7 · train C=10`.

    `step` is the step's own label. Only a later attempt is numbered.
    """
    again = f" (attempt {attempt})" if attempt > 1 else ""
    return f"{run_label(flow, number)} · {step}{again}"


def job_name(run_id: str, key: str, index: int, number: int) -> str:
    """Return the one name of an attempt's job, fit for a folder and for Kubernetes (63 characters)."""
    return f"{safe_name(run_id)}-{safe_name(key)}-{index}-{number}"


def safe_name(text: str) -> str:
    """Return lower-case letters, digits and dashes; a long name ends in a piece of its hash to stay its own."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(name) <= _LONGEST_KEY:
        return name
    return f"{name[: _LONGEST_KEY - 7]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def variable_name(text: str) -> str:
    """Return a piece of a variable's name: upper case, everything else an underscore."""
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")


def result_variables(key: str, tries: Mapping[int, Mapping[str, Value]], *, is_fan: bool) -> dict[str, str]:
    """Return what a step's children learn of it: `NEARLINE_TRAIN_ACCURACY` and cnvrg's `CNVRG_TRAIN_ACCURACY`.

    The tries of a grid, and parts, have their index in the name: `NEARLINE_TRAIN_0_ACCURACY`.
    """
    variables: dict[str, str] = {}
    for index, measured in sorted(tries.items()):
        stem = f"{variable_name(key)}_{index}" if is_fan else variable_name(key)
        for name, value in sorted(measured.items()):
            for prefix in ("NEARLINE", "CNVRG"):
                variables[f"{prefix}_{stem}_{variable_name(name)}"] = value_text(value)
    return variables


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
