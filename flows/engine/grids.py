"""From a spec and the values of one run to the steps that will run: grids multiplied, parameters filled in."""

import itertools
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core import bounds, units
from flows.engine import expressions
from flows.engine.expressions import Value
from flows.engine.problems import suggest
from flows.engine.spec import FlowSpec, GridRange, ParameterSpec, StepSpec
from flows.errors import InvalidParameters

MAX_RUN_BYTES = 64_000_000
"""The most characters of parameters of all instances of one run: each is stored with its own."""


@dataclass(frozen=True)
class Instance:
    """One of the tries of a step's grid, or of its parts (a plain step has one, with index 0)."""

    key: str
    index: int
    parameters: Mapping[str, Value]


def expand(spec: FlowSpec, parameters: Mapping[str, Value]) -> list[Instance]:
    """Return every instance of every step in the order of the file. `parameters` are those of the run, complete."""
    return [
        Instance(step.name, index, chosen)
        for step in spec.steps
        for index, chosen in enumerate(_multiply(step, parameters))
    ]


def require_size(instances: Iterable[Instance]) -> None:
    """Raise InvalidParameters when the instances of a run hold more bytes of parameters than is stored of one run."""
    size_bytes = 0
    for instance in instances:
        size_bytes += sum(len(key) + len(str(value)) for key, value in instance.parameters.items())
        if size_bytes > MAX_RUN_BYTES:
            raise InvalidParameters(
                f"The parameters of all tries of this run are more than {units.format_bytes(MAX_RUN_BYTES)} together."
                " Put long values into a dataset or into the code."
            )


def require_arguments(spec: FlowSpec, instances: Iterable[Instance]) -> None:
    """Raise InvalidParameters when a command or variable of an instance is longer than a program can be given."""
    most_bytes = bounds.MAX_ARGUMENT_BYTES
    steps = {step.name: step for step in spec.steps}
    run: Mapping[str, Value] = {"id": "run_" + 20 * "0", "number": bounds.MAX_COUNT}  # as long as any
    for instance in instances:
        step = steps[instance.key]
        values: dict[str, Mapping[str, Value]] = {
            "parameters": instance.parameters,
            "run": run,
            "step": {"name": step.name, "index": instance.index},
        }
        options_bytes = sum(map(_option_bytes, instance.parameters.items())) if step.append_parameters else 0
        if expressions.is_longer(step.command, most_bytes - options_bytes, values, shlex.quote):
            raise _too_long("command", step.name)
        for name, text in step.env.items():
            if expressions.is_longer(f"{name}={text}", most_bytes, values):
                raise _too_long(f"variable {name}", step.name)


def _option_bytes(parameter: tuple[str, Value]) -> int:
    key, value = parameter
    return len(f" --{key} {shlex.quote(expressions.value_text(value))}".encode())


def _too_long(what: str, step: str) -> InvalidParameters:
    return InvalidParameters(
        f"With its parameters the {what} of step '{step}' has more than {bounds.MAX_ARGUMENT_BYTES:,} bytes, which no"
        " program can be given. Put long values into a dataset or into the code."
    )


def count(step: StepSpec) -> int:
    """Return how many instances a step's grid and completions multiply into."""
    return step.completions * math.prod(
        axis.steps if isinstance(axis, GridRange) else len(axis) for axis in step.grid.values()
    )


def _multiply(step: StepSpec, parameters: Mapping[str, Value]) -> Sequence[Mapping[str, Value]]:
    own = {key: expressions.fill_value(value, {"parameters": parameters}) for key, value in step.parameters.items()}
    axes = {key: points(axis) if isinstance(axis, GridRange) else axis for key, axis in step.grid.items()}
    points_of_grid = itertools.product(*axes.values())
    tries = [{**parameters, **own, **dict(zip(axes, point, strict=True))} for point in points_of_grid]
    return tries * step.completions


def points(axis: GridRange) -> tuple[Value, ...]:
    """Return the numbers of a range: `min` included, `max` excluded, whole and without repetition for integers."""
    shares = [number / axis.steps for number in range(axis.steps)]
    if axis.scale == "log":
        values = [axis.min * (axis.max / axis.min) ** share for share in shares]
    else:
        values = [axis.min + (axis.max - axis.min) * share for share in shares]
    if axis.type == "integer":
        return tuple(dict.fromkeys(math.floor(value + 1e-9) for value in values))
    return tuple(float(f"{value:.12g}") for value in values)


def complete(declared: Mapping[str, ParameterSpec], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of every parameter of a run. Raises InvalidParameters naming all that is wrong at once."""
    faults = list(find_faults(declared, given).values())
    if faults:
        raise InvalidParameters(" ".join(faults), problems=faults)
    values = {key: given.get(key, parameter.default) for key, parameter in declared.items()}
    return {key: convert(declared[key], value) for key, value in values.items() if value is not None}


def find_faults(declared: Mapping[str, ParameterSpec], given: Mapping[str, Value]) -> dict[str, str]:
    """Say by name what is wrong with the values given for a run; empty: nothing is."""
    unknown = [key for key in given if key not in declared]
    faults = {key: f"There is no parameter '{key}'.{suggest(key, list(declared))}" for key in unknown}
    for key, parameter in declared.items():
        value = given.get(key, parameter.default)
        if value is None:
            faults[key] = f"The parameter '{key}' has no default and needs a value."
            continue
        try:
            convert(parameter, value)
        except ValueError as error:
            faults[key] = f"The parameter '{key}' {error}"
    return faults


def convert(parameter: ParameterSpec, value: Value) -> Value:
    """Return a value as its declared type; texts from a command line are read. Raises ValueError ("is not ...")."""
    converted = _as_type(parameter.type, value)
    if converted is None:
        raise ValueError(f"is not {_WORDS[parameter.type]}: {value!r}.")
    allowed = [_as_type(parameter.type, choice) for choice in parameter.choices]
    if allowed and converted not in allowed:
        shown = ", ".join(expressions.value_text(choice) for choice in parameter.choices)
        raise ValueError(f"must be one of {shown}, not {expressions.value_text(converted)}.")
    return converted


_WORDS = {"float": "a number", "int": "a whole number", "str": "a text", "bool": "true or false"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _as_type(kind: str, value: Value) -> Value | None:
    if kind == "str":
        return expressions.value_text(value)
    if kind == "bool":
        return value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
    return None if isinstance(value, bool) else _as_number(kind, value)


def _as_number(kind: str, value: float | str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number) or (kind == "int" and number != int(number)):
        return None
    return int(number) if kind == "int" else number
