"""One run, live: its graph, its timeline or its table, the panel of the chosen step, and what can be done about it.

The page is made of parts. A browser that has the page asks for it again with the version of each part that it shows,
and gets those that differ: what did not change stays as it is, with its scroll and its selection.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import blake2b

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.template import Context, RequestContext, Template
from django.template.loader import get_template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.web.requests import PageRequest, go_to, text
from core.errors import InvalidInput
from flows.errors import RunHasEnded
from flows.models import Run
from flows.selectors import failures, inputs
from flows.selectors import runs as selectors
from flows.selectors.specs import graph_of, spec_of
from flows.services import deletions, runs
from flows.web.graph_svg import draw_svg
from flows.web.run_graph import RunLinks, draw_run, to_json
from flows.web.step_panel import Panel, panel_of
from flows.web.steps_table import table_of
from flows.web.timeline import draw_timeline, path_of

VIEWS = ("graph", "timeline", "table")
HAS_PARTS = "X-Has-Parts"
_EVENTS, _FEW_ROWS = 100, 60
_KEPT = ("step", "index", "tab", "attempt", "show", "sort")
_UNKNOWN = 'data-version=""'


def run_page(request: PageRequest, run_id: str) -> HttpResponse:
    """Show a run; htmx is answered with the parts that are not among those that the page has."""
    context = _context(request, selectors.get_run(actor=request.actor, run_id=run_id))
    names = ["head", "step_head", "step_body", "list", "events"]
    if context["view"] == "graph":
        names.append("graph_data")
    parts = {name: _part(request, name, context) for name in names}
    if not request.htmx:
        return render(request, "flows/run.html", context | {"parts": {name: html for name, (html, _) in parts.items()}})
    had = set(request.headers.get(HAS_PARTS, "").split(","))
    changed = [html for name, (html, version) in parts.items() if f"{name}.{version}" not in had]
    return HttpResponse("".join([_render(request, "flows/run_live.html", context), *changed]))


@require_POST
def cancel(request: PageRequest, run_id: str) -> HttpResponse:
    """Stop a run. One that has ended since the page was shown is shown as it is."""
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    try:
        runs.cancel_run(actor=request.actor, run=run)
    except RunHasEnded as error:
        messages.info(request, error.message)
    else:
        messages.success(request, "The run is being cancelled.")
    return go_to(request, reverse("flows:run", args=[run.pk]))


@require_POST
def retry(request: PageRequest, run_id: str) -> HttpResponse:
    """Try what did not succeed again; or the step that `from` names (`train`, `train:2`), and all after it."""
    step, _, index = request.POST.get("from", "").partition(":")
    if index and not index.isdecimal():
        raise InvalidInput("The index of the step must be a number.")
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    run = runs.retry_run(actor=request.actor, run=run, step=step, index=int(index) if index else None)
    messages.success(
        request, f"{step} and what follows runs again." if step else "The steps that did not succeed run again."
    )
    return go_to(request, reverse("flows:run", args=[run.pk]))


def _context(request: PageRequest, run: Run) -> dict[str, object]:
    view = text(request, "view") or VIEWS[0]
    if view not in VIEWS:
        raise InvalidInput(f"There is no view '{view}'. There are: {', '.join(VIEWS)}.")
    spec = spec_of(run.version_id)
    steps = selectors.list_steps(actor=request.actor, run=run)
    path = path_of(run, steps)
    opened = request.GET.getlist("open")
    panel = panel_of(request, run, spec, steps)
    links = RunLinks(request)
    context: dict[str, object] = {
        "run": run,
        "links": links,
        "project_name": run.project.name,
        "view": view,
        "views": VIEWS,
        "spec": spec,
        "times": selectors.times_of(run, steps),
        "failures": failures.list_failures(actor=request.actor, run=run),
        "panel": panel,
        "path": path,
        "opened": opened,
        "events": selectors.list_events(actor=request.actor, run=run).order_by("-seq")[:_EVENTS],
        "may_write": (request.actor.level_in(run.project_id) or 0) >= Level.WRITE,
        "may_delete": deletions.may_delete_run(actor=request.actor, run=run),
        "is_cancelling": run.cancel_requested_at is not None and not run.has_ended,
        "below": _names_below(run, panel),
    }
    if view == "table":
        table = table_of(request, steps, links)
        query_pairs = [(name, value) for name, value in request.GET.items() if name in _KEPT]
        return context | {"table": table, "sort": table.sort, "query_pairs": query_pairs}
    context["timeline"] = draw_timeline(run, spec, steps, path, links=links, opened=opened).first(
        None if view == "timeline" else _FEW_ROWS
    )
    if view == "graph":
        read = list(inputs.list_inputs(actor=request.actor, run=run))
        graph = draw_run(run, spec, steps, read, critical=path.instances, opened=opened)
        context["graph_json"] = to_json(graph)
        if not request.htmx:
            context["svg"] = draw_svg(graph, links.box, f"step:{panel.name}")
    return context


class _PartContext(RequestContext):
    """Carries the request for the tags that ask for it, but nothing of the page's frame, which a part does not show."""

    def bind_template(self, template: Template) -> AbstractContextManager[None]:
        return Context.bind_template(self, template)


def _render(request: PageRequest, name: str, context: Mapping[str, object]) -> SafeString:
    template: Template = get_template(name).template  # type: ignore[attr-defined]  # a template of Django's own engine
    return template.render(_PartContext(request, {**context, "request": request}))


def _part(request: PageRequest, name: str, context: Mapping[str, object]) -> tuple[SafeString, str]:
    """Return a part of the page and its version, which it carries itself."""
    html = _render(request, f"flows/run_{name}.html", context)
    version = blake2b(html.encode(), digest_size=6).hexdigest()
    return mark_safe(html.replace(_UNKNOWN, f'data-version="{version}"', 1)), version  # noqa: S308 (made by a template)


def _names_below(run: Run, panel: Panel) -> list[str]:
    """Return the steps that a retry from the chosen one would run besides it."""
    below = graph_of(run.version_id).below(panel.step.key) if panel.step else frozenset[str]()
    return sorted(below)
