"""Everything that can be said about a flow file without asking anybody else: all problems at once, each with its line.

What needs the platform's knowledge (templates, datasets, secrets) is added by `services.flows`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from flows.engine import cnvrg_keys, expressions, flow_file, grids, references
from flows.engine.cnvrg_keys import suggest
from flows.engine.names import variable_name
from flows.engine.problems import Finding, Path, Problem
from flows.engine.spec import (
    MAX_INSTANCES,
    DataInput,
    FlowSpec,
    GridRange,
    ParameterSpec,
    Retries,
    StepSpec,
    TemplateChoice,
)
from flows.errors import InvalidExpression

_SENTENCES = {
    "string_type": "must be a text.",
    "bool_type": "must be true or false.",
    "bool_parsing": "must be true or false.",
    "int_type": "must be a whole number.",
    "int_parsing": "must be a whole number.",
    "float_type": "must be a number.",
    "float_parsing": "must be a number.",
    "finite_number": "must be a finite number.",
    "list_type": "must be a list.",
    "tuple_type": "must be a list.",
    "dict_type": "must be a mapping of keys to values.",
    "model_type": "must be a mapping of keys to values.",
    "model_attributes_type": "must be a mapping of keys to values.",
    "too_short": "must not be empty.",
    "string_too_short": "must not be empty.",
    "string_too_long": "is too long.",
}
# What pydantic calls the members of the union `Value`.
_VALUE_TYPES = {"bool", "int", "float", "str"}
_MODELS: Mapping[str, type[BaseModel]] = {
    "parameters": ParameterSpec,
    "data": DataInput,
    "compute": TemplateChoice,
    "retries": Retries,
    "grid": GridRange,
}


@dataclass(frozen=True)
class Checked:
    """What a flow file says, and what is wrong with it. `spec` is None while anything is."""

    spec: FlowSpec | None
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    document: flow_file.Document
    translation: cnvrg_keys.Translation | None = None

    def locate(self, path: Path, code: str, message: str) -> Problem:
        """Give a further finding about the spec its line in the file."""
        where = self.translation.origin_of(path) if self.translation else path
        return self.document.locate(Finding(where, code, message))


def check(text: str, file_format: str, *, project: str = "") -> Checked:
    """Read and check a flow file. `project` completes dataset names of cnvrg files that name none."""
    document = flow_file.read(text, file_format)
    if document.data is None or not isinstance(document.data, dict):
        no_mapping = Problem(1, 1, "", "wrong_type", "A flow file is a mapping with `flow:` and `steps:`.")
        return Checked(None, tuple(document.problems or [no_mapping]), (), document)
    translation = cnvrg_keys.translate(document.data, project) if cnvrg_keys.is_cnvrg(document.data) else None
    data = translation.data if translation else document.data
    spec, findings = _findings(data)
    if translation:
        findings = [
            *translation.findings,
            *(Finding(translation.origin_of(item.path), item.code, item.message, item.is_note) for item in findings),
        ]
    located = [*document.problems, *(document.locate(finding) for finding in findings)]
    problems = tuple(sorted((item for item in located if not item.is_note), key=_order))
    notes = tuple(sorted((item for item in located if item.is_note), key=_order))
    return Checked(None if problems else spec, problems, notes, document, translation)


def _order(problem: Problem) -> tuple[int, int, str]:
    return problem.line or 0, problem.column or 0, problem.message


def _findings(data: Mapping[str, object]) -> tuple[FlowSpec | None, list[Finding]]:
    findings: list[Finding] = []
    spec: FlowSpec | None = None
    try:
        spec = FlowSpec.model_validate(data)
    except ValidationError as error:
        findings.extend(_translate_errors(error.errors(), data))
    raw_steps = data.get("steps")
    outline = list(enumerate(raw_steps)) if isinstance(raw_steps, list) else []
    findings.extend(_check_graph([(index, raw) for index, raw in outline if isinstance(raw, dict)]))
    parameters = spec.parameters if spec else _readable_parameters(data.get("parameters"))
    findings.extend(_check_parameters(parameters))
    steps = [(index, step) for index, raw in outline if (step := _readable_step(raw)) is not None]
    findings.extend(_check_steps(steps, parameters))
    return spec, findings


def _readable_step(raw: object) -> StepSpec | None:
    try:
        return StepSpec.model_validate(raw)
    except ValidationError:
        return None


def _readable_parameters(raw: object) -> dict[str, ParameterSpec]:
    found = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        try:
            found[str(key)] = ParameterSpec.model_validate(value)
        except ValidationError:
            # It is declared, if badly; references to it are not a further problem.
            found[str(key)] = ParameterSpec(type="str", default="")
    return found


# --- what pydantic found, in our words


def _translate_errors(errors: Sequence[ErrorDetails], data: object) -> Iterator[Finding]:
    located = [(error, _document_path(error, data)) for error in errors]
    paths = Counter(path for _, path in located)
    seen: set[Path] = set()
    for error, path in located:
        # An entry that is wrong in itself also leaves its list too short.
        is_inside = any(other[: len(path)] == path and other != path for other in paths)
        is_echo = error["type"] == "too_short" and is_inside
        if is_echo or path in seen:
            continue
        seen.add(path)
        if str(error["loc"][-1]) in _VALUE_TYPES:
            yield Finding(path, "wrong_type", f"{_subject(path)} must be a number, a text, true or false.")
        else:
            yield Finding(path, *_sentence(error, path))


def _sentence(error: ErrorDetails, path: Path) -> tuple[str, str]:
    kind = error["type"]
    if kind == "missing":
        return "missing_key", f"The key '{path[-1]}' is missing."
    if kind == "extra_forbidden":
        return "unknown_key", f"There is no key '{path[-1]}' here.{suggest(str(path[-1]), _known_keys(path))}"
    if kind == "value_error":
        return "wrong_value", str(error["ctx"]["error"])
    if kind == "literal_error":
        return "wrong_value", f"{_subject(path)} must be {error['ctx']['expected']}."
    if kind in {"greater_than_equal", "greater_than", "less_than_equal"}:
        return "wrong_value", f"{_subject(path)}: {error['msg'].removeprefix('Input ')}."
    return "wrong_type", f"{_subject(path)} {_SENTENCES.get(kind, error['msg'])}"


def _subject(path: Path) -> str:
    return f"'{path[-1]}'" if path and isinstance(path[-1], str) else "This entry"


def _known_keys(path: Path) -> list[str]:
    names = [part for part in path[:-1] if isinstance(part, str)]
    if not names:
        return list(FlowSpec.model_fields)
    if names == ["steps"]:
        return list(StepSpec.model_fields)
    model = next((_MODELS[name] for name in reversed(names) if name in _MODELS), StepSpec)
    return list(model.model_fields)


def _document_path(error: ErrorDetails, data: object) -> Path:
    """Keep of pydantic's location what stands in the document: it also names types, which the user never wrote."""
    path: list[str | int] = []
    here = data
    location = error["loc"]
    for position, part in enumerate(location):
        is_inside_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if is_inside_list or (isinstance(here, dict) and part in here):
            here = here[part]  # type: ignore[index]  # a number inside a list
        elif not (error["type"] == "missing" and position == len(location) - 1):
            continue
        path.append(part)
    return tuple(path)


