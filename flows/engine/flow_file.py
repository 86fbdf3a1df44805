"""Reading a flow file: its text (YAML or JSON) as plain data with the line and column of each part, and as steps.

What is wrong with one part of it keeps no other from being read. Files come from strangers: bombs (aliases that
multiply), duplicate keys, custom tags and endless nesting are refused.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import yaml
from pydantic import ValidationError
from ruamel.yaml.resolver import VersionedResolver
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from core import bounds
from flows.engine.problems import Finding, Path, Problem, path_text, shorten
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

MAX_BYTES = 2 * 2**20
# Reading YAML with the places of all its parts takes a second a MiB; longer flows are written by programs, as JSON.
MAX_YAML_BYTES = 512 * 2**10
_MAX_PARTS = 200_000
_MAX_DEPTH = 40
# The library compares each with all before it.
_MAX_TAG_DIRECTIVES = 100
# More are of no use to anyone.
_MOST_REPEATED = 1000
_TAG = "tag:yaml.org,2002:"
# libyaml reads YAML's forms, not what plain texts mean: that is YAML 1.2, where `on` and `yes` are texts.
_MEANINGS: dict[str, list[tuple[str, re.Pattern[str]]]] = VersionedResolver((1, 2)).versioned_resolver
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)

# Stands in for what a step must have and lacks; that it lacks it is told elsewhere.
_PLACEHOLDERS = {"name": "unnamed", "command": "missing"}

_Node = AliasEvent | ScalarEvent | SequenceStartEvent | MappingStartEvent
Place = tuple[int, int]
Named = Sequence[tuple[Path, str]]


@dataclass
class Document:
    """Plain data, and where each part of it was written (line and column, from 1). `steps` names the steps by place.

    `aliases` are the parts that stand for others: what is inside them was written there.
    """

    data: object
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    steps: dict[Path, str] = field(default_factory=dict)
    aliases: dict[Path, Path] = field(default_factory=dict)

    @property
    def is_cnvrg(self) -> bool:
        """Whether it speaks cnvrg's language."""
        return isinstance(self.data, dict) and "tasks" in self.data and "steps" not in self.data

    def locate(self, finding: Finding) -> Problem:
        """Give a finding the line of its part, or of the nearest part around it that was written."""
        path = self._origin_of(finding.path)
        while path and path not in self.places:
            path = path[:-1]
        line, column = self.places.get(path, (None, None))
        step = self.steps.get(finding.path[:2], "")
        message = shorten(finding.message)
        return Problem(line, column, path_text(finding.path), finding.code, message, finding.is_note, step)

    def _origin_of(self, path: Path) -> Path:
        for length in range(1, len(path)):
            if origin := self.aliases.get(path[:length]):
                return self._origin_of((*origin, *path[length:]))
        return path


def read(text: str, file_format: str) -> Document:
    """Read a flow file. `file_format` is `yaml` or `json`."""
    most = MAX_BYTES if file_format == "json" else MAX_YAML_BYTES
    if len(text.encode(errors="surrogatepass")) > most:
        return _unreadable(f"The file is larger than {most // 2**10} KiB.")
    return _read_json(text) if file_format == "json" else _read_yaml(text)


def _read_json(text: str) -> Document:
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated.extend(sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1))
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=collect)
    except json.JSONDecodeError as error:
        return _unreadable(f"This is not JSON: {error.msg}.", (error.lineno, error.colno))
    except ValueError:
        return _unreadable("This is not JSON: a number has too many digits.")
    except RecursionError:
        return _unreadable("The file is nested too deeply.")
    if fault := bounds.value_fault(data):
        return _unreadable(" ".join(filter(None, (f"'{fault[0]}' cannot be taken.", fault[1]))))
    document = Document(data)
    document.problems = [
        Problem(
            None, None, path_text((key,)), "duplicate_key", shorten(f"The key '{key}' is written twice in one place.")
        )
        for key in repeated[:_MOST_REPEATED]
    ]
    return document


