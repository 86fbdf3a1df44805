"""What experiments record: what jobs say in their logs, how much of it is kept, and how values compare.

Logs have our SDK's lines (`::nearline {json}`) and cnvrg's two kinds of tags. The log is the channel because it is
there whatever happens: a job keeps measuring while the platform is away. Jobs may print anything, so a line that means
to record something and cannot be read is a problem to tell, never an error.

The bounds hold however values come: over HTTP, from a form or in a log. Who sends them is refused; of a log the rest is
told.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, cast

from core import bounds

Value = bool | int | float | str

MAX_VALUES: Final = 1000
"""The most parameters of an experiment; it has as many tags and metrics."""
MAX_TEXT: Final = 5000
"""The most characters of a value."""
MAX_BYTES: Final = 1 << 20
"""The most bytes of all parameters of an experiment, or of all its tags, as JSON."""
MAX_COMPARED: Final = 500
"""Texts are compared, sorted and grouped by so many of their first characters."""

NO_NUMBERS = frozenset({"nan", "inf", "-inf"})
"""What stands for numbers that JSON lacks."""
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

_MARK = b"::nearline "
_TAG, _CHART = b"cnvrg_tag_", b"cnvrg_linechart_"
_OPTION = re.compile(r"(group|key|x|y|value)\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|(\S+))")
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_LONGEST_LINE = 256 * 1024
_LONGEST_KEY = 200
_LONGEST_EXCERPT = 120
_MOST_TOLD = 5
# JSON and the pages' scripts hold whole numbers exactly below this.
_WHOLE_BELOW = 2**53
_MOST_DIGITS = 20
_MOMENTS_ARE_MS_ABOVE = 1e11
_NO_MOMENT = "its moment ('at') is none between the years 1970 and 9999"


class RecordKind(StrEnum):
    """What a line records."""

    METRIC = "metric"
    PARAMETER = "param"
    TAG = "tag"
    ARTIFACT = "artifact"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Record:
    """One thing that a job recorded. `step` and `at` None: the line did not say."""

    kind: RecordKind
    key: str
    value: Value
    step: int | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Problem:
    """A line that could not be read: why, and how it begins."""

    reason: str
    line: str


@dataclass(frozen=True)
class Problems:
    """How many lines could not be read, and the first of them."""

    count: int = 0
    first: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, object]) -> "Problems":
        """Return what `dataclasses.asdict` wrote down; none for an empty mapping."""
        first = cast("Sequence[Mapping[str, str]]", facts.get("first", ()))
        return cls(cast("int", facts.get("count", 0)), tuple(Problem(**item) for item in first))

    def of_lines(self) -> "Problems":
        """Return those of lines alone, without what was told of the log as a whole."""
        lines = tuple(problem for problem in self.first if problem.line)
        return Problems(self.count - len(self.first) + len(lines), lines)

    def __add__(self, later: "Problems") -> "Problems":
        return Problems(self.count + later.count, (self.first + later.first)[:_MOST_TOLD])


@dataclass(frozen=True)
class Harvest:
    """What a piece of log records, and how many of its bytes that was read from (whole lines only)."""

    records: tuple[Record, ...]
    consumed: int
    problems: Problems = field(default_factory=Problems)


def harvest(data: bytes, *, is_complete: bool) -> Harvest:
    """Read the whole lines of a piece of log; `is_complete` says that its last line will not go on."""
    end = len(data) if is_complete else data.rfind(b"\n") + 1
    if end == 0 and len(data) > _LONGEST_LINE:
        end = len(data)  # nothing of ours is that long
    records: list[Record] = []
    problems: list[Problem] = []
    for line in data[:end].split(b"\n"):
        try:
            record = _read(line)
        except _Unreadable as error:
            problems.append(Problem(str(error), _excerpt(line)))
        else:
            records += [] if record is None else [record]
    return Harvest(tuple(records), end, Problems(len(problems), tuple(problems[:_MOST_TOLD])))


class _Unreadable(Exception):
    """A line means to record something, and cannot be read."""


def _read(line: bytes) -> Record | None:
    """Read one line; None where it records nothing. Raises _Unreadable."""
    if not line.startswith(_MARK) and b"cnvrg_" not in line:
        return None
    stripped = line.strip()
    for mark, read in ((_MARK, _read_own), (_TAG, _read_tag), (_CHART, _read_chart)):
        if (line if mark is _MARK else stripped).startswith(mark):
            if len(line) > _LONGEST_LINE:
                raise _Unreadable(f"the line is longer than {_LONGEST_LINE // 1024} KiB")
            return read(stripped.removeprefix(mark).decode(errors="replace"))
    return None


def _read_own(text: str) -> Record:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unreadable("it is no JSON that can be read") from error
    if not isinstance(content, dict):
        raise _Unreadable("it is no JSON object")
    fields = cast("Mapping[str, object]", content)
    if missing := [name for name in ("kind", "key", "value") if name not in fields]:
        raise _Unreadable(f"it has no '{missing[0]}'")
    name, key = fields["kind"], fields["key"]
    if not isinstance(name, str) or name not in set(RecordKind):
        raise _Unreadable(f"its kind is none of {', '.join(RecordKind)}")
    if not isinstance(key, str | int | float):
        raise _Unreadable("its key is not a text")
    kind, value = RecordKind(name), fields["value"]
    if kind is RecordKind.CHECKPOINT:
        step = _step("" if value is None else value)
        return Record(kind, _key(str(key)), step or 0, step, _moment(fields.get("at")))
    if kind is RecordKind.METRIC:
        return Record(kind, _key(str(key)), _number(value), _step(fields.get("step")), _moment(fields.get("at")))
    return Record(kind, _key(str(key)), _plain(value))


def _plain(value: object) -> Value:
    """Return what a parameter or a tag says: a number, true, false, or a text."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and not bounds.number_fault(value):
        return value
    try:
        return _text("" if value is None else str(value), "value")[:MAX_TEXT]
    except RecursionError as error:
        raise _Unreadable("its value is nested too deeply") from error


