"""How well forecasts hold: what waiting jobs were told of their start, against when they started."""

import csv
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse
from django.shortcuts import render

from accounts.web.requests import PageRequest
from core import clock
from core.units import format_duration
from scheduler.engine.calibration import ENOUGH, LATE, LIKELY, Promised
from scheduler.selectors import forecasts
from scheduler.selectors.forecasts import PoolQuality
from web.ranges import RANGES, find_range
from web.series import Chart, Series

_TOLERANCE = 0.05
_PERCENT = 100
_COLUMNS = (
    *("pool", "has_simulated", "started_at", "wait_class"),
    *("p50_s", "p90_s", "waited_s", "p50_held", "p90_held"),
)


@dataclass(frozen=True)
class Figure:
    """The part of forecasts that held, and what it should be; both in percent."""

    held: float
    asked: float

    @property
    def verdict(self) -> str:
        """What the figure says of the forecasts."""
        if abs(self.held - self.asked) <= _TOLERANCE * _PERCENT:
            return "as it should"
        return "jobs start earlier than told" if self.held > self.asked else "jobs start later than told"


@dataclass(frozen=True)
class PromiseRow:
    """The forecasts that told a wait within bounds: their number, the parts of P50 and P90 that held, and the miss."""

    wait: str
    count: int
    figures: tuple[Figure | None, Figure | None]
    median_error_s: float | None


@dataclass(frozen=True)
class Pool:
    """One pool on the page: its figures of P50 and P90, None without a forecast; so is its chart.

    `uncorrected` are both figures in words, as they would be without correction.
    """

    quality: PoolQuality
    figures: tuple[Figure | None, Figure | None]
    uncorrected: str
    chart: Chart | None
    promises: list[PromiseRow]


def forecasts_page(request: PageRequest) -> HttpResponse:
    """Show how well forecasts hold, by pool: those of a range of time, else the newest."""
    shown = [_pool(quality) for quality in forecasts.list_quality(actor=request.actor, since=_since_of(request))]
    context = {
        "pools": shown,
        "ranges": list(RANGES.values()),
        "range": find_range(request),
        "has_forecasts": any(pool.chart or pool.quality.untold for pool in shown),
        "enough": ENOUGH,
    }
    return render(request, "scheduler/forecasts.html", context)


def download_forecasts(request: PageRequest) -> HttpResponse:
    """Return as CSV each forecast that the page counts, with the wait that followed; no job is named."""
    scored = forecasts.list_scored(actor=request.actor, since=_since_of(request))
    shown = find_range(request)
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="forecasts-{shown.word if shown else "newest"}.csv"'
    rows = csv.writer(response)
    rows.writerow(_COLUMNS)
    for each in scored:
        score, late_s = each.score, each.score.late_s
        seconds = (f"{score.likely_s:.1f}", "" if late_s is None else f"{late_s:.1f}", f"{score.waited_s:.1f}")
        held = (score.held(score.likely_s), "" if late_s is None else score.held(late_s))
        is_simulated, *were_held = (str(part).lower() for part in (each.has_simulated, *held))
        rows.writerow((each.pool, is_simulated, each.started_at.isoformat(), score.wait_class, *seconds, *were_held))
    return response


def _since_of(request: PageRequest) -> datetime | None:
    shown = find_range(request)
    return None if shown is None else clock.now() - shown.past


def _pool(quality: PoolQuality) -> Pool:
    coverage = quality.coverage
    figures = (_figure(coverage.likely_held, LIKELY), _figure(coverage.late_held, LATE))
    raw = [held for held in (coverage.raw_likely_held, coverage.raw_late_held) if held is not None]
    uncorrected = ", ".join(f"{held * _PERCENT:.0f} %" for held in raw)
    return Pool(quality, figures, uncorrected, _chart_of(quality), [_promise_row(each) for each in quality.promised])


def _promise_row(promised: Promised) -> PromiseRow:
    low, high = (None if bound is None else format_duration(bound) for bound in (promised.from_s, promised.to_s))
    wait = f"{low} or longer" if high is None else f"{low} to {high}" if promised.from_s else f"under {high}"
    held = promised.coverage
    if held is None:
        return PromiseRow(wait, 0, (None, None), None)
    figures = (_figure(held.likely, LIKELY), _figure(held.late, LATE))
    return PromiseRow(wait, held.count, figures, promised.median_error_s)


def _figure(held: float | None, asked: float) -> Figure | None:
    return None if held is None else Figure(held * _PERCENT, asked * _PERCENT)


def _chart_of(quality: PoolQuality) -> Chart | None:
    started = quality.started
    series = [("P50", 0, LIKELY, started.of_likely), ("P90", 1, LATE, started.of_late)]
    lines = []
    for name, hue, asked, parts in series:
        if parts:
            lines.append(Series(name, hue, [part * _PERCENT for part in parts]))
            aims = [asked * _PERCENT if times == 1 else None for times in started.multiples]
            lines.append(Series(f"{name} should be", hue, aims))
    title = f"Jobs of {quality.coverage.pool} that had started"
    return Chart(title, started.multiples, "times the wait that was told", " %", lines) if lines else None
