"""Flows: the list, and one flow with its picture, its source, its runs and its versions."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from flows.models import Flow, Run
from flows.selectors import flows as selectors
from flows.selectors import runs as run_selectors
from flows.selectors.specs import spec_of
from flows.services import flows
from flows.web import run_form
from flows.web.graph_view import draw_flow
from flows.web.source import lines_of

_ROWS = 50
_SQUARES = 14
_RUNS = 15


@dataclass(frozen=True)
class FlowRow:
    """A flow with its last runs, oldest first."""

    flow: Flow
    runs: Sequence[Run]


def flows_page(request: PageRequest) -> HttpResponse:
    """List flows, newest first."""
    project = text(request, "project")
    page = paginate(
        selectors.list_flows(actor=request.actor, project=project), cursor=text(request, "cursor"), limit=_ROWS
    )
    last = run_selectors.list_last_runs(actor=request.actor, flows=list(page.items), count=_SQUARES)
    context = {
        "rows": [FlowRow(flow, last[flow.pk]) for flow in page.items],
        "next_cursor": page.next_cursor,
        "project": project,
        "may_write": request.actor.may_write_somewhere,
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
    runs = run_selectors.list_runs(actor=request.actor, project=project, flow=name)
    page = paginate(runs, cursor=text(request, "runs"), limit=_RUNS)
    context = {
        "flow": flow,
        "project_name": flow.project.name,
        "version": version,
        "spec": spec,
        "graph": draw_flow(spec, version.layout),
        "checked": checked,
        "may_be_simulated": any(note.code == "simulated" for note in checked.notes),
        "lines": lines_of(version.text, checked),
        "versions": selectors.list_versions(actor=request.actor, flow=flow)[:_ROWS],
        "runs": page.items,
        "older_runs": page.next_cursor,
        "may_write": (request.actor.level_in(flow.project_id) or 0) >= Level.WRITE,
        "may_delete": request.actor.level_in(flow.project_id) == Level.ADMIN,
        "needs_values": run_form.needs_values(spec),
    }
    return render(request, "flows/flow.html", context)
