"""The priority of a job within its project: a number, or the name that a usual one has.

Of a project's jobs those of a higher priority are placed first, and may take the place of preemptible ones. It counts
for nothing between projects.
"""

from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt, WithJsonSchema

DEFAULT = 50
MOST = 1000
NAMES = {"train": DEFAULT, "build-preemptible": 75, "build": 100, "inference": 125}
"""The numbers of the named priorities, as Run:AI has them."""


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value not in NAMES:
        raise ValueError(f"'{value}' is no priority: write {', '.join(NAMES)}, or a number from 0 to {MOST}.")
    return NAMES[value]


def name_of(priority: int) -> str:
    """Return the name that a priority has; empty: none."""
    return next((name for name, number in NAMES.items() if number == priority), "")


Priority = Annotated[
    StrictInt,
    Field(ge=0, le=MOST),
    BeforeValidator(_number),
    WithJsonSchema(
        {"title": "Priority", "anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST}, {"enum": list(NAMES)}]}
    ),
]
