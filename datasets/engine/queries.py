"""What a saved query asks of a commit, and which files of the commit it selects: the same for ever, in order of paths.

A file is selected when it meets every condition of the query. All of them are bounded: globs and expressions are
matched without backtracking, and the list of tags is read once.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Self

from core.bounds import MAX_BYTES
from core.units import format_bytes
from datasets.engine.globs import compile_glob
from datasets.engine.range_names import find_holding
from nearline.content.expressions import BadExpression, Expression
from nearline.content.paths import to_bytes, to_text

MOST_PATTERNS: Final = 20
LONGEST_PATTERN: Final = 500


class BadQuery(ValueError):
    """The conditions make no query; the message says why."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of a query. A file meets `globs` and `types` when it meets one of each, `file_tags` when all.

    `contains` ignores the case of ASCII letters, `types` are endings such as `png`. `tags_file` is the file of the
    commit that says which file has which tags; empty: the one at its usual place.
    """

    globs: tuple[str, ...] = ()
    contains: str = ""
    regex: str = ""
    types: tuple[str, ...] = ()
    min_size_bytes: int | None = None
    max_size_bytes: int | None = None
    file_tags: tuple[str, ...] = ()
    tags_file: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**{key: tuple(item) if isinstance(item, list) else item for key, item in value.items()})  # type: ignore[arg-type]

    def to_json(self) -> dict[str, object]:
        """Return the conditions that are set, as JSON types."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return {key: value for key, value in values.items() if value not in (None, "", [])}

    @property
    def hash(self) -> str:
        """What equal conditions share."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def describe(self) -> str:
        """Say in a line what is selected."""
        sizes = (self.min_size_bytes, self.max_size_bytes)
        parts = [
            " or ".join(self.globs),
            f"'{self.contains}' in the path" if self.contains else "",
            f"path matches /{self.regex}/" if self.regex else "",
            f"type {' or '.join(self.types)}" if self.types else "",
            f"at least {format_bytes(sizes[0])}" if sizes[0] is not None else "",
            f"at most {format_bytes(sizes[1])}" if sizes[1] is not None else "",
            f"tagged {' and '.join(self.file_tags)}" if self.file_tags else "",
            f"by {self.tags_file}" if self.file_tags and self.tags_file else "",
        ]
        return ", ".join(filter(None, parts))


class CompiledQuery:
    """Conditions ready to be asked of the ranges of a tree. `tagged`: what the list of tags names; None: no matter.

    Raises BadQuery.
    """

    def __init__(self, conditions: Conditions, tagged: Collection[bytes] | None = None) -> None:
        self._globs = [compile_glob(to_bytes(glob)) for glob in conditions.globs]
        self._contains = to_bytes(conditions.contains).lower()
        self._regex = _compile(conditions.regex)
        self._endings = tuple(b"." + to_bytes(kind.removeprefix(".")).lower() for kind in conditions.types)
        self._tagged = tagged
        self._least, self._most = conditions.min_size_bytes, conditions.max_size_bytes
        self.asks_size = self._least is not None or self._most is not None
        self._part, self._in_any_case = self._rarest_part()

    @property
    def prefix(self) -> bytes:
        """What all selected paths begin with."""
        return self._globs[0].prefix if len(self._globs) == 1 else b""

    @property
    def end(self) -> bytes | None:
        """What all selected paths sort before; None where nothing is known of that."""
        return self._globs[0].end if len(self._globs) == 1 else None

    def find(self, names: bytes) -> list[bytes]:
        """Return the paths of a range, given in one piece, that meet every condition but that of the size."""
        paths = list(find_holding(names, self._part, in_any_case=self._in_any_case))
        if self._endings:
            paths = [path for path in paths if path.lower().endswith(self._endings)]
        if self._contains:
            paths = [path for path in paths if self._contains in path.lower()]
        if self._tagged is not None:
            tagged = self._tagged
            paths = [path for path in paths if path in tagged or path[path.rfind(b"/") + 1 :] in tagged]
        if self._globs:
            paths = [path for path in paths if any(glob.matches(path) for glob in self._globs)]
        if self._regex is not None:
            paths = [path for path in paths if self._regex.matches(to_text(path))]
        return paths

    def takes_size(self, size: int) -> bool:
        """Return whether a file of this size meets the condition of the size."""
        return (self._least is None or size >= self._least) and (self._most is None or size <= self._most)

    def _rarest_part(self) -> tuple[bytes, bool]:
        """Return the longest text that all selected paths hold, and whether its case does not matter."""
        parts = [(self._contains, True)]
        if len(self._globs) == 1:
            parts.append((self._globs[0].part, False))
        if self._regex is not None:
            parts.append((to_bytes(self._regex.part), False))
        if len(self._endings) == 1:
            parts.append((self._endings[0], True))
        return max(parts, key=lambda part: len(part[0]))


def check(conditions: Conditions) -> None:
    """Raise BadQuery unless the conditions are within bounds and can be compiled."""
    if not conditions.to_json().keys() - {"tags_file"}:
        raise BadQuery("A query needs a condition; without one it would select every file.")
    for field in fields(conditions):
        value = getattr(conditions, field.name)
        if isinstance(value, tuple) and len(value) > MOST_PATTERNS:
            raise BadQuery(f"A query has at most {MOST_PATTERNS} '{field.name}'.")
        for text in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            _check_text(field.name, text, may_be_empty=isinstance(value, str))
    low, high = conditions.min_size_bytes, conditions.max_size_bytes
    for size in (low, high):
        if size is not None and not 0 <= size <= MAX_BYTES:
            raise BadQuery(f"A size is between 0 and {MAX_BYTES} bytes.")
    if low is not None and high is not None and low > high:
        raise BadQuery("The least size is larger than the largest.")
    if conditions.tags_file and not conditions.file_tags:
        raise BadQuery("A file with tags is of use only to a query that asks for tags of files.")
    CompiledQuery(conditions)


def _check_text(name: str, text: str, *, may_be_empty: bool) -> None:
    if not text and not may_be_empty:
        raise BadQuery(f"One of '{name}' is empty.")
    if len(text) > LONGEST_PATTERN:
        raise BadQuery(f"'{name}' takes texts of at most {LONGEST_PATTERN} characters.")
    if "\0" in text or "\n" in text:
        raise BadQuery(f"'{name}' holds a line break or a NUL, which no path has.")


def _compile(regex: str) -> Expression | None:
    try:
        return Expression(regex) if regex else None
    except BadExpression as error:
        raise BadQuery(f"The regular expression cannot be used. {error}") from error
