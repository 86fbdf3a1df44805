"""Quantities as people type them, read into the units of the API. All raise InvalidRequest."""

import math
import re

from nearline.errors import InvalidRequest

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def read_number(text: str) -> float:
    """Return a number."""
    try:
        number = float(text)
    except ValueError:
        raise InvalidRequest(f"'{text}' is not a number.", hint="Write a number, or none.") from None
    if not math.isfinite(1000 * number):
        raise InvalidRequest(f"'{text}' is no finite number.")
    return number


def read_milli(text: str) -> int:
    """Return GPUs or cores in thousandths of one."""
    return round(1000 * read_number(text))


def read_count(text: str) -> int:
    """Return a whole number, from 0."""
    if not (text.isdecimal() and text.isascii()):
        raise InvalidRequest(f"'{text}' is no whole number.", hint="Write a whole number, or none.")
    return int(text)


def read_seconds(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `12h` or `2d`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        raise InvalidRequest(f"'{text}' is not a duration.", hint="Write it like 90s, 30m, 12h or 2d, or none.")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def read_bytes(text: str) -> int:
    """Return the bytes of `512GiB`, `4G` or `1.5 TB`."""
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?) ?([KMGT])(I?)B?", text.upper())
    if match is None:
        raise InvalidRequest(f"'{text}' is not a size.", hint="Write it like 512GiB or 1.5TB, or none.")
    base = 1024 if match[3] else 1000
    return round(float(match[1]) * float(base ** _POWERS[match[2]]))


def read_setting(text: str) -> tuple[str, str]:
    """Return name and value of `gpu_resource=amd.com/gpu`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequest(f"'{text}' is no setting.", hint="Write it like gpu_resource=amd.com/gpu.")
    return key, value
