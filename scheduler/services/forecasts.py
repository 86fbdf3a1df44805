"""Stores what waiting jobs are told of their start, and scores it when they start. For the app that runs jobs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from prometheus_client import Counter

from core import clock, orm
from scheduler.engine.calibration import Levels
from scheduler.engine.states import WorkloadState
from scheduler.models import Forecast, Pool, Workload
from scheduler.selectors import forecasts
from scheduler.selectors.resource_pools import ResourcePools

FORECASTS = Counter(
    "nearline_scheduler_forecasts_total",
    "Forecasts of starts that were scored: whether the job started by then",
    ["pool", "quantile", "held"],
)
ENGINE_FORECASTS = Counter(
    "nearline_scheduler_engine_forecasts_total",
    "The same forecasts as the engine made them, before they were corrected",
    ["pool", "quantile", "held"],
)
_KEPT = timedelta(days=90)
_LATEST = ("latest_at", "latest_likely_at", "latest_late_at", "facts")
_PROMISE = ("made_at", "likely_at", "late_at", "raw_likely_s", "raw_late_s", "wait_class")


@dataclass(frozen=True)
class NewForecast:
    """When a job starts, in seconds; None is unknown. `wait` counts its evictions; `facts` is JSON that is kept.

    `raw_` is what the engine said, before it was corrected. `pool_id` empty: the first pool of the resource.
    """

    name: str
    wait: int
    resource_id: str
    likely_s: float | None
    late_s: float | None
    raw_likely_s: float | None
    raw_late_s: float | None
    wait_class: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    pool_id: str = ""


@transaction.atomic
def store(made: Sequence[NewForecast], *, at: datetime) -> None:
    """Store forecasts that were made at one moment. What is stored of each wait first is never changed."""
    pools, pool_ids = ResourcePools(), set(Pool.objects.values_list("pk", flat=True))
    rows = []
    for new in made:
        row = Forecast(
            name=new.name,
            wait=new.wait,
            pool_id=new.pool_id if new.pool_id in pool_ids else pools.find(new.resource_id).id,
            latest_at=at,
            latest_likely_at=_after(at, new.likely_s),
            latest_late_at=_after(at, new.late_s),
            facts=dict(new.facts),
        )
        if new.likely_s is not None:
            row.made_at, row.likely_at, row.late_at = at, row.latest_likely_at, row.latest_late_at
            row.raw_likely_s, row.raw_late_s, row.wait_class = new.raw_likely_s, new.raw_late_s, new.wait_class
        rows.append(row)
    Forecast.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["name", "wait"], update_fields=_LATEST, batch_size=100
    )
    _promise({(row.name, row.wait): row for row in rows if row.made_at is not None})


def _promise(made: Mapping[tuple[str, int], Forecast]) -> None:
    """Note what was first told of a wait about which nothing was known before."""
    rows = [row for row in Forecast.objects.filter(made_at=None) if (row.name, row.wait) in made]
    for row in rows:
        for name in _PROMISE:
            setattr(row, name, getattr(made[row.name, row.wait], name))
    Forecast.objects.bulk_update(rows, _PROMISE, batch_size=100)


def _after(at: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else at + timedelta(seconds=seconds)


@transaction.atomic
def score(waiting: Collection[str]) -> int:
    """Note of the jobs that have started since when that was, and return how many. `waiting` names those that wait.

    The forecast of a wait that ended otherwise is deleted, and so is one that is very old.
    """
    open_rows = Forecast.objects.filter(started_at=None).select_for_update().order_by("pk")
    rows = {row.pk: row for row in open_rows}
    columns = ("name", "state", "evictions", "placed_at")
    facts: dict[str, tuple[str, int, datetime | None]] = {}
    for batch in orm.in_batches([row.name for row in rows.values()]):
        workloads = Workload.objects.filter(name__in=batch).values_list(*columns)
        facts |= {name: (state, evictions, placed_at) for name, state, evictions, placed_at in workloads}
    started, stale = [], []
    for row in rows.values():
        state, evictions, placed_at = facts.get(row.name, ("", row.wait, None))
        number = evictions - 1 if state == WorkloadState.TERMINATING else evictions
        if number == row.wait and placed_at is not None:
            row.started_at = placed_at
            started.append(row)
        elif number != row.wait or row.name not in waiting:
            stale.append(row.pk)
    for batch in orm.in_batches(stale):
        Forecast.objects.filter(pk__in=batch).delete()
    if started:
        Forecast.objects.bulk_update(started, ["started_at"], batch_size=100)
        Forecast.objects.filter(started_at__lt=clock.now() - _KEPT).delete()
        _compare([row for row in started if row.made_at is not None])
    return len(started)


def _compare(started: Sequence[Forecast]) -> None:
    """Count what held, and move the levels of the pools against the misses."""
    pool_ids = {row.pool_id for row in started}
    pools = {pool.pk: pool for pool in Pool.objects.select_for_update().filter(pk__in=pool_ids).order_by("pk")}
    for row in sorted(started, key=lambda row: (row.started_at, row.pk)):
        pool, score = pools[row.pool_id], forecasts.score_of(row)
        for counter, quantile, told_s in (
            (FORECASTS, "p50", score.likely_s),
            (FORECASTS, "p90", score.late_s),
            (ENGINE_FORECASTS, "p50", score.raw_likely_s),
            (ENGINE_FORECASTS, "p90", score.raw_late_s),
        ):
            if told_s is not None:
                counter.labels(pool.name, quantile, "yes" if score.held(told_s) else "no").inc()
        levels = Levels(pool.likely_level, pool.late_level).after(score)
        pool.likely_level, pool.late_level = levels.likely, levels.late
    Pool.objects.bulk_update(pools.values(), ["likely_level", "late_level"])
