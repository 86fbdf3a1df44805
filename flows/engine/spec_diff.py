"""What changed from one version of a flow to another: which steps came, went or say something else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.engine.spec import FlowSpec

ADDED, REMOVED, CHANGED = "added", "removed", "changed"


@dataclass(frozen=True)
class StepChange:
    """One step that differs. `keys` are those that differ, for a step that both have."""

    name: str
    kind: str
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class Difference:
    """All that differs. `flow_keys` are those of the flow itself."""

    steps: Sequence[StepChange]
    flow_keys: Sequence[str]

    @property
    def kinds(self) -> Mapping[str, str]:
        """How each step that differs differs."""
        return {step.name: step.kind for step in self.steps}


def compare(before: FlowSpec, after: FlowSpec) -> Difference:
    """Compare two specs. A step under another name is another step."""
    old = {step.name: step for step in before.steps}
    new = {step.name: step for step in after.steps}
    changes = [StepChange(name, ADDED) for name in new if name not in old]
    changes += [StepChange(name, REMOVED) for name in old if name not in new]
    for name, step in new.items():
        if name in old and old[name] != step:
            fields = type(step).model_fields
            keys = [key for key in fields if getattr(step, key) != getattr(old[name], key)]
            changes.append(StepChange(name, CHANGED, keys))
    order = {name: number for number, name in enumerate([*new, *old])}
    flow_keys = [key for key in FlowSpec.model_fields if key != "steps" and getattr(before, key) != getattr(after, key)]
    return Difference(sorted(changes, key=lambda change: order[change.name]), flow_keys)