def _read_yaml(text: str) -> Document:
    reader = _Reader(text)
    try:
        return reader.read()
    except _Refused as error:
        return _unreadable(str(error), error.place, reader.path)
    except MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part).replace(" in this context", " here")
        hint = " A text that holds ': ' needs quotes around it." if "mapping values" in what else ""
        mark = error.problem_mark
        if mark is None:
            return _unreadable(f"This is not YAML: {what}.{hint}")
        what = what.replace("found character that", f"found character {text[mark.index : mark.index + 1]!r} that")
        # What is missing at the end is found a line behind it.
        place = min((mark.line + 1, mark.column + 1), _end_of(text))
        return _unreadable(f"This is not YAML: {what}.{hint}", place)


def _unreadable(message: str, place: Place | tuple[None, None] = (None, None), path: Path = ()) -> Document:
    line, column = place
    return Document(None, problems=[Problem(line, column, path_text(path), "unreadable", message)])


class _Refused(Exception):
    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place


def _end_of(text: str) -> Place:
    lines = _BREAK.split(text)
    return len(lines), len(lines[-1]) + 1


def _place(event: Event) -> Place:
    mark = event.start_mark
    return mark.line + 1, mark.column + 1  # type: ignore[union-attr]  # events that were parsed have marks


@dataclass(frozen=True)
class _Anchored:
    """What an anchor names: a value, where it was written, how many parts it has and how deep they are nested."""

    value: object
    path: Path
    parts: int
    height: int


