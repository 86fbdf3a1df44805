"""Quantities and moments as people read them."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

_DURATIONS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def size(size_bytes: float | None) -> str:
    """Write a size with up to three digits in powers of 1000: `799 MB`, `4.2 GB`, `12 B`."""
    if size_bytes is None:
        return "-"
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.5:  # noqa: PLR2004 (what would round up to 1000)
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"  # noqa: PLR2004


def memory(size_bytes: int | None) -> str:
    """Write memory, which people set in powers of 1024, in these: `512 GiB`, `1.5 GiB`, `100 MiB`."""
    if size_bytes is None:
        return "-"
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:  # noqa: PLR2004
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"


def count(number: int | None, thing: str) -> str:
    """Write a number of things: `1 file`, `1,797 files`."""
    return "-" if number is None else f"{number:,} {thing}" + ("" if number == 1 else "s")


def nodes(names: Sequence[str]) -> str:
    """Write where the replicas of a job are: `dgx-1`, `dgx-1 and 2 more`."""
    return " and ".join([*names[:1], *([f"{len(names) - 1} more"] if len(names) > 1 else [])])


def times(measured: Mapping[str, float | None]) -> str:
    """Write how long something waited, ran, was suspended and took in all, each named."""
    named = [(name, measured.get(f"{name}_s")) for name in ("waited", "ran", "suspended", "total")]
    shown = [(name, seconds) for name, seconds in named if seconds or (seconds is not None and name != "suspended")]
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in shown)


def duration(seconds: float | None) -> str:
    """Write a duration with its two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None:
        return "-"
    if seconds < 9.95:  # noqa: PLR2004 (what would round up to 10.0)
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for large, unit, small, small_unit in _DURATIONS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def ago(moment: datetime | None, *, now_s: float | None = None) -> str:
    """Write how far a moment lies in the past or the future: `5 min ago`, `in 3 h`, `just now`."""
    if moment is None:
        return "-"
    distance = (time.time() if now_s is None else now_s) - moment.timestamp()
    for large, unit in ((86400, "d"), (3600, "h"), (60, "min"), (5, "s")):
        if abs(distance) >= large:
            amount = abs(distance) / (1 if unit == "s" else large)
            # What has passed has passed whole; what is to come is told to the nearest.
            return f"{int(amount)} {unit} ago" if distance > 0 else f"in {round(amount)} {unit}"
    return "just now"


def moment(at: datetime | None) -> str:
    """Write a moment to the minute: `2026-03-01 09:30 UTC`."""
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else "-"


def due(at: datetime) -> str:
    """Write when something is expected that has not happened yet; `now` where its moment is over."""
    return "now" if at.timestamp() < time.time() + 5 else ago(at)


def gpus(milli: int | None) -> str:
    """Write an amount of GPU given in thousandths of one: `2`, `0.5`."""
    return "-" if not milli else f"{milli / 1000:g}"


def cpus(millicores: int | None) -> str:
    """Write an amount of CPU given in thousandths of one core."""
    return "-" if millicores is None else f"{millicores / 1000:g}"


def simulated(is_simulated: bool) -> str:  # noqa: FBT001 (the one thing that it is about)
    """Return what follows a name of what does not exist as such; nothing for all else."""
    return " (simulated)" if is_simulated else ""


_SIGNS = {
    "succeeded": "✔",
    "ready": "✔",
    "referenced": "✔",
    "promoted": "✔",
    "failed": "✗",
    "lost": "✗",
    "cancelled": "⊘",
    "skipped": "⊘",
    "running": "▶",
    "hydrating": "▶",
    "provisioning": "▶",
}


def state(name: str | None) -> str:
    """Write a state as a sign and a word."""
    return f"{_SIGNS.get(name or '', '…')} {name or 'unknown'}"
