"""What a job says about itself in its log: our SDK's lines (`::nearline {json}`) and cnvrg's two kinds of tags.

The log is the channel because it is there whatever happens: a job keeps measuring while the platform is away.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from flows.engine.expressions import Value

_MARK = b"::nearline "
_TAG = re.compile(rb"\s*cnvrg_tag_([^\s:]+)\s*:(.*)")
_CHART = re.compile(rb"\s*cnvrg_linechart_([^\s:]+)\s(.*)")
_OPTION = re.compile(r"(group|key|x|y|value)\s*:\s*(?:'([^']*)'|\"([^\"]*)\"|(\S+))")
_LONGEST_LINE = 256 * 1024
_LONGEST_KEY = 200
_LONGEST_TEXT = 5000
_MOMENTS_ARE_MS_ABOVE = 1e11


class RecordKind(StrEnum):
    """What a line records."""

    METRIC = "metric"
    PARAMETER = "param"
    TAG = "tag"
    ARTIFACT = "artifact"


@dataclass(frozen=True)
class Record:
    """One thing that a job recorded. `step` and `at` None: the line did not say."""

    kind: RecordKind
    key: str
    value: Value
    step: int | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class Harvest:
    """The records of a piece of log, and how many of its bytes they were read from (whole lines only)."""

    records: tuple[Record, ...]
    consumed: int


def harvest(data: bytes, *, is_complete: bool) -> Harvest:
    """Read the whole lines of a piece of log; `is_complete` says that its last line will not go on."""
    end = len(data) if is_complete else data.rfind(b"\n") + 1
    if end == 0 and len(data) > _LONGEST_LINE:
        end = len(data)  # nothing of ours is that long
    records = [record for line in data[:end].split(b"\n") for record in _read(line)]
    return Harvest(tuple(records), end)


def _read(line: bytes) -> list[Record]:
    if line.startswith(_MARK):
        return _read_own(line[len(_MARK) :])
    if b"cnvrg_" not in line or len(line) > _LONGEST_LINE:
        return []
    if match := _TAG.match(line):
        return [Record(RecordKind.TAG, _key(match[1].decode(errors="replace")), _unquoted(match[2].strip()))]
    if match := _CHART.match(line):
        return _read_chart(match[1].decode(errors="replace"), match[2].decode(errors="replace"))
    return []


def _read_own(text: bytes) -> list[Record]:
    try:
        said = json.loads(text)
        kind = RecordKind(str(said["kind"]))
        key, value = str(said["key"]), said["value"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    if kind is RecordKind.METRIC:
        number = _number(value)
        return (
            []
            if number is None
            else [Record(kind, _key(key), number, _step(said.get("step")), _moment(said.get("at")))]
        )
    if not isinstance(value, bool | int | float):
        value = "" if value is None else str(value)[:_LONGEST_TEXT]
    return [Record(kind, _key(key), value)]


def _number(value: object) -> float | None:
    # Numbers that JSON lacks come as the texts "nan", "inf" and "-inf".
    if isinstance(value, str):
        return float(value) if value in {"nan", "inf", "-inf"} else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read_chart(name: str, rest: str) -> list[Record]:
    said = {match[1]: next(text for text in match.groups()[1:] if text is not None) for match in _OPTION.finditer(rest)}
    try:
        value = float(said["value"])
    except (KeyError, ValueError):
        return []
    series = said.get("group") or ""
    step = said.get("key", "")
    if step and not step.lstrip("-").isdigit():
        series, step = "/".join(part for part in (series, step) if part), ""
    return [Record(RecordKind.METRIC, _key(f"{name}/{series}" if series else name), value, int(step) if step else None)]


def _unquoted(text: bytes) -> str:
    plain = text.decode(errors="replace")[:_LONGEST_TEXT]
    is_quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\""
    return plain[1:-1] if is_quoted else plain


def _key(text: str) -> str:
    return text.replace("\0", "")[:_LONGEST_KEY]


def _step(value: object) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    return value if is_whole and isinstance(value, int) else None


def _moment(value: object) -> datetime | None:
    """Read seconds or milliseconds since 1970, or ISO 8601."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _MOMENTS_ARE_MS_ABOVE else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
