"""Why a job waits and when it starts, on the terminal: the sentence, and the places where it could run."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nearline.cli import formats
from nearline.cli.output import Output, align, printable

_CHANGE_COLUMNS = ("CHANGE", "STARTS", "9 OF 10 BY", "STOPS")
_COLUMNS = ("PLACE", "DATA TO MOVE", "STARTS", "9 OF 10 BY", "RUNS", "DONE")


def show_outlook(out: Output, outlook: Mapping[str, Any]) -> None:
    """Print an outlook as the API answers it."""
    out.line(printable(outlook["text"]))
    if places := outlook["places"]:
        rows = [[*_COLUMNS], *map(_row, places)]
        if any(place.get("cost") is not None for place in places):
            costs = ["-" if place.get("cost") is None else f"{place['cost']:.2f}" for place in places]
            rows = [[*row, cost] for row, cost in zip(rows, ["COST", *costs], strict=True)]
        out.line("")
        out.line("\n".join(align(rows)))


def show_changes(out: Output, tried: Mapping[str, Any], *, only_helping: bool = False) -> None:
    """Print what would let a job start sooner, as the API answers it; `only_helping`: not what would not help."""
    changes = [change for change in tried["changes"] if change["helps"] or not only_helping]
    if rows := [_change_row(change, tried["made_at"]) for change in changes]:
        out.line("\nWhat would help, and what it does to others:")
        out.line("\n".join(align([[*_CHANGE_COLUMNS], *rows])))
    if not tried["is_complete"]:
        out.note("Not all changes were tried: it would take too long now.")


def _change_row(change: Mapping[str, Any], made_at: str) -> list[str]:
    text = printable(change["text"]) + (" (by a site admin)" if change["needs_admin"] else "")
    if not change["helps"]:
        return [text, "no sooner", "-", "-"]
    times = ["at once" if change[key] == made_at else _when(change[key]) for key in ("starts_at", "late_at")]
    return [text, *times, printable(change["stops_text"]) or "nobody"]


def _row(place: Mapping[str, Any]) -> list[str]:
    data = place["data"]
    return [
        printable(place["template"] + (f" in the pool {pool}" if (pool := place.get("pool")) else ""))
        + (" (waits here)" if place["is_chosen"] else ""),
        formats.size(data["missing_bytes"]) if data else "-",
        _when(place["starts_at"]),
        _when(place["late_at"]),
        formats.duration(place["run_s"]),
        _when(place["finishes_at"]),
    ]


def _when(moment: str | None) -> str:
    return "not known" if moment is None else formats.due(datetime.fromisoformat(moment))
