"""What a filter of experiments says once it is read, and how columns and texts are written in one."""

import re
from dataclasses import dataclass
from datetime import datetime

from experiments.engine.columns import Column


@dataclass(frozen=True)
class Value:
    """What a column is compared with: a text, and the number that it is (None: it is none, or was in quotes)."""

    text: str
    number: float | None = None
    moment: datetime | None = None


@dataclass(frozen=True)
class Is:
    """A comparison. `sign` is one of `= != < <= > >=`."""

    column: Column
    sign: str
    value: Value


@dataclass(frozen=True)
class Contains:
    """That a text holds another, in whatever case."""

    column: Column
    text: str


@dataclass(frozen=True)
class Known:
    """That something was recorded."""

    column: Column


@dataclass(frozen=True)
class Not:
    """The contrary."""

    inner: "Filter"


@dataclass(frozen=True)
class All:
    """`and`; without parts, everything."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True)
class Any:
    """`or`."""

    parts: "tuple[Filter, ...]"


Filter = Is | Contains | Known | Not | All | Any


def columns_of(tree: Filter) -> set[Column]:
    """Return every column that a filter looks at."""
    match tree:
        case All(parts) | Any(parts):
            return {column for part in parts for column in columns_of(part)}
        case Not(inner):
            return columns_of(inner)
    return {tree.column}


def quote(text: str) -> str:
    """Return a text as a filter takes it, in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def name(column: Column) -> str:
    """Return a column as a filter takes it; a key with signs of the language in it goes in quotes."""
    is_plain = re.fullmatch(r"[^\s<>=!(),\"']+", column.key)
    return str(column) if is_plain or not column.kind else f"{column.kind}.{quote(column.key)}"
