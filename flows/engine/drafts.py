"""What can be read of a flow file that is partly wrong, so that the rest of it is checked all the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from flows.engine.problems import Path
from flows.engine.spec import (
    DATASET,
    SIZE_KEYS,
    TEMPLATE,
    VARIABLE,
    FlowSpec,
    ParameterSpec,
    StepSpec,
    template_entries,
)

# Stands in for what a step must have and lacks; that it lacks it is told elsewhere.
_PLACEHOLDERS = {"name": "unnamed", "command": "missing"}

Named = Sequence[tuple[Path, str]]


@dataclass(frozen=True)
class Draft:
    """One step as it was written (`raw`), and as much of it as is right (`read`)."""

    path: Path
    raw: Mapping[str, object]
    read: StepSpec

    @property
    def name(self) -> str:
        """What the step is called, be it legal or not; empty where that cannot be told."""
        name = self.raw.get("name")
        return name if isinstance(name, str) else ""

    @property
    def parents(self) -> list[str] | None:
        """The names under `after`; None when it is no list."""
        after = self.raw.get("after", [])
        return [item for item in after if isinstance(item, str)] if isinstance(after, list) else None

    def keys_of(self, key: str) -> list[str]:
        """Return the keys of a mapping in the step, also those whose values are wrong."""
        section = self.raw.get(key)
        return [str(name) for name in section] if isinstance(section, dict) else []


@dataclass(frozen=True)
class Needs:
    """What one step asks for by names that only the platform knows, each with its place. Impossible names are left out.

    `takes_default`: it names no template, and no size of its own. `reads_steps`: it reads what other steps left.
    `early`: where it says that it starts early. `placing` is what it asks of GPUs and nodes. `spec` is what is right of
    it.
    """

    path: Path
    step: str
    spec: StepSpec
    templates: Named
    datasets: Named
    secrets: Named
    takes_default: bool
    reads_steps: bool
    has_image: bool
    replicas: int = 1
    ports: Sequence[int] = ()
    volumes: Sequence[str] = ()
    placing: Mapping[str, object] = field(default_factory=dict)
    grace_period_s: float = 0.0
    keeps_checkpoints: bool = False
    early: Sequence[Path] = ()


def read_steps(data: Mapping[str, object], spec: FlowSpec | None) -> list[Draft]:
    """Return every step that is a mapping, whatever is wrong inside it. `spec` is the flow where nothing is."""
    steps = data.get("steps")
    if spec is not None and isinstance(steps, list):
        return [Draft(("steps", index), raw, spec.steps[index]) for index, raw in enumerate(steps)]
    entries = enumerate(steps) if isinstance(steps, list) else ()
    return [Draft(("steps", index), raw, _read_step(raw)) for index, raw in entries if isinstance(raw, dict)]


def read_parameters(data: Mapping[str, object]) -> dict[str, ParameterSpec]:
    """Return the flow's parameters. One that is declared badly stands as a text: references to it are no problem."""
    raw = data.get("parameters")
    parameters = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        try:
            parameters[str(key)] = ParameterSpec.model_validate(value)
        except ValidationError:
            parameters[str(key)] = ParameterSpec(type="str", default="")
    return parameters


def needs_of(draft: Draft) -> Needs:
    """Return what a step asks of the platform."""
    raw, path = draft.raw, draft.path
    templates = _entries(template_entries(raw.get("compute")), (*path, "compute"))
    datasets = list(_entries(raw.get("data"), (*path, "data")))
    secrets = _entries(raw.get("secrets"), (*path, "secrets"))
    return Needs(
        path=path,
        step=draft.name,
        spec=draft.read,
        templates=[(place, name) for place, item in templates if TEMPLATE.fullmatch(name := _text(item, "template"))],
        datasets=[
            ((*place, "dataset"), name) for place, item in datasets if DATASET.fullmatch(name := _text(item, "dataset"))
        ],
        secrets=[(place, name) for place, name in secrets if isinstance(name, str) and VARIABLE.fullmatch(name)],
        takes_default=not raw.get("compute") and not any(key in raw for key in SIZE_KEYS),
        reads_steps=bool(draft.read.after),
        has_image=bool(draft.read.image),
        replicas=draft.read.replicas,
        ports=draft.read.ports,
        volumes=draft.read.volumes,
        placing=draft.read.placing,
        grace_period_s=draft.read.grace_period,
        keeps_checkpoints=draft.read.checkpoints,
        early=[(*place, "start") for place, item in datasets if _text(item, "start") == "early"],
    )


def _entries(items: object, path: Path) -> Iterator[tuple[Path, object]]:
    return (((*path, index), item) for index, item in enumerate(items if isinstance(items, list) else ()))


def _text(item: object, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _read_step(raw: Mapping[str, object]) -> StepSpec:
    try:
        return StepSpec.model_validate(raw)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        readable = _without(raw, [detail["loc"] for detail in details])
    return StepSpec.model_validate({**_PLACEHOLDERS, **readable})


def _without(raw: Mapping[str, object], places: Sequence[tuple[int | str, ...]]) -> dict[str, object]:
    """Leave out what is wrong: one entry of a mapping, or else the whole key."""
    remaining = dict(raw)
    for place in places:
        key = str(place[0])
        entries = remaining.get(key)
        if isinstance(entries, dict) and len(place) > 1 and isinstance(place[1], str):
            remaining[key] = {name: entry for name, entry in entries.items() if name != place[1]}
        else:
            remaining.pop(key, None)
    return remaining
