"""Flows: the list, one flow with its source and versions, writing one, and running it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from accounts.permissions import Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from flows.engine.problems import Problem
from flows.models import Flow, Run
from flows.selectors import flows as selectors
from flows.selectors import runs as run_selectors
from flows.selectors import strips
from flows.services import flows, runs
from flows.services.flows import Validation
from flows.services.snapshots import spec_of
from flows.web.graph_view import draw_flow

_ROWS = 50
_SQUARES = 14
_RUNS = 15
_FIELD = "parameter:"


@dataclass(frozen=True)
class Row:
    """A flow with its last runs, oldest first."""

    flow: Flow
    runs: Sequence[Run]


@dataclass(frozen=True)
class Line:
    """A line of a flow's source, and what is wrong there."""

    number: int
    text: str
    problems: Sequence[Problem]


def flows_page(request: PageRequest) -> HttpResponse:
    """List flows, newest first."""
    project = text(request, "project")
    page = paginate(
        selectors.list_flows(actor=request.actor, project=project), cursor=text(request, "cursor"), limit=_ROWS
    )
    last = strips.last_runs(actor=request.actor, flows=list(page.items), count=_SQUARES)
    context = {
        "rows": [Row(flow, last[flow.pk]) for flow in page.items],
        "next_cursor": page.next_cursor,
        "project": project,
        "may_write": bool(_writable(request)),
    }
    return render(request, "flows/flows.html", context)


def flow_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show a version of a flow: its picture, its source with what is wrong now, its runs, and the form to run it."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    version = selectors.get_version(actor=request.actor, flow=flow, version=text(request, "version"))
    checked = flows.validate_spec(
        actor=request.actor,
        project=flow.project,
        text=version.text,
        file_format="json" if version.format == "json" else "yaml",
    )
    spec = spec_of(version.pk)
    context = {
        "flow": flow,
        "project_name": flow.project.name,
        "version": version,
        "spec": spec,
        "graph": draw_flow(spec),
        "checked": checked,
        "lines": _lines(version.text, checked),
        "versions": selectors.list_versions(actor=request.actor, flow=flow)[:_ROWS],
        "runs": run_selectors.list_runs(actor=request.actor, project=project, flow=name)[:_RUNS],
        "may_write": (request.actor.level_in(flow.project_id) or 0) >= Level.WRITE,
        "field": _FIELD,
    }
    return render(request, "flows/flow.html", context)


@require_POST
def run(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Start a run with the values of the form, and show it."""
    flow = selectors.get_flow(actor=request.actor, project=project, name=name)
    version = selectors.get_version(actor=request.actor, flow=flow, version=request.POST.get("version") or None)
    given = {
        key.removeprefix(_FIELD): str(value)
        for key, value in request.POST.items()
        if key.startswith(_FIELD) and value != ""
    }
    started = runs.start_run(actor=request.actor, version=version, parameters=given)
    url = reverse("flows:run", args=[started.pk])
    return HttpResponseClientRedirect(url) if request.htmx else redirect(url)


def edit_page(request: PageRequest, project: str = "", name: str = "") -> HttpResponse:
    """Write a flow, new or as a new version. A POST keeps it, or shows every problem with its line."""
    source, target = "", project or text(request, "project") or ""
    if name:
        flow = selectors.get_flow(actor=request.actor, project=project, name=name)
        source = selectors.get_version(actor=request.actor, flow=flow).text
    context: dict[str, object] = {"projects": _writable(request), "name": name, "is_example": not source}
    if request.method == "POST":
        target, source = request.POST.get("project", target), request.POST.get("text", "").replace("\r\n", "\n")
        owner = get_project(actor=request.actor, name=target)
        checked = flows.validate_spec(actor=request.actor, project=owner, text=source)
        if checked.spec is not None and not request.htmx:
            version = flows.save_version(actor=request.actor, project=owner, text=source)
            messages.success(request, f"Version {version.number} of {version.flow.name} is kept.")
            return redirect("flows:flow", project=target, name=version.flow.name)
        context |= {"checked": checked, "lines": _lines(source, checked)}
        if request.htmx:
            return render(request, "flows/problems.html", context)
    return render(request, "flows/edit.html", context | {"source": source, "target": target, "project_name": project})


def _lines(source: str, checked: Validation) -> list[Line]:
    found = (*checked.problems, *checked.notes)
    return [
        Line(number, line, [problem for problem in found if problem.line == number and not problem.is_note])
        for number, line in enumerate(source.splitlines(), start=1)
    ]


def _writable(request: PageRequest) -> list[str]:
    return [
        each.name
        for each in list_projects(actor=request.actor)
        if (request.actor.level_in(each.id) or 0) >= Level.WRITE
    ]