# --- the graph


def _check_graph(steps: Sequence[tuple[int, Mapping[str, object]]]) -> Iterator[Finding]:
    """Check names and arrows of everything that has a name, however broken the rest of it is."""
    places: dict[str, int] = {}
    safe: dict[str, str] = {}
    for index, step in steps:
        name = step.get("name")
        if not isinstance(name, str):
            continue
        if name in places:
            yield Finding(("steps", index, "name"), "duplicate_name", f"Two steps are called '{name}'.")
        elif variable_name(name) in safe:
            other = safe[variable_name(name)]
            message = f"'{name}' and '{other}' would have the same variables; rename one of them."
            yield Finding(("steps", index, "name"), "duplicate_name", message)
        places.setdefault(name, index)
        safe.setdefault(variable_name(name), name)
    yield from _check_arrows(steps, places)


def _check_arrows(steps: Sequence[tuple[int, Mapping[str, object]]], places: Mapping[str, int]) -> Iterator[Finding]:
    arrows: list[tuple[str, str]] = []
    for index, step in steps:
        after = step.get("after")
        parents = [item for item in after if isinstance(item, str)] if isinstance(after, list) else []
        for position, parent in enumerate(parents):
            if parent not in places:
                place: Path = ("steps", index, "after", position)
                yield Finding(place, "unknown_parent", f"There is no step '{parent}'.{suggest(parent, list(places))}")
            elif isinstance(step.get("name"), str):
                arrows.append((parent, str(step["name"])))
        for parent in sorted({parent for parent in parents if parents.count(parent) > 1}):
            yield Finding(("steps", index, "after"), "duplicate_parent", f"'{parent}' is named twice.")
    yield from _check_cycles(arrows, places)


def _check_cycles(arrows: Sequence[tuple[str, str]], places: Mapping[str, int]) -> Iterator[Finding]:
    import networkx as nx  # noqa: PLC0415 (slow to import, and only validation needs it)

    graph: nx.DiGraph[str] = nx.DiGraph()  # type: ignore[explicit-any]  # that is how networkx is typed
    graph.add_edges_from(arrows)
    for members in nx.strongly_connected_components(graph):
        start = min(members, key=lambda name: places[name])
        if len(members) == 1 and not graph.has_edge(start, start):
            continue
        circle = nx.find_cycle(graph.subgraph(members), start)
        names = [edge[0] for edge in circle] + [circle[0][0]]
        place: Path = ("steps", places[names[0]], "after")
        yield Finding(place, "cycle", f"These steps wait for each other: {' -> '.join(names)}.")