def _number(value: object) -> float:
    # Numbers that JSON lacks come as the texts "nan", "inf" and "-inf".
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in ("nan", "inf", "-inf")):
        raise _Unreadable("its value is not a number")
    try:
        return float(cast("float | str", value))
    except OverflowError as error:
        raise _Unreadable("its value is too large for a number") from error


def _read_tag(text: str) -> Record | None:
    name, colon, value = text.partition(":")
    name = name.rstrip()
    if not colon or name.split() != [name]:
        return None
    value = _text(value.strip(), "value")[:MAX_TEXT]
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return Record(RecordKind.TAG, _key(name), value[1:-1] if is_quoted else value)


def _read_chart(text: str) -> Record | None:
    name, _, rest = text.replace("\t", " ").partition(" ")
    if not name or not rest or ":" in name:
        return None
    options = {
        match[1]: next(text for text in match.groups()[1:] if text is not None) for match in _OPTION.finditer(rest)
    }
    if "value" not in options:
        raise _Unreadable("it has no 'value'")
    try:
        value = float(options["value"])
    except ValueError as error:
        raise _Unreadable("its value is not a number") from error
    series = options.get("group") or ""
    step = options.get("key", "")
    if step and _WHOLE.fullmatch(step) is None:
        series, step = "/".join(part for part in (series, step) if part), ""
    if len(step) > _MOST_DIGITS:
        raise _Unreadable("its step is too large")
    number = _step(int(step)) if step else None
    return Record(RecordKind.METRIC, _key(f"{name}/{series}" if series else name), value, number)


def _key(text: str) -> str:
    if not text:
        raise _Unreadable("its key is empty")
    return _text(text, "key")[:_LONGEST_KEY]


def _text(text: str, what: str) -> str:
    """Return a text that both databases can hold. Raises _Unreadable."""
    if fault := bounds.text_fault(text):
        raise _Unreadable(f"its {what} {fault.removeprefix('It ').rstrip('.')}")
    return text


def _step(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise _Unreadable("its step is not a whole number")
    if abs(value) >= _WHOLE_BELOW:
        raise _Unreadable("its step is too large")
    return int(value)


def _moment(value: object) -> datetime | None:
    """Read seconds or milliseconds since 1970, or ISO 8601."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if value > _MOMENTS_ARE_MS_ABOVE else value, UTC)
        else:
            raise _Unreadable("its moment ('at') is neither a number nor ISO 8601")
        if not bounds.moment_fault(moment):
            return moment
    except (ValueError, OverflowError, OSError) as error:
        raise _Unreadable(_NO_MOMENT) from error
    raise _Unreadable(_NO_MOMENT)


def _excerpt(line: bytes) -> str:
    text = line[: 4 * _LONGEST_EXCERPT].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}").strip()
    return text if len(text) <= _LONGEST_EXCERPT else f"{text[: _LONGEST_EXCERPT - 1]}…"


def merge(before: Mapping[str, object], given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return what is recorded once values are added, in which a key has its newest value, and the keys that do not fit.

    A value that does not fit leaves what was recorded before under its key.
    """
    merged = dict(before)
    size_bytes = sum(_size_of(key, value) for key, value in merged.items())
    excess: list[str] = []
    for key, value in given.items():
        added_bytes = _size_of(key, value) - (_size_of(key, merged[key]) if key in merged else 0)
        is_one_too_many = key not in merged and len(merged) >= MAX_VALUES
        if is_one_too_many or (added_bytes > 0 and size_bytes + added_bytes > MAX_BYTES):
            excess.append(key)
        else:
            merged[key], size_bytes = value, size_bytes + added_bytes
    return merged, excess


def find_excess(names: Collection[str], new: Iterable[str]) -> set[str]:
    """Return which new names of metrics do not fit beside those that an experiment has."""
    unknown = [name for name in dict.fromkeys(new) if name not in names]
    return set(unknown[max(MAX_VALUES - len(names), 0) :])


def _size_of(key: str, value: object) -> int:
    """Return the bytes of a member of a JSON object: what both databases write, where a letter may need six."""
    return len(json.dumps({key: value}))


@dataclass(frozen=True)
class Reading:
    """A recorded value as lists compare it. `number` None: it is none."""

    number: float | None
    text: str

    @classmethod
    def of(cls, value: object) -> "Reading":
        """Return a JSON value as a number (where it reads as one) and as the text that pages show."""
        if isinstance(value, bool):
            return cls(None, str(value).lower())
        if isinstance(value, str):
            return cls(number_of(value), value.replace("\0", "")[:MAX_COMPARED])
        if isinstance(value, int | float):
            return cls(number_of(str(value)), str(value)[:MAX_COMPARED])
        return cls(None, json.dumps(value, sort_keys=True)[:MAX_COMPARED])


def number_of(text: str) -> float | None:
    """Return what a text that is a plain decimal number stands for; None for anything else, nan and infinity too."""
    if len(text) > MAX_COMPARED or _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else None
