"""Which step of a run a name means."""

import re

from nearline.errors import InvalidRequest, NotFound
from nearline.models import Run, Step

_TRY = re.compile(r"(.+?)\[(\d+)\]")
_MOST_NAMED = 10


def parse_step(name: str) -> tuple[str, int | None]:
    """Return the key of a step and the index of one of its tries: those of `train[1]`; None: all of them."""
    match = _TRY.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def find_labelled(run: Run, name: str) -> Step | None:
    """Return the step that is called so where runs are shown: `train`, `train C=10`, `train-3`; None for several."""
    steps = [step for step in run.steps if step.label == name]
    return steps[0] if len(steps) == 1 else None


def find_step(run: Run, name: str, *, prefix: str = "") -> Step:
    """Return the one step that a name means: as runs show it, or by its index, as `train[1]`.

    `prefix` is written before names in hints. Raises NotFound, and InvalidRequest for a step with several tries.
    """
    key, index = parse_step(name)
    steps = [step for step in run.steps if step.label == name] or [
        step for step in run.steps if step.key == key and index in {None, step.index}
    ]
    if not steps:
        known = _join([step.label for step in run.steps])
        raise NotFound(
            f"Run {run.id} has no step '{name}'.", code="flows.step_not_found", hint=f"Its steps are: {known}."
        )
    if len(steps) > 1:
        # Long values are cut in labels, so these may be the same.
        are_labels = len({step.label for step in steps}) == len(steps)
        known = _join([f"'{prefix}{step.label if are_labels else f'{step.key}[{step.index}]'}'" for step in steps])
        raise InvalidRequest(f"'{name}' has {len(steps)} tries; it must be one of them.", hint=f"Name one: {known}.")
    return steps[0]


def _join(names: list[str]) -> str:
    others = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {others:,} more" if others > 0 else "")