class _Reader:
    """Turns the events of YAML into plain data, up to the first thing that is refused.

    An alias is the very value that its anchor names; its parts are counted again, as whoever reads the data meets them.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.path: Path = ()
        """What is being read."""
        self._document = Document(None)
        self._anchors: dict[str, _Anchored | None] = {}
        self._parts = 0
        self._deepest = 0

    def read(self) -> Document:
        self._check_characters()
        self._next: Callable[[], _Node] = yaml.parse(self._text, Loader=yaml.CBaseLoader).__next__  # type: ignore[assignment]  # or an end
        self._next()
        start = self._next()
        if isinstance(start, DocumentStartEvent):
            if start.version == (1, 1):
                raise _Refused(_place(start), "A flow file is YAML 1.2; remove '%YAML 1.1'.")
            self._document.data = self._convert(self._next(), (), 0)
            self._next()
            if isinstance(other := self._next(), DocumentStartEvent):
                message = "This is not YAML: expected a single document in the stream, but found another document."
                raise _Refused(_place(other), message)
        return self._document

    def _check_characters(self) -> None:
        tags = islice(_TAG_DIRECTIVE.finditer(self._text), _MAX_TAG_DIRECTIVES, None)
        if match := _NOT_PRINTABLE.search(self._text.removeprefix("\ufeff")):
            message = f"This is not YAML: the character U+{ord(match[0]):04X} is not allowed."
        elif match := next(tags, None):
            message = f"The file has more than {_MAX_TAG_DIRECTIVES} directives '%TAG'."
        else:
            return
        raise _Refused(_end_of(self._text[: match.start()]), message)

    def _convert(self, event: _Node, path: Path, depth: int) -> object:
        self.path = path
        self._document.places.setdefault(path, _place(event))
        if isinstance(event, AliasEvent):
            return self._repeat(event, path, depth)
        self._count(event, 1, depth)
        if event.anchor is None:
            return self._value(event, path, depth)
        self._anchors[event.anchor] = None
        parts, deepest, self._deepest = self._parts - 1, self._deepest, depth
        value = self._value(event, path, depth)
        self._anchors[event.anchor] = _Anchored(value, path, self._parts - parts, self._deepest - depth)
        self._deepest = max(deepest, self._deepest)
        return value

    def _repeat(self, alias: AliasEvent, path: Path, depth: int) -> object:
        if alias.anchor not in self._anchors:
            raise _Refused(_place(alias), f"This is not YAML: found undefined alias '{alias.anchor}'.")
        anchored = self._anchors[alias.anchor]
        if anchored is None:
            raise _Refused(_place(alias), f"'*{alias.anchor}' stands for what it is a part of.")
        self._count(alias, anchored.parts, depth + anchored.height)
        self._document.aliases[path] = anchored.path
        return anchored.value

    def _count(self, event: Event, parts: int, depth: int) -> None:
        self._parts += parts
        self._deepest = max(self._deepest, depth)
        if self._parts > _MAX_PARTS:
            raise _Refused(_place(event), f"The file has more than {_MAX_PARTS} parts once its aliases are expanded.")
        if depth > _MAX_DEPTH:
            raise _Refused(_place(event), f"The file is nested more than {_MAX_DEPTH} deep.")

    def _value(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent, path: Path, depth: int) -> object:
        if isinstance(event, ScalarEvent):
            return _scalar(event)
        if event.tag not in {None, f"{_TAG}map", f"{_TAG}seq"}:
            raise _Refused(_place(event), f"The tag {event.tag} is not allowed in a flow file.")
        return self._mapping(path, depth) if isinstance(event, MappingStartEvent) else self._sequence(path, depth)

    def _sequence(self, path: Path, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._convert(event, (*path, len(items)), depth + 1))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, object]:
        mapping: dict[str, object] = {}
        problems = self._document.problems
        while not isinstance(event := self._next(), MappingEndEvent):
            if not isinstance(event, ScalarEvent) or event.anchor:
                raise _Refused(_place(event), "A key must be plain text.")
            key = event.value
            if key == "<<":
                raise _Refused(_place(event), "Merge keys (<<) are not supported; write the keys out.")
            _check_text(event)
            if key in mapping and len(problems) < _MOST_REPEATED:
                message = shorten(f"The key '{key}' is written twice in one place.")
                problems.append(Problem(*_place(event), path_text((*path, key)), "duplicate_key", message))
            self._document.places.setdefault((*path, key), _place(event))
            value = self._convert(self._next(), (*path, key), depth + 1)
            mapping.setdefault(key, value)
        return mapping


def _check_text(event: ScalarEvent) -> None:
    if fault := bounds.text_fault(event.value):
        raise _Refused(_place(event), f"This text cannot be taken. {fault}")


def _kind_of(event: ScalarEvent) -> str:
    if event.tag not in {None, "!"}:
        return event.tag.removeprefix(_TAG)
    text, is_plain = event.value, event.implicit[0]
    meanings = _MEANINGS.get(text[:1], ()) if is_plain else ()
    return next((tag.removeprefix(_TAG) for tag, form in meanings if form.match(text)), "str")


def _scalar(event: ScalarEvent) -> object:
    kind, text = _kind_of(event), event.value
    if kind in {"str", "timestamp"}:
        _check_text(event)
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind not in {"int", "float"}:
        raise _Refused(_place(event), f"The tag {event.tag or _TAG + kind} is not allowed in a flow file.")
    try:
        number = _number(kind, text.replace("_", "").lower())
    except ValueError as error:
        raise _Refused(_place(event), "This number cannot be read.") from error
    fault = bounds.number_fault(number) if isinstance(number, int) else ""
    if fault:
        raise _Refused(_place(event), f"This number cannot be taken. {fault}")
    return number


def _number(kind: str, text: str) -> float:
    if kind == "float":
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    return int(text, 0 if text.lstrip("+-")[:2] in {"0x", "0o", "0b"} else 10)


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
    templates = _items_of(template_entries(raw.get("compute")), (*path, "compute"))
    datasets = list(_items_of(raw.get("data"), (*path, "data")))
    secrets = _items_of(raw.get("secrets"), (*path, "secrets"))
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


def _items_of(items: object, path: Path) -> Iterator[tuple[Path, object]]:
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