# --- parameters and what refers to them


def _check_parameters(parameters: Mapping[str, ParameterSpec]) -> Iterator[Finding]:
    for key, parameter in parameters.items():
        bare = parameter.model_copy(update={"choices": ()})
        for position, choice in enumerate(parameter.choices):
            try:
                grids.convert(bare, choice)
            except ValueError as error:
                yield Finding(("parameters", key, "choices", position), "wrong_value", f"This choice {error}")
        if parameter.default is None:
            continue
        try:
            grids.convert(parameter, parameter.default)
        except ValueError as error:
            yield Finding(("parameters", key, "default"), "wrong_value", f"The default {error}")


def _check_steps(steps: Sequence[tuple[int, StepSpec]], parameters: Mapping[str, ParameterSpec]) -> Iterator[Finding]:
    by_name = {step.name: step for _, step in steps}
    total = 0
    for index, step in steps:
        yield from _check_references(("steps", index), step, parameters)
        yield from _check_condition(("steps", index, "when"), step, by_name, parameters)
        yield from _check_grid(("steps", index, "grid"), step)
        folders = Counter(item.folder for item in step.data)
        for position, item in enumerate(step.data):
            if folders[item.folder] > 1:
                text = f"Two datasets would be read at the folder '{item.folder}'; give one of them another name."
                yield Finding(("steps", index, "data", position), "duplicate_name", text)
                break
        total += grids.count(step)
    if total > MAX_INSTANCES:
        text = f"The grids multiply into {total} tries; at most {MAX_INSTANCES} are allowed."
        yield Finding(("steps",), "too_many", text)


def _check_references(path: Path, step: StepSpec, parameters: Mapping[str, ParameterSpec]) -> Iterator[Finding]:
    inside = [*parameters, *step.parameters, *step.grid]
    texts: list[tuple[Path, str, Sequence[str]]] = [((*path, "command"), step.command, inside)]
    texts += [((*path, "env", key), value, inside) for key, value in step.env.items()]
    texts += [
        ((*path, "parameters", key), value, list(parameters))
        for key, value in step.parameters.items()
        if isinstance(value, str)
    ]
    for place, text, known in texts:
        try:
            found = list(references.find(text))
        except InvalidExpression as error:
            yield Finding(place, "bad_reference", error.message)
            continue
        for scope, name in found:
            if scope == "parameters" and name not in known:
                yield Finding(
                    place, "unknown_parameter", f"There is no parameter '{name}'.{suggest(name, list(known))}"
                )
            elif scope != "parameters" and place[-2] == "parameters":
                yield Finding(place, "bad_reference", "A step's parameters can refer to parameters of the flow only.")


def _check_condition(
    path: Path, step: StepSpec, by_name: Mapping[str, StepSpec], parameters: Mapping[str, ParameterSpec]
) -> Iterator[Finding]:
    if not step.when:
        return
    try:
        condition = expressions.parse(step.when)
    except InvalidExpression as error:
        yield Finding(path, "bad_condition", error.message)
        return
    for reference in expressions.references(condition):
        if reference.step == expressions.PARAMETERS:
            if reference.metric not in parameters:
                hint = suggest(reference.metric, list(parameters))
                yield Finding(path, "unknown_parameter", f"There is no parameter '{reference.metric}'.{hint}")
        elif reference.step not in step.after:
            text = f"'{reference.step}' is not a parent of '{step.name}'; name it under `after`."
            yield Finding(path, "bad_condition", text + suggest(reference.step, list(step.after)))
        elif not reference.fold and reference.step in by_name and by_name[reference.step].grid:
            tries = grids.count(by_name[reference.step])
            text = f"'{reference.step}' is a grid of {tries}; write max({reference}) or min({reference})."
            yield Finding(path, "bad_condition", text)


def _check_grid(path: Path, step: StepSpec) -> Iterator[Finding]:
    for key, axis in step.grid.items():
        if key in step.parameters:
            yield Finding((*path, key), "duplicate_name", f"'{key}' is both a parameter and an axis of the grid.")
        if not isinstance(axis, GridRange):
            continue
        if axis.min >= axis.max:
            yield Finding((*path, key), "wrong_value", f"'{key}': min must be less than max.")
        elif axis.scale == "log" and axis.min <= 0:
            yield Finding((*path, key), "wrong_value", f"'{key}': a logarithmic scale starts above 0.")
