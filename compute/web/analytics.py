"""Analytics: GPUs per project over time and idle ones, what projects consumed, every eviction with its receipt."""

import csv

from django.http import HttpResponse
from django.shortcuts import render

from accounts.selectors import list_projects
from accounts.web.requests import PageRequest, text
from compute.selectors import usage as job_usage
from compute.selectors.evictions import mark_deleted
from compute.web import node_histories
from core import clock
from scheduler.selectors import evictions, nodes, pools, usage
from scheduler.selectors.usage import Usage
from web.ranges import RANGES, Range, range_of
from web.series import Chart, Series

_EVICTIONS = 50
_PERCENT = 100


def analytics_page(request: PageRequest) -> HttpResponse:
    """Show how a pool was used over a range of time, who consumed what, and what was evicted."""
    actor, project = request.actor, text(request, "project")
    pool, shown = text(request, "pool") or pools.DEFAULT, range_of(request)
    pools.require_pool(actor=actor, name=pool)
    since = clock.now() - shown.past
    used = usage.read_usage(actor=actor, pool=pool, past=shown.past, project=project)
    consumed = usage.list_consumption(actor=actor, since=since, project=project)
    evicted = evictions.list_evictions(actor=actor, project=project, pool=pool, since=since)
    context = {
        "pools": pools.view_pools(list(pools.list_pools(actor=actor))),
        "pool": pool,
        "has_simulated": pool in nodes.find_simulated_pools(),
        "ranges": list(RANGES.values()),
        "range": shown,
        "project": project,
        "project_name": project,
        "projects": list_projects(actor=actor),
        "charts": _charts_of(used, shown),
        "node_rows": node_histories.list_node_rows(actor, pool, shown.past, _hues_of(used)),
        "node_moments": node_histories.MOMENTS,
        "consumed": consumed,
        "consumed_gpu_s": sum(each.gpu_s for each in consumed),
        "consumed_price": sum(each.price for each in consumed),
        "idle_gpus": job_usage.list_idle_gpus(actor=actor, project=project),
        "utilisation": _percent(sum(used.held), sum(used.capacity)),
        "evictions": mark_deleted(evictions.view_evictions(actor=actor, rows=evicted[:_EVICTIONS])),
        "evictions_total": evicted.count(),
    }
    return render(request, "compute/analytics.html", context)


def download_consumption(request: PageRequest) -> HttpResponse:
    """Return as CSV what projects consumed in all pools over a range of time."""
    project, shown = text(request, "project"), range_of(request)
    since = clock.now() - shown.past
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="consumption-{shown.word}.csv"'
    rows = csv.writer(response)
    rows.writerow(("project", "pool", "gpu_hours", "price"))
    for each in usage.list_consumption(actor=request.actor, since=since, project=project):
        rows.writerow((each.project, each.pool, f"{each.gpu_hours:.4f}", f"{each.price:.4f}"))
    return response


def _hues_of(used: Usage) -> dict[str, int]:
    """Return the colour of each project that the charts show."""
    return {line.project: hue for hue, line in enumerate(used.lines)}


def _charts_of(used: Usage, shown: Range) -> list[Chart]:
    if not used.ends_at:
        return []
    now = clock.now()
    x = [round((end - now) / shown.unit_length, 2) for end in used.ends_at]
    span = (-(shown.past / shown.unit_length), 0.0)
    hues = _hues_of(used)
    held = [Series(line.project, hues[line.project], line.held) for line in used.lines]
    pending = [Series(line.project, hues[line.project], line.pending) for line in used.lines]
    # A quota is a dashed line in the colour of its project.
    quotas = [
        Series(f"{line.project} quota", hues[line.project], line.quota, dashed=True)
        for line in used.lines
        if any(line.quota)
    ]
    parts = [_percent(gpus, capacity) for gpus, capacity in zip(used.held, used.capacity, strict=True)]
    return [
        *([Chart("GPUs per project", x, shown.unit, "", [*held, *quotas], span)] if held else []),
        *([Chart("Pending GPUs", x, shown.unit, "", pending, span)] if pending else []),
        Chart("Utilisation", x, shown.unit, " %", [Series("allocated", 0, parts)], span),
    ]


def _percent(part: float, whole: float) -> float | None:
    return _PERCENT * part / whole if whole else None
