"""Metrics over time: the points that the page's script draws, and the same as a table to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest
from core.errors import InvalidInput
from experiments.models import Experiment
from experiments.selectors import curves, experiments
from experiments.selectors.curves import Curve

MOST_COMPARED = 20
MOST_CHARTS = 40
_HUES = 8
_POINTS, _LEAST_POINTS = 2400, 300
_TABLE_ROWS = 500
# A long curve is known by up to three points of each stretch, and a row of the table covers two stretches.
_POINTS_OF_ROW = 6


@dataclass(frozen=True)
class Line:
    """One experiment among those of a chart: its number, by which it is known without colour, and its colour."""

    experiment: Experiment
    number: int
    hue: int


def lines_of(rows: Sequence[Experiment]) -> list[Line]:
    """Give experiments numbers and colours, in their order."""
    return [Line(row, place + 1, place % _HUES) for place, row in enumerate(rows)]


def ids_of(request: PageRequest) -> list[str]:
    """Return the experiments that the address names, by `ids` once or often, apart by commas."""
    given = [part.strip() for value in request.GET.getlist("ids") for part in value.split(",")]
    return list(dict.fromkeys(part for part in given if part))


def read_points(request: PageRequest) -> HttpResponse:
    """Answer with one metric of some experiments as JSON: steps, moments (milliseconds since 1970) and values.

    A value that is no number is null: a gap in the line.
    """
    rows, key = _asked_for(request)
    measured = curves.read_curves(
        actor=request.actor, experiments=rows, key=key, most=max(_LEAST_POINTS, _POINTS // len(rows))
    )
    return JsonResponse(
        {"key": key, "series": [_series(row, curve) for row, curve in zip(rows, measured, strict=True)]}
    )


def numbers_page(request: PageRequest) -> HttpResponse:
    """Show one metric of some experiments as a table: a row a step, or of many steps the last value up to its step."""
    rows, key = _asked_for(request)
    most = _TABLE_ROWS * _POINTS_OF_ROW
    measured = curves.read_curves(actor=request.actor, experiments=rows, key=key, most=most)
    by_step = [{point.step: point.value for point in curve.points} for curve in measured]
    steps = sorted({step for values in by_step for step in values})
    size = -(-len(steps) // _TABLE_ROWS) or 1
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    context = {
        "key": key,
        "lines": lines_of(rows),
        "ids": ",".join(row.pk for row in rows),
        "rows": [(group[-1], [_last_of(group, values) for values in by_step]) for group in groups],
        "total": max(curve.total for curve in measured),
    }
    return render(request, "experiments/experiment_numbers.html", context)


def _last_of(steps: Sequence[int], values: Mapping[int, float | str]) -> float | str | None:
    return next((values[step] for step in reversed(steps) if step in values), None)


def _asked_for(request: PageRequest) -> tuple[list[Experiment], str]:
    key = request.GET.get("key", "")
    if not key:
        raise InvalidInput("The address does not say which metric.")
    rows = experiments.get_many(actor=request.actor, experiment_ids=ids_of(request)[:MOST_COMPARED])
    return rows, key


def _series(row: Experiment, curve: Curve) -> dict[str, object]:
    return {
        "id": row.pk,
        "steps": [point.step for point in curve.points],
        "times": [round(point.at.timestamp() * 1000) for point in curve.points],
        "values": [point.value if isinstance(point.value, float) else None for point in curve.points],
        "total": curve.total,
    }
