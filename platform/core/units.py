"""Quantities as people write them: bytes, CPU, GPU, durations. Parsing and formatting in one place."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from core import bounds
from core.bounds import OutOfBounds
from core.errors import InvalidInput
from core.gpus import ONE_GPU as ONE_GPU  # noqa: PLC0414 (most who count GPUs write them too)

_BYTES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "p": 10**15,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
    "pi": 2**50,
}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*"
_LONGEST = 60


def parse_bytes(text: str | int) -> int:
    """Read `4GB`, `512Mi`, `1.5 g` or a plain number of bytes. Raises InvalidInput, and OutOfBounds above 1 EiB."""
    written = _written(text)
    match = re.fullmatch(rf"{_NUMBER}([kmgtp]i?)?b?\s*", written.lower())
    if match is None:
        raise InvalidInput(f"'{written}' is not a size. Write it like 512Mi, 4GB or 1000000.")
    size_bytes = int(float(match[1]) * _BYTES[match[2] or ""])
    if size_bytes > bounds.MAX_BYTES:
        raise OutOfBounds(f"'{written}' is more than {bounds.MAX_BYTES} bytes.")
    return size_bytes


def format_bytes(size_bytes: int) -> str:
    """Write a size with three significant digits in powers of 1000: `799 MB`, `4.2 GB`, `12 B`."""
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.5:  # noqa: PLR2004 (999.5 would round up to 1000)
            break
        value, unit = value / 1000, larger
    if unit == "B":
        return f"{int(value)} B"
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.1f} {unit}"  # noqa: PLR2004


def format_exactly(size_bytes: int) -> str:
    """Write a size in the largest unit that gives it without a fraction, so that it can be read again: `8 GiB`."""
    for power in (5, 4, 3, 2, 1):
        for base, unit in ((1024, f"{' KMGTP'[power]}iB"), (1000, f"{' kMGTP'[power]}B")):
            if size_bytes and size_bytes % base**power == 0:
                return f"{size_bytes // base**power} {unit}"
    return f"{size_bytes} B"


def format_memory(size_bytes: int) -> str:
    """Write memory, which people set in powers of 1024, in these: `512 GiB`, `1.5 GiB`, `100 MiB`."""
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:  # noqa: PLR2004
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def parse_duration(text: str | float) -> float:
    """Read `90`, `90s`, `5m`, `2h` or `1d` and return seconds. Raises InvalidInput, and OutOfBounds above 100 years."""
    written = _written(text)
    match = re.fullmatch(rf"{_NUMBER}(ms|s|m|h|d)?\s*", written.lower())
    if match is None:
        raise InvalidInput(f"'{written}' is not a duration. Write it like 30s, 5m, 2h or 1d.")
    seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    if seconds > bounds.MAX_SECONDS:
        raise OutOfBounds(f"'{written}' is more than 100 years.")
    return seconds


def format_duration(seconds: float) -> str:
    """Write a duration with its two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 9.95:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller, smaller_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            large, rest = divmod(whole, size)
            small = rest // smaller
            return f"{large} {unit} {small} {smaller_unit}" if small else f"{large} {unit}"
    return f"{whole} s"


def format_ago(moment: datetime, *, now: datetime) -> str:
    """Write how far a moment lies in the past or the future: `5 min ago`, `in 3 h`, `just now`."""
    distance = (now - moment) / timedelta(seconds=1)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if abs(distance) >= size and (size > 1 or abs(distance) >= 5):  # noqa: PLR2004 (under 5 s is "just now")
            amount = abs(distance) / size
            # What has passed has passed whole; what is to come is told to the nearest.
            return f"{int(amount)} {unit} ago" if distance > 0 else f"in {round(amount)} {unit}"
    return "just now"


def count_of(number: int, noun: str) -> str:
    """Write so many of something: `1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_gpus(milli_gpus: int) -> str:
    """Write an amount of GPU given in thousandths of one: `2`, `0.5`, `0.25`."""
    return f"{milli_gpus / ONE_GPU:g}"


def count_of_gpus(milli_gpus: int) -> str:
    """Write an amount of GPU with its noun: `2 GPUs`, `1 GPU`, `0.5 GPU`."""
    return f"{format_gpus(milli_gpus)} GPU{'' if 0 < milli_gpus <= ONE_GPU else 's'}"


def format_gpu_time(gpu_seconds: float) -> str:
    """Write seconds of one GPU: `40 GPU-s`, `26 GPU-min`, `4.2 GPU-h`."""
    if gpu_seconds < 60:  # noqa: PLR2004
        return f"{gpu_seconds:.2g} GPU-s"
    if gpu_seconds < 2 * 3600:
        return f"{gpu_seconds / 60:.3g} GPU-min"
    return f"{gpu_seconds / 3600:,.1f} GPU-h"


def format_cpu(millicores: int) -> str:
    """Write an amount of CPU given in thousandths of a core: `2`, `0.5`."""
    return f"{millicores / 1000:g}"


def in_numbers(context: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a message is filled with, its numbers as people write them: a bound of a float is mostly whole."""
    return {key: f"{value:.15g}" if isinstance(value, float) else value for key, value in context.items()}


def _written(quantity: str | float) -> str:
    if not isinstance(quantity, str) and (fault := bounds.number_fault(quantity)):
        raise OutOfBounds(f"A quantity cannot be taken. {fault}")
    text = str(quantity)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
