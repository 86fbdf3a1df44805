"""The bounds of everything that a user writes, in one place: numbers, moments, durations, texts and nested values.

Schemas, forms and flow files use the types; parsers use the checks. What passes fits its column, every store, JSON and
a calendar. Each bound is a limit of those, not a policy: services may set narrower ones.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, AwareDatetime, Field, WithJsonSchema

from core.errors import InvalidInput

T = TypeVar("T")

MAX_INT: Final = 2**63 - 1
"""The largest value of a database's 64-bit integer."""
MAX_REPLICAS: Final = 256
"""The most replicas of a gang. They all have a log, an address, and a line in each other's list."""
MAX_COMPLETIONS: Final = 1000
"""The most parts of a job. Each is a job, and all are read again when one of them changes."""
MAX_PORTS: Final = 100
"""The most ports that a job names."""
MAX_POOLS: Final = 100
"""The most pools that a job names."""
MAX_VOLUMES: Final = 100
"""The most volumes that a job names."""
MAX_COUNT: Final = 2**31 - 2
"""The largest count that is taken: the next one fits a 32-bit integer of a database too."""
MAX_QUANTITY: Final = 2**53 - 1
"""The most millicores, thousandths of a GPU or bytes of memory: exact in every JSON reader, and a sum of 1,000 fits."""
MAX_BYTES: Final = 2**60
"""The most bytes of storage."""
MAX_SECONDS: Final = 100 * 366 * 86400
"""The longest duration: 100 years."""
MIN_IDLE_S: Final = 60
"""The shortest idle limit: whether something is used is measured a few times a minute at most."""
MAX_DAYS: Final = 10_000
MAX_PRICE: Final = Decimal("999999.9999")
"""The highest price of an hour; its column has 10 digits, 4 of them after the point."""
MAX_NAME: Final = 300
"""The most characters of a name, or of what names a thing by several names, such as `project/dataset@branch`."""
MAX_LINE: Final = 500
"""The most characters of a text of one line: a title, a reason, a short description."""
MAX_TEXT: Final = 100_000
"""The most characters of a longer text: a command, a message, a note."""
MAX_ARGUMENT_BYTES: Final = 2**17 - 1
"""The most bytes of one argument or variable that Linux gives a program; a shell command is one argument."""
MAX_FILE: Final = 2 * 2**20
"""The most characters of a file that is sent inside JSON."""
MAX_CURSOR: Final = 4096
MAX_DEPTH: Final = 64
"""How deep values may be nested."""
MAX_VALUES: Final = 500_000
"""How many values one document may hold."""
YEARS: Final = range(1970, 10_000)

_Place = tuple["_Place | None", object]
"""Where a value stands: the place of what holds it, and its key there."""
_NEVER_STORED = re.compile("[\0\ud800-\udfff]")
_NEVER_IN_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST_NUMBER = 100


class OutOfBounds(InvalidInput):
    """A number, a moment or a text lies outside what can be stored."""

    code = "core.out_of_bounds"


def text_fault(text: str) -> str:
    """Return why a text cannot be stored; empty when it can. Lone surrogates are no UTF-8; PostgreSQL takes no NUL."""
    match = _NEVER_STORED.search(text)
    if match is None:
        return ""
    return "It holds a NUL character." if match[0] == "\0" else "It holds half of a character (a lone surrogate)."


def with_storable_text(text: str) -> str:
    """Return a text with a replacement character for each that cannot be stored, as browsers show them."""
    return _NEVER_STORED.sub("\N{REPLACEMENT CHARACTER}", text)


def line_fault(text: str) -> str:
    """Return why a text cannot be a name or a title; empty when it can: it is shown on one line."""
    if fault := text_fault(text):
        return fault
    return "It holds a line break or another control character." if _NEVER_IN_A_LINE.search(text) else ""


def number_fault(number: float) -> str:
    """Return why a number cannot be stored; empty when it can: whole ones within 64 bits, others finite."""
    if isinstance(number, int):
        return "" if -MAX_INT <= number <= MAX_INT else "It is a whole number of more than 64 bits."
    return "" if math.isfinite(number) else "It is not a finite number."


