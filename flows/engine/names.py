"""Names that follow from others: of jobs, so that submitting twice is harmless, and of variables that jobs see."""

import hashlib
import re
from collections.abc import Mapping

from flows.engine.expressions import Value
from flows.engine.references import value_text

_LONGEST_KEY = 30
MAX_VARIABLES = 2000
"""A job with more variables than this could not be started by every kernel; those beyond are left out."""


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


def result_variables(key: str, tries: Mapping[int, Mapping[str, Value]], *, is_grid: bool) -> dict[str, str]:
    """Return what a step's children learn of it: `NEARLINE_TRAIN_ACCURACY` and cnvrg's `CNVRG_TRAIN_ACCURACY`.

    The tries of a grid have their index in the name: `NEARLINE_TRAIN_0_ACCURACY`.
    """
    found: dict[str, str] = {}
    for index, measured in sorted(tries.items()):
        stem = f"{variable_name(key)}_{index}" if is_grid else variable_name(key)
        for name, value in sorted(measured.items()):
            for prefix in ("NEARLINE", "CNVRG"):
                found[f"{prefix}_{stem}_{variable_name(name)}"] = value_text(value)
    return found
