"""From the text of a flow file (YAML or JSON) to plain data, remembering the line and column of every part.

Files come from strangers: bombs (aliases that multiply), duplicate keys, custom tags and endless nesting are refused.
"""

import json
from collections import Counter
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from core import bounds
from flows.engine.problems import Finding, Path, Problem, path_text

MAX_BYTES = 2 * 2**20
# Reading YAML with the places of all its parts takes some seconds a MiB; longer flows are written by programs, as JSON.
MAX_YAML_BYTES = 512 * 2**10
_MAX_PARTS = 200_000
_MAX_DEPTH = 40
_TAG = "tag:yaml.org,2002:"

Place = tuple[int, int]


@dataclass
class Document:
    """Plain data, and where each part of it was written (line and column, from 1). `steps` names the steps by place."""

    data: object
    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    steps: dict[Path, str] = field(default_factory=dict)

    def locate(self, finding: Finding) -> Problem:
        """Give a finding the line of its part, or of the nearest part around it that was written."""
        path = finding.path
        while path and path not in self.places:
            path = path[:-1]
        line, column = self.places.get(path, (None, None))
        step = self.steps.get(finding.path[:2], "")
        return Problem(line, column, path_text(finding.path), finding.code, finding.message, finding.is_note, step)


def read(text: str, file_format: str) -> Document:
    """Read a flow file. `file_format` is `yaml` or `json`."""
    most = MAX_BYTES if file_format == "json" else MAX_YAML_BYTES
    if len(text.encode(errors="surrogatepass")) > most:
        return _unreadable(None, None, f"The file is larger than {most // 2**10} KiB.")
    return _read_json(text) if file_format == "json" else _read_yaml(text)


def _read_json(text: str) -> Document:
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        repeated.extend(sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1))
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=collect)
    except json.JSONDecodeError as error:
        return _unreadable(error.lineno, error.colno, f"This is not JSON: {error.msg}.")
    except ValueError:
        return _unreadable(None, None, "This is not JSON: a number has too many digits.")
    except RecursionError:
        return _unreadable(None, None, "The file is nested too deeply.")
    if fault := bounds.value_fault(data):
        return _unreadable(None, None, " ".join(filter(None, (f"'{fault[0]}' cannot be taken.", fault[1]))))
    document = Document(data)
    document.problems = [
        Problem(None, None, key, "duplicate_key", f"The key '{key}' is written twice in one place.") for key in repeated
    ]
    return document


def _read_yaml(text: str) -> Document:
    reader = _Reader()
    try:
        root = YAML(typ="safe", pure=True).compose(text)
        reader.document.data = None if root is None else reader.convert(root, (), 0)
    except _Refused as error:
        return _unreadable(error.line, error.column, str(error))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        hint = " A text that holds ': ' needs quotes around it." if "mapping values" in what else ""
        return _unreadable(line, column, f"This is not YAML: {what}.{hint}")
    except (YAMLError, ValueError) as error:
        return _unreadable(None, None, f"This is not YAML: {error}")
    except RecursionError:
        return _unreadable(None, None, "The file is nested too deeply.")
    return reader.document


def _unreadable(line: int | None, column: int | None, message: str) -> Document:
    return Document(None, problems=[Problem(line, column, "", "unreadable", message)])


class _Refused(Exception):
    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.line, self.column = _place(node)


def _place(node: Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Reader:
    """Turns YAML nodes into plain data, counting every part, so that aliases cannot multiply without end."""

    def __init__(self) -> None:
        self.document = Document(None)
        self._parts = 0

    def convert(self, node: Node, path: Path, depth: int) -> object:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _Refused(node, f"The file has more than {_MAX_PARTS} parts once its aliases are expanded.")
        if depth > _MAX_DEPTH:
            raise _Refused(node, f"The file is nested more than {_MAX_DEPTH} deep.")
        self.document.places.setdefault(path, _place(node))
        if not isinstance(node, ScalarNode) and str(node.tag) not in {f"{_TAG}map", f"{_TAG}seq"}:
            raise _Refused(node, f"The tag {node.tag} is not allowed in a flow file.")
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.convert(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise _Refused(key_node, "A key must be plain text.")
            key = str(key_node.value)
            if key == "<<":
                raise _Refused(key_node, "Merge keys (<<) are not supported; write the keys out.")
            if key in mapping:
                message = f"The key '{key}' is written twice in one place."
                problem = Problem(*_place(key_node), path_text((*path, key)), "duplicate_key", message)
                self.document.problems.append(problem)
                continue
            _check_text(key_node, key)
            self.document.places[(*path, key)] = _place(key_node)
            mapping[key] = self.convert(value_node, (*path, key), depth + 1)
        return mapping


def _check_text(node: Node, text: str) -> None:
    if fault := bounds.text_fault(text):
        raise _Refused(node, f"This text cannot be taken. {fault}")


def _scalar(node: Node) -> object:
    kind = str(node.tag).removeprefix(_TAG)
    text = str(node.value)
    if kind in {"str", "timestamp"}:
        _check_text(node, text)
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    plain = text.replace("_", "").lower()
    if kind == "int":
        number = int(plain, 0) if plain.lstrip("+-")[:2] in {"0x", "0o", "0b"} else int(plain)
        if fault := bounds.number_fault(number):
            raise _Refused(node, f"This number cannot be taken. {fault}")
        return number
    if kind == "float":
        return float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    raise _Refused(node, f"The tag {node.tag} is not allowed in a flow file.")
