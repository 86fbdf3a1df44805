"""The overview: what runs, what waits and why, and who holds the GPUs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from accounts.actor import Actor
from accounts.web.requests import PageRequest, text
from compute.engine.states import JobState
from compute.selectors import jobs
from compute.web import node_cells
from scheduler.selectors import queues

_ROWS, _WAITING_ROWS = 20, 8


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
    running = jobs.list_jobs(actor=actor, project=project).filter(
        state__in=[JobState.STARTING, JobState.RUNNING, JobState.STOPPING]
    )
    context = {
        "nodes": nodes,
        "nodes_ready": sum(node.is_ready for node in nodes),
        "gpu_total": sum(node.gpu_milli for node in nodes),
        "gpu_held": sum(node.gpu_held_milli for node in nodes),
        "gpu_models": sorted({node.gpu_model for node in nodes if node.gpu_model}),
        "cpu_total": sum(node.cpu_millicores for node in nodes if not node.is_simulated),
        "cpu_held": sum(node.cpu_held_millicores for node in nodes if not node.is_simulated),
        "has_simulated": any(node.is_simulated for node in nodes),
        "shares": _shares(actor),
        "waiting_count": waiting.count(),
        "waiting": waiting.order_by("pk")[:_WAITING_ROWS],
        "running_count": running.count(),
        "running": running[:_ROWS],
    }
    return render(request, "compute/overview_live.html" if request.htmx else "compute/overview.html", context)


def _shares(actor: Actor) -> list[Share]:
    hues = node_cells.hues_of(actor)
    # The amounts are annotations of the selector, which the model's type does not know.
    found: Iterable[Any] = queues.list_queues(actor=actor).order_by("project__name")[:_ROWS]
    return [
        Share(
            queue.project.name,
            hues[queue.project_id][0],
            queue.gpu_held_milli,
            queue.gpu_quota_milli,
            queue.waiting_workloads,
        )
        for queue in found
    ]
