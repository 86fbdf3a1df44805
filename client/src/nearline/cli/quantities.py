"""Quantities as people type them, read into the units of the API. All raise InvalidRequest."""

import math
import re
from collections.abc import Callable
from typing import TypeVar

from nearline.errors import InvalidRequest

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
T = TypeVar("T")
NONE = "none"
_TOO_LARGE = 2**63
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def read_number(text: str) -> float:
    """Return a number."""
    try:
        number = float(text)
    except ValueError:
        raise InvalidRequest(f"'{text}' is not a number.", hint="Write a number, as 2 or 0.5.") from None
    if not math.isfinite(1000 * number):
        raise InvalidRequest(f"'{text}' is no finite number.", hint="Write a number, as 2 or 0.5.")
    return number


def read_milli(text: str) -> int:
    """Return GPUs or cores in thousandths of one."""
    return _whole(1000 * read_number(text), text)


def read_count(text: str) -> int:
    """Return a whole number, from 0."""
    if not (text.isdecimal() and text.isascii()):
        raise InvalidRequest(f"'{text}' is no whole number.", hint="Write a whole number, as 2.")
    _require_small(float(text), text)
    return int(text)


def read_seconds(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `12h` or `2d`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        raise InvalidRequest(f"'{text}' is not a duration.", hint="Write it like 90s, 30m, 12h or 2d.")
    seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    _require_small(seconds, text)
    return seconds


def read_bytes(text: str) -> int:
    """Return the bytes of `512GiB`, `4G` or `1.5 TB`."""
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?) ?([KMGT])(I?)B?", text.upper())
    if match is None:
        raise InvalidRequest(f"'{text}' is not a size.", hint="Write it like 512GiB or 1.5TB.")
    base = 1024 if match[3] else 1000
    return _whole(float(match[1]) * float(base ** _POWERS[match[2]]), text)


def read_or_none(read: Callable[[str], T], text: str) -> T | None:
    """Return what `read` makes of a text, or None where that is the word none."""
    if text == NONE:
        return None
    try:
        return read(text)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, hint=f"{error.hint.removesuffix('.')}, or none.") from None


def read_setting(text: str) -> tuple[str, str]:
    """Return name and value of `gpu_resource=amd.com/gpu`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequest(f"'{text}' is no setting.", hint="Write it like gpu_resource=amd.com/gpu.")
    return key, value


def _whole(amount: float, text: str) -> int:
    """Return an amount as a whole number."""
    _require_small(amount, text)
    return round(amount)


def _require_small(amount: float, text: str) -> None:
    """Raise InvalidRequest for an amount that is larger than the API can take."""
    if abs(amount) >= _TOO_LARGE:
        raise InvalidRequest(f"'{text}' is too large.", hint="Write a smaller number.")
