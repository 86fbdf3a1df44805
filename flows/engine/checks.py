"""Everything that can be said about a flow file without asking anybody else: all problems at once, each with its line.

What needs the platform's knowledge (templates, datasets, secrets) is handed on as `needs`; `services.flows` adds it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from core import bounds, globs
from core.units import in_numbers
from flows.engine import cnvrg_keys, expressions, flow_file, grids
from flows.engine.flow_file import Draft, Needs
from flows.engine.names import variable_name
from flows.engine.problems import Finding, Path, Problem, suggest
from flows.engine.spec import (
    MAX_INSTANCES,
    MAX_TITLE,
    DataInput,
    FlowSpec,
    GridRange,
    ParameterSpec,
    Retries,
    StepSpec,
    TemplateChoice,
    Topology,
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
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}.",
    "greater_than": "must be more than {gt}.",
    "less_than_equal": "must be at most {le}.",
    "too_long": "must have at most {max_length} entries.",
}
_LEAST_GPU = 0.001
# More are of no use to anyone, and each costs time: what has so many was not written by hand.
_MOST_FINDINGS = 1000
# To find each takes a millisecond.
_MOST_HINTS = 100
# What pydantic calls the members of the union `Value`.
_VALUE_TYPES = {"bool", "int", "float", "str"}
_MODELS: Mapping[str, type[BaseModel]] = {
    "parameters": ParameterSpec,
    "data": DataInput,
    "compute": TemplateChoice,
    "retries": Retries,
    "grid": GridRange,
    "topology": Topology,
}


@dataclass(frozen=True)
class Checked:
    """What a flow file says, and all that is to be said about it (`remarks`), in the order of the lines.

    `needs` are of every step that can be read at all, so they can be asked about however broken the file is.
    """

    read: FlowSpec | None
    remarks: tuple[Problem, ...]
    document: flow_file.Document
    needs: Sequence[Needs] = ()
    translation: cnvrg_keys.Translation | None = None

    @property
    def spec(self) -> FlowSpec | None:
        """The flow; None while there are problems."""
        return None if self.problems else self.read

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is to be mended."""
        return tuple(item for item in self.remarks if not item.is_note)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What hinders nothing."""
        return tuple(item for item in self.remarks if item.is_note)

    def with_findings(self, findings: Iterable[Finding]) -> "Checked":
        """Add what was found about the spec, each with its line in the file; what is known is not told again."""
        origin_of = self.translation.origin_of if self.translation else lambda path: path
        located = (self.document.locate(replace(item, path=origin_of(item.path))) for item in _with_hints(findings))
        return replace(self, remarks=tuple(sorted({*self.remarks, *located}, key=_order)))


def _with_hints(findings: Iterable[Finding]) -> Iterator[Finding]:
    hints = 0
    for item in findings:
        if item.mistaken and hints < _MOST_HINTS:
            hints += 1
            yield replace(item, message=item.message + suggest(*item.mistaken))
        else:
            yield item


def check(text: str, file_format: str, *, project: str = "") -> Checked:
    """Read and check a flow file. `project` completes dataset names of cnvrg files that name none."""
    document = flow_file.read(text, file_format)
    if document.data is None or not isinstance(document.data, dict):
        no_mapping = Problem(1, 1, "", "wrong_type", "A flow file is a mapping with `flow:` and `steps:`.")
        return Checked(None, tuple(document.problems or [no_mapping]), document)
    translation = cnvrg_keys.translate(document.data, project) if document.is_cnvrg else None
    data = translation.data if translation else document.data
    spec, errors = _validate(data)
    steps = flow_file.read_steps(data, spec)
    for step in steps:
        origin = translation.origin_of(step.path) if translation else step.path
        document.steps[origin] = step.name
    findings = [*_translate_errors(errors, data), *_findings(data, steps)]
    problems = [*document.problems, *(document.locate(item) for item in (translation.findings if translation else ()))]
    needs = [flow_file.needs_of(step) for step in steps]
    return Checked(spec, tuple(problems), document, needs, translation).with_findings(findings)


def _order(problem: Problem) -> tuple[int, int, str, str]:
    return problem.line or 0, problem.column or 0, problem.path, problem.message


def _validate(data: Mapping[str, object]) -> tuple[FlowSpec | None, Sequence[ErrorDetails]]:
    try:
        return FlowSpec.model_validate(data), ()
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)[:_MOST_FINDINGS]


def _findings(data: Mapping[str, object], steps: Sequence[Draft]) -> Iterator[Finding]:
    parameters = flow_file.read_parameters(data)
    titles = [((), data.get("title")), *((step.path, step.read.title) for step in steps)]
    others = chain(
        _check_titles(titles),
        _check_images(steps),
        _check_graph(steps),
        _check_parameters(parameters),
        _check_steps(steps, parameters),
    )
    return islice(others, _MOST_FINDINGS)


# --- what pydantic found, in our words


def _translate_errors(errors: Sequence[ErrorDetails], data: object) -> Iterator[Finding]:
    located = [(error, _document_path(error, data)) for error in errors]
    paths = Counter(path for _, path in located)
    seen: set[Path] = set()
    for error, path in located:
        # An entry that is wrong in itself also leaves its list too short.
        is_echo = error["type"] == "too_short" and any(other[: len(path)] == path and other != path for other in paths)
        if is_echo or path in seen:
            continue
        seen.add(path)
        if str(error["loc"][-1]) in _VALUE_TYPES:
            yield Finding(path, "wrong_type", f"{_subject(path)} must be a number, a text, true or false.")
        else:
            is_unknown = error["type"] == "extra_forbidden"
            mistaken = (str(path[-1]), list(_keys_around(path))) if is_unknown else None
            yield Finding(path, *_sentence(error, path), mistaken=mistaken)


def _sentence(error: ErrorDetails, path: Path) -> tuple[str, str]:
    kind = error["type"]
    if kind == "missing":
        return "missing_key", f"The key '{path[-1]}' is missing."
    if kind == "extra_forbidden":
        return "unknown_key", f"There is no key '{path[-1]}' here."
    if kind == "value_error":
        return "wrong_value", str(error["ctx"]["error"])
    if kind == "literal_error":
        return "wrong_value", f"{_subject(path)} must be {error['ctx']['expected']}."
    if kind in _BOUNDS:
        return "wrong_value", f"{_subject(path)} {_BOUNDS[kind].format(**in_numbers(error['ctx']))}"
    return "wrong_type", f"{_subject(path)} {_must_be(error, path)}"


def _must_be(error: ErrorDetails, path: Path) -> str:
    if error["type"] == "model_type":
        for name, key in _keys_around((*path, "")).items():
            if key.is_required():
                return f"must be a mapping such as {{{name}: ...}}."
    return _SENTENCES.get(error["type"], error["msg"])


def _subject(path: Path) -> str:
    return f"'{path[-1]}'" if path and isinstance(path[-1], str) else "This entry"


def _keys_around(path: Path) -> Mapping[str, FieldInfo]:
    """Return the keys of the mapping in which a path lies."""
    names = [part for part in path[:-1] if isinstance(part, str)]
    if not names:
        return FlowSpec.model_fields
    return next((_MODELS[name] for name in reversed(names) if name in _MODELS), StepSpec).model_fields


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


def _check_graph(steps: Sequence[Draft]) -> Iterator[Finding]:
    """Check names and arrows of everything that has a name, however broken the rest of it is."""
    places: dict[str, Path] = {}
    safe: dict[str, str] = {}
    for step in steps:
        if not step.name:
            continue
        if step.name in places:
            yield Finding((*step.path, "name"), "duplicate_name", f"Two steps are called '{step.name}'.")
        elif variable_name(step.name) in safe:
            other = safe[variable_name(step.name)]
            message = f"'{step.name}' and '{other}' would have the same variables; rename one of them."
            yield Finding((*step.path, "name"), "duplicate_name", message)
        places.setdefault(step.name, step.path)
        safe.setdefault(variable_name(step.name), step.name)
    yield from _check_arrows(steps, places)


def _check_arrows(steps: Sequence[Draft], places: Mapping[str, Path]) -> Iterator[Finding]:
    arrows: list[tuple[str, str]] = []
    names = list(places)
    for step in steps:
        parents = step.parents or []
        for position, parent in enumerate(parents):
            if parent not in places:
                place = (*step.path, "after", position)
                message = f"There is no step '{parent}'."
                yield Finding(place, "unknown_parent", message, mistaken=(parent, names))
            elif step.name:
                arrows.append((parent, step.name))
        for parent in sorted(parent for parent, count in Counter(parents).items() if count > 1):
            yield Finding((*step.path, "after"), "duplicate_parent", f"'{parent}' is named twice.")
    yield from _check_cycles(arrows, places)


def _check_cycles(arrows: Sequence[tuple[str, str]], places: Mapping[str, Path]) -> Iterator[Finding]:
    import networkx as nx  # noqa: PLC0415 (slow to import, and only validation needs it)

    graph: nx.DiGraph[str] = nx.DiGraph()  # type: ignore[explicit-any]  # that is how networkx is typed
    graph.add_edges_from(arrows)
    for members in nx.strongly_connected_components(graph):
        start = min(members, key=lambda name: places[name])
        if len(members) == 1 and not graph.has_edge(start, start):
            continue
        circle = nx.find_cycle(graph.subgraph(members), start)
        names = [edge[0] for edge in circle] + [circle[0][0]]
        yield Finding((*places[names[0]], "after"), "cycle", f"These steps wait for each other: {' -> '.join(names)}.")


# --- parameters and what refers to them


def _check_titles(titles: Iterable[tuple[Path, object]]) -> Iterator[Finding]:
    for path, title in titles:
        if isinstance(title, str) and len(title) > MAX_TITLE:
            text = f"A title has at most {MAX_TITLE} characters; this one has {len(title)}."
            yield Finding((*path, "title"), "too_long", text)
        elif isinstance(title, str) and (fault := bounds.line_fault(title)):
            yield Finding((*path, "title"), "wrong_value", f"A title is one line. {fault}")


def _check_images(steps: Iterable[Draft]) -> Iterator[Finding]:
    for step in steps:
        if fault := bounds.line_fault(step.read.image):
            yield Finding((*step.path, "image"), "wrong_value", f"An image is a name. {fault}")


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


def _check_steps(steps: Sequence[Draft], parameters: Mapping[str, ParameterSpec]) -> Iterator[Finding]:
    by_name = {step.name: step.read for step in steps}
    total = 0
    for step in steps:
        yield from _check_references(step, parameters)
        yield from _check_condition(step, by_name, parameters)
        yield from _check_grid((*step.path, "grid"), step.read)
        yield from _check_waits(step)
        yield from _check_size(step.path, step.read)
        yield from _check_parts(step.path, step.read)
        folders = Counter(item.folder for item in step.read.data)
        for position, item in enumerate(step.read.data):
            if folders[item.folder] > 1:
                text = f"Two datasets would be read at the folder '{item.folder}'; give one of them another name."
                yield Finding((*step.path, "data", position), "duplicate_name", text)
                break
        yield from _check_outputs((*step.path, "outputs"), step.read.outputs)
        total += grids.count(step.read)
    if total > MAX_INSTANCES:
        text = f"The grids multiply into {total} tries; at most {MAX_INSTANCES} are allowed."
        yield Finding(("steps",), "too_many", text)


def _check_waits(step: Draft) -> Iterator[Finding]:
    if step.read.fallback == "order":
        return
    for position, choice in enumerate(step.read.compute):
        if choice.wait is not None:
            text = (
                f"With `fallback: {step.read.fallback}` forecasts decide how long the step waits; remove this `wait`."
            )
            yield Finding((*step.path, "compute", position, "wait"), "wrong_value", text)


def _check_size(path: Path, step: StepSpec) -> Iterator[Finding]:
    keys = step.size_keys
    if keys and step.compute:
        text = f"A template says the size and the resource already: name either `compute`, or `{'`, `'.join(keys)}`."
        yield Finding((*path, keys[0]), "wrong_value", text)
    if step.gpus is not None and step.gpus > 1 and step.gpus % 1:
        yield Finding((*path, "gpus"), "wrong_value", "More than one GPU must be whole ones.")
    if step.gpus is not None and 0 < step.gpus < _LEAST_GPU:
        yield Finding((*path, "gpus"), "wrong_value", f"A part of a GPU is {_LEAST_GPU} at least.")
    if step.memory == 0:
        yield Finding((*path, "memory"), "wrong_value", "A step needs some memory.")
    if len(set(step.pools)) < len(step.pools):
        yield Finding((*path, "pools"), "wrong_value", "A pool is named twice.")
    elif step.resource and len(step.pools) > 1:
        text = "A step that names its resource is in one pool of that: name one at most."
        yield Finding((*path, "pools"), "wrong_value", text)


def _check_parts(path: Path, step: StepSpec) -> Iterator[Finding]:
    if step.completions > 1 and step.grid:
        text = "A grid runs once for each of its combinations: remove `completions`, or make an axis of the grid of it."
        yield Finding((*path, "completions"), "wrong_value", text)
    if step.completions > 1 and step.replicas > 1:
        yield Finding((*path, "completions"), "wrong_value", "A step with completions has no replicas.")
    if step.completions > 1 and step.launcher is not None:
        yield Finding((*path, "launcher"), "wrong_value", "A step with completions has no launcher.")
    if step.parallelism is not None and step.parallelism > 1 and not step.is_fan:
        text = "Parallelism needs completions: how many parts are to succeed; or a grid, whose tries it limits."
        yield Finding((*path, "parallelism"), "wrong_value", text)


def _check_outputs(path: Path, patterns: Sequence[str]) -> Iterator[Finding]:
    for position, pattern in enumerate(patterns):
        if len(pattern) > globs.LONGEST:
            text = f"A pattern has at most {globs.LONGEST} characters; this one has {len(pattern)}."
            yield Finding((*path, position), "too_long", text)
    if sum(map(len, patterns)) > globs.LONGEST_TOGETHER:
        yield Finding(path, "too_long", f"The patterns have more than {globs.LONGEST_TOGETHER} characters together.")
    elif sum(map(len, filter(globs.has_wildcards, patterns))) > globs.LONGEST_WITH_WILDCARDS:
        most = globs.LONGEST_WITH_WILDCARDS
        yield Finding(path, "too_long", f"The patterns with wildcards have more than {most} characters together.")


def _check_references(step: Draft, parameters: Mapping[str, ParameterSpec]) -> Iterator[Finding]:
    path, read = step.path, step.read
    own = {*step.keys_of("parameters"), *step.keys_of("grid")}
    inside: Sequence[Collection[str]] = (parameters, own)
    texts = [((*path, "command"), read.command, inside)]
    texts += [((*path, "env", key), value, inside) for key, value in read.env.items()]
    texts += [
        ((*path, "parameters", key), value, (parameters,))
        for key, value in read.parameters.items()
        if isinstance(value, str)
    ]
    for place, text, known in texts:
        try:
            found_references = list(expressions.names_in(text))
        except InvalidExpression as error:
            yield Finding(place, "bad_reference", error.message)
            continue
        for scope, name in found_references:
            if scope == "parameters" and not any(name in names for names in known):
                message = f"There is no parameter '{name}'."
                yield Finding(place, "unknown_parameter", message, mistaken=(name, [*chain(*known)]))
            elif scope != "parameters" and place[-2] == "parameters":
                yield Finding(place, "bad_reference", "A step's parameters can refer to parameters of the flow only.")


def _check_condition(
    step: Draft, by_name: Mapping[str, StepSpec], parameters: Mapping[str, ParameterSpec]
) -> Iterator[Finding]:
    if not step.read.when:
        return
    path, parents = (*step.path, "when"), None if step.parents is None else dict.fromkeys(step.parents)
    try:
        condition = expressions.parse(step.read.when)
    except InvalidExpression as error:
        yield Finding(path, "bad_condition", error.message)
        return
    for reference in expressions.references(condition):
        if reference.step == expressions.PARAMETERS:
            if reference.metric not in parameters:
                message = f"There is no parameter '{reference.metric}'."
                yield Finding(path, "unknown_parameter", message, mistaken=(reference.metric, list(parameters)))
        elif parents is not None and reference.step not in parents:
            text = f"'{reference.step}' is not a parent of '{step.name}'; name it under `after`."
            yield Finding(path, "bad_condition", text, mistaken=(reference.step, list(parents)))
        elif not reference.fold and reference.step in by_name and by_name[reference.step].is_fan:
            tries = grids.count(by_name[reference.step])
            is_grid = bool(by_name[reference.step].grid)
            what = f"is a grid of {tries}" if is_grid else f"has {tries} parts"
            text = f"'{reference.step}' {what}; write max({reference}) or min({reference})."
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
