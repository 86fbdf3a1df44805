"""Stores what waiting jobs are told of their start, and scores it when they start. For the app that runs jobs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from prometheus_client import Counter

from core import clock, orm
from scheduler.engine.calibration import Stretch
from scheduler.engine.states import WorkloadState
from scheduler.models import DEFAULT_POOL_ID, Forecast, PoolResource, Workload
from scheduler.selectors import forecasts

FORECASTS = Counter(
    "nearline_scheduler_forecasts_total",
    "Forecasts of starts that were scored: whether the job started by then",
    ["pool", "quantile", "held"],
)
_KEPT = timedelta(days=90)
_LATEST = ("latest_at", "latest_likely_at", "latest_late_at", "facts")
_PROMISE = ("made_at", "likely_at", "late_at", "raw_likely_s", "raw_late_s")


@dataclass(frozen=True)
class NewForecast:
    """When a job starts, in seconds; None is unknown. `wait` counts its evictions; `facts` is JSON that is kept."""

    name: str
    wait: int
    resource_id: str
    likely_s: float | None
    late_s: float | None
    facts: Mapping[str, Any] = field(default_factory=dict)


@transaction.atomic
def store(made: Sequence[NewForecast], *, at: datetime) -> None:
    """Store forecasts that were made at one moment. What is stored of each wait first is never changed."""
    pools = dict(PoolResource.objects.values_list("resource_id", "pool_id"))
    stretches: dict[str, Stretch] = {}
    rows = []
    for new in made:
        pool_id = pools.get(new.resource_id, DEFAULT_POOL_ID)
        if pool_id not in stretches:
            stretches[pool_id] = forecasts.stretch_of(pool_id)
        likely_at = _after(at, new.likely_s, stretches[pool_id].likely)
        late_at = _after(at, new.late_s, stretches[pool_id].late)
        if likely_at is not None and late_at is not None:
            late_at = max(likely_at, late_at)
        row = Forecast(
            name=new.name,
            wait=new.wait,
            pool_id=pool_id,
            latest_at=at,
            latest_likely_at=likely_at,
            latest_late_at=late_at,
            facts=dict(new.facts),
        )
        if likely_at is not None:
            row.made_at, row.likely_at, row.late_at = at, likely_at, late_at
            row.raw_likely_s, row.raw_late_s = new.likely_s, new.late_s
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


def _after(at: datetime, seconds: float | None, stretch: float) -> datetime | None:
    return None if seconds is None else at + timedelta(seconds=seconds * stretch)


@transaction.atomic
def score(waiting: Collection[str]) -> int:
    """Note of the jobs that have started since when that was, and return how many. `waiting` names those that wait.

    The forecast of a wait that ended otherwise is deleted, and so is one that is very old.
    """
    rows = {row.pk: row for row in Forecast.objects.filter(started_at=None).select_related("pool")}
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
    for row in started:
        for quantile, at in (("p50", row.likely_at), ("p90", row.late_at)):
            if at is not None and row.started_at is not None:
                FORECASTS.labels(row.pool.name, quantile, "yes" if row.started_at <= at else "no").inc()
    return len(started)