def idle_limit_fault(seconds: float) -> str:
    """Say why nothing can have an idle limit of so many seconds; empty: it can."""
    if MIN_IDLE_S <= seconds <= MAX_SECONDS:
        return ""
    return f"An idle limit has at least {MIN_IDLE_S} seconds, and at most 100 years."


def moment_fault(moment: datetime) -> str:
    """Return why a moment cannot be stored; empty when it can: it has an offset and its year in UTC is 1970 to 9999."""
    if moment.utcoffset() is None:
        return "It lacks its offset from UTC; write it like 2026-01-31T12:00:00Z."
    try:
        year = moment.astimezone(UTC).year
    except OverflowError:
        year = 0
    return "" if year in YEARS else f"Its year is not between {YEARS[0]} and {YEARS[-1]}."


def value_fault(value: object) -> tuple[str, str] | None:
    """Return where a nested value of JSON types leaves the bounds, and why; None when all of it can be stored."""
    waiting: list[tuple[object, _Place | None, int]] = [(value, None, 0)]
    values = 0
    while waiting:
        here, place, depth = waiting.pop()
        values += 1
        if values > MAX_VALUES:
            return "", f"It holds more than {MAX_VALUES:,} values."
        if depth > MAX_DEPTH:
            return "", f"It is nested more than {MAX_DEPTH} deep."
        fault = _fault_of(here)
        if fault:
            return _written(place), fault
        if isinstance(here, dict):
            for key, inner in here.items():
                if fault := _fault_of(key):
                    return _written(place), fault
                waiting.append((inner, (place, key), depth + 1))
        elif isinstance(here, list | tuple):
            waiting.extend((inner, (place, index), depth + 1) for index, inner in enumerate(here))
    return None


def read_json(data: str | bytes) -> object:
    """Return what a JSON document holds. Raises OutOfBounds, and InvalidInput when it is no JSON."""
    try:
        value = json.loads(data, parse_int=_whole_number)
    except RecursionError as error:
        raise OutOfBounds(f"The JSON is nested more than {MAX_DEPTH} deep.") from error
    except ValueError as error:
        raise InvalidInput(f"This is not JSON: {error}.") from error
    fault = value_fault(value)
    if fault is not None:
        where, why = fault
        raise OutOfBounds(f"The JSON cannot be taken{f' ({where})' if where else ''}. {why}", where=where)
    return value


def _fault_of(value: object) -> str:
    if isinstance(value, str):
        return text_fault(value)
    if isinstance(value, int | float):
        return number_fault(value)
    return ""


def _written(place: _Place | None) -> str:
    def parts() -> Iterator[str]:
        here = place
        while here is not None:
            here, key = here
            yield str(key)

    return ".".join(reversed(list(parts())))[:MAX_LINE]


def _whole_number(digits: str) -> int:
    # Python reads long numbers in quadratic time, and refuses the longest with an error of another kind.
    return int(digits) if len(digits) <= _LONGEST_NUMBER else MAX_INT + 1


def _passing(find_fault: Callable[[T], str]) -> Callable[[T], T]:
    def check(value: T) -> T:
        if fault := find_fault(value):
            raise ValueError(fault)
        return value

    return check


_storable = AfterValidator(_passing(text_fault))

Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_passing(line_fault))]
Line = Annotated[str, Field(max_length=MAX_LINE), _storable]
Text = Annotated[str, Field(max_length=MAX_TEXT), _storable]
FileText = Annotated[str, Field(max_length=MAX_FILE), _storable]
Whole = Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Offset = Annotated[int, Field(ge=0, le=MAX_INT)]
Quantity = Annotated[int, Field(ge=0, le=MAX_QUANTITY)]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Finite = Annotated[float, Field(ge=-sys.float_info.max, le=sys.float_info.max)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
Port = Annotated[int, Field(ge=1, le=65535)]
Days = Annotated[float, Field(ge=0, le=MAX_DAYS)]
Price = Annotated[
    Decimal,
    Field(ge=0, le=MAX_PRICE, max_digits=10, decimal_places=4),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": float(MAX_PRICE)},
                {"type": "string", "pattern": r"^[0-9]{1,6}(\.[0-9]{1,4})?$"},
            ]
        },
        mode="validation",
    ),
]
Moment = Annotated[AwareDatetime, AfterValidator(_passing(moment_fault))]
