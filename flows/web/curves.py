"""Metrics as charts: one chart a metric, one line an experiment."""

from collections.abc import Sequence

from accounts.actor import Actor
from flows.models import Experiment
from flows.selectors import experiments
from web.series import Chart, Series

MOST_CURVES = 24
_HUES = 8


def metric_charts(actor: Actor, rows: Sequence[Experiment], keys: Sequence[str]) -> list[Chart]:
    """Return a chart for each metric that some experiment measured more than once."""
    charts = []
    for key in keys[:MOST_CURVES]:
        curves = [experiments.read_curve(actor=actor, experiment=row, key=key) for row in rows]
        if all(curve.total <= 1 for curve in curves):
            continue
        steps = sorted({point.step for curve in curves for point in curve.points})
        series = []
        for number, (row, curve) in enumerate(zip(rows, curves, strict=True)):
            values = {point.step: point.value for point in curve.points if isinstance(point.value, float)}
            series.append(Series(row.title, number % _HUES, [values.get(step) for step in steps]))
        charts.append(Chart(key, steps, "step", "", series))
    return charts
