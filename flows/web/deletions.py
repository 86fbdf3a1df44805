"""The questions before a run or a flow is deleted, which tell what is lost. Counting that may take a moment.

So they are asked for when somebody is about to delete: as dialogs, or as pages of their own without script.
"""

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from accounts.web.requests import PageRequest, go_to
from core.errors import InvalidInput
from flows.selectors import flows, runs
from flows.services import deletions


def delete_run(request: PageRequest, run_id: str) -> HttpResponse:
    """Ask whether a run is to be deleted; a POST deletes it."""
    run = runs.get_run(actor=request.actor, run_id=run_id)
    if request.method == "POST":
        deletions.delete_run(actor=request.actor, run=run)
        messages.success(request, f"Run {run.number} of {run.flow.name} is deleted.")
        return go_to(request, reverse("flows:flow", args=[run.project.name, run.flow.name]))
    context = {
        "what": f"{run.flow.name} run {run.number}",
        "kind": "run",
        "effects": deletions.foresee_run_deletion(actor=request.actor, run=run),
        "url": reverse("flows:delete_run", args=[run.pk]),
        "keep_url": reverse("flows:run", args=[run.pk]),
        "command": f"nearline run delete {run.pk}",
    }
    return _ask(request, context)


def delete_flow(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Ask whether a flow is to be deleted with its runs; a POST with its name typed once more deletes it."""
    flow = flows.get_flow(actor=request.actor, project=project, name=name)
    if request.method == "POST":
        if request.POST.get("confirmed") != name:
            raise InvalidInput("The name that was typed is not the flow's. Nothing was deleted.")
        deletions.delete_flow(actor=request.actor, flow=flow)
        messages.success(request, f"{project}/{name} is deleted.")
        return go_to(request, f"{reverse('flows:flows')}?project={project}")
    context = {
        "what": f"{project}/{name}",
        "kind": "flow",
        "typed": name,
        "effects": deletions.foresee_flow_deletion(actor=request.actor, flow=flow),
        "url": reverse("flows:delete", args=[project, name]),
        "keep_url": reverse("flows:flow", args=[project, name]),
        "command": f"nearline flow delete {project}/{name}",
    }
    return _ask(request, context)


def _ask(request: PageRequest, context: Mapping[str, object]) -> HttpResponse:
    return render(request, "flows/delete_dialog.html" if request.htmx else "flows/delete_page.html", dict(context))
