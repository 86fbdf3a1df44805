"""Why a job waits and when it starts, on the terminal: the sentence, and the places where it could run."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nearline.cli import formats
from nearline.cli.output import Output, align, printable

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


def _row(place: Mapping[str, Any]) -> list[str]:
    data = place["data"]
    return [
        printable(place["template"]) + (" (waits here)" if place["is_chosen"] else ""),
        formats.size(data["missing_bytes"]) if data else "-",
        _when(place["starts_at"]),
        _when(place["late_at"]),
        formats.duration(place["run_s"]),
        _when(place["finishes_at"]),
    ]


def _when(moment: str | None) -> str:
    return "not known" if moment is None else formats.ago(datetime.fromisoformat(moment))
