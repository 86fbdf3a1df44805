"""The overview: what runs, what waits and why, and who holds the GPUs."""

import operator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Sum, Value
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.shortcuts import render

from accounts.permissions import Actor
from accounts.web.requests import PageRequest, text
from compute.engine.states import HOLDING, JobState
from compute.selectors import job_rows, jobs, usage, waits
from compute.selectors import run_times as durations
from compute.web import node_cells
from compute.web.progress import progress_of
from scheduler.selectors import queues

_ROWS, _WAITING_ROWS, _MEASURED = 20, 8, 50


@dataclass(frozen=True)
class Share:
    """The GPUs of one project; all amounts in thousandths."""

    project: str
    hue: int
    held: int
    quota: int
    waiting: int


def overview_page(request: PageRequest) -> HttpResponse:
    """Show the present moment; htmx asks for its inside again while anything moves."""
    actor, project = request.actor, text(request, "project")
    nodes = node_cells.list_node_views(actor)
    waiting = jobs.list_jobs(actor=actor, project=project, state=JobState.PENDING)
    running = jobs.in_states(jobs.list_jobs(actor=actor, project=project), HOLDING)
    shown = list(running[:_ROWS])
    forecasts = durations.forecast_durations(shown)
    oldest = list(waiting.order_by("pk").defer("spec")[:_WAITING_ROWS])
    expected, arrivals = waits.find_waits(actor=actor, jobs=oldest), waits.find_data_waits(oldest)
    gpu_milli = Sum(F("replica_count") * F("gpu_milli"))
    context = {
        "nodes": nodes,
        "nodes_ready": sum(node.is_ready for node in nodes),
        "gpu_total": sum(node.gpu_milli for node in nodes),
        "gpu_held": sum(node.gpu_held_milli for node in nodes),
        "gpu_models": sorted({node_cells.short_model(node.gpu_model) for node in nodes if node.gpu_model}),
        "has_simulated": any(node.is_simulated for node in nodes),
        "shares": _shares(actor),
        "waiting_total": waiting.aggregate(jobs=Count("pk"), gpu_milli=Coalesce(gpu_milli, Value(0))),
        "waiting": oldest,
        "waits": [
            (row, expected.get(row.job.pk), arrivals.get(row.job.pk))
            for row in job_rows.read_rows(actor=actor, jobs=oldest)
        ],
        "running_count": running.count(),
        "running": [(job, progress_of(job, forecasts.get(job.pk))) for job in shown],
        "utilisation": usage.measure_utilisation(list(running.defer("spec")[:_MEASURED])),
        "project_name": project,
    }
    return render(request, "compute/overview_live.html" if request.htmx else "compute/overview.html", context)


def _shares(actor: Actor) -> list[Share]:
    hues = node_cells.hues_of(actor)
    shown = sorted(hues, key=lambda project_id: hues[project_id][1])[:_ROWS]
    # The amounts are annotations of the selector, which the model's type does not know.
    in_pools: Any = queues.list_queues(actor=actor, pool=None).filter(project__in=shown)
    amounts = dict.fromkeys(shown, (0, 0, 0))
    columns = ("project_id", "gpu_held_milli", "gpu_quota_milli", "waiting_workloads")
    for project_id, *more in in_pools.values_list(*columns):
        held, quota, waiting = map(operator.add, amounts[str(project_id)], more)
        amounts[str(project_id)] = held, quota, waiting
    return [Share(hues[project_id][1], hues[project_id][0], *of_all) for project_id, of_all in amounts.items()]
