"""One run, live: its picture, its steps, why each is where it is, and the log of the chosen one."""

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from core.errors import InvalidInput
from flows.models import Run
from flows.selectors import inputs
from flows.selectors import runs as selectors
from flows.selectors.runs import StepView
from flows.services import runs
from flows.services.snapshots import spec_of
from flows.web.graph_view import draw_run, label_of
from flows.web.timeline import rows_of

_MOST_ROWS = 200
_EVENTS = 200
_WORTH_A_LOOK = ("failed", "running", "queued", "preparing", "backoff", "succeeded")


def run_page(request: PageRequest, run_id: str) -> HttpResponse:
    """Show a run; htmx asks for what moves while it is not over."""
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    spec = spec_of(run.version_id)
    steps = selectors.list_steps(actor=request.actor, run=run)
    read = list(inputs.list_inputs(actor=request.actor, run=run))
    wanted = text(request, "show")
    shown = [step for step in steps if wanted is None or step.state == wanted]
    chosen = _chosen(request, steps)
    attempt = _shown_attempt(request, chosen)
    log_name = f"{chosen.key}:{chosen.index or 0}:{attempt}" if chosen and attempt else ""
    context = {
        "run": run,
        "project_name": run.project.name,
        "spec": spec,
        "graph": draw_run(run, spec, steps, read),
        "rows": rows_of(run, spec, shown[:_MOST_ROWS]),
        "shown_count": len(shown),
        "step_count": len(steps),
        "states": sorted({step.state for step in steps}),
        "wanted": wanted,
        "chosen": chosen,
        "chosen_label": chosen and label_of(chosen, spec.step(chosen.key)),
        "attempt": attempt,
        "log_name": log_name,
        "log_changed": log_name != text(request, "log"),
        "live_query": _live_query(request, log_name),
        "events": selectors.list_events(actor=request.actor, run=run).order_by("-seq")[:_EVENTS],
        "inputs": [
            item
            for item in read
            if chosen and item.attempt.step.key == chosen.key and item.attempt.step.index == (chosen.index or 0)
        ],
        "said": chosen and spec.step(chosen.key),
        "may_write": (request.actor.level_in(run.project_id) or 0) >= Level.WRITE,
        "is_cancelling": run.cancel_requested_at is not None and not run.has_ended,
    }
    return render(request, "flows/run_live.html" if request.htmx else "flows/run.html", context)


def read_log(request: PageRequest, run_id: str, key: str) -> HttpResponse:
    """Answer with what a step printed after `offset`, as JSON for `<log-view>`."""
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    part = selectors.read_log(
        actor=request.actor,
        run=run,
        key=key,
        index=_number(request, "index"),
        attempt=_number(request, "attempt"),
        offset=_number(request, "offset") or 0,
    )
    return JsonResponse({"text": part.data, "next_offset": part.next_offset, "is_complete": part.is_complete})


@require_POST
def cancel(request: PageRequest, run_id: str) -> HttpResponse:
    """Stop a run."""
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    runs.cancel_run(actor=request.actor, run=run)
    messages.success(request, "The run is being cancelled.")
    return _go(request, run)


@require_POST
def retry(request: PageRequest, run_id: str) -> HttpResponse:
    """Try what did not succeed again."""
    run = runs.retry_run(actor=request.actor, run=selectors.get_run(actor=request.actor, run_id=run_id))
    messages.success(request, "What did not succeed is tried again.")
    return _go(request, run)


@require_POST
def run_again(request: PageRequest, run_id: str) -> HttpResponse:
    """Start a new run of the same version with the same parameters."""
    run = selectors.get_run(actor=request.actor, run_id=run_id)
    started = runs.start_run(actor=request.actor, version=run.version, parameters=run.parameters)
    return _go(request, started)


def _chosen(request: PageRequest, steps: list[StepView]) -> StepView | None:
    """Return the step that the address names; without, the one whose log is shown, or the one most worth a look."""
    key, index = text(request, "step"), _number(request, "index")
    if key is not None:
        named = [step for step in steps if step.key == key and index in {None, step.index}]
        return named[0] if named else None
    shown = text(request, "log") or ""
    for step in steps:
        if step.finished_at is None and shown.startswith(f"{step.key}:{step.index or 0}:"):
            return step
    for state in _WORTH_A_LOOK:
        found = [step for step in steps if step.state == state]
        if found:
            return found[-1] if state == "succeeded" else found[0]
    return steps[0] if steps else None


def _shown_attempt(request: PageRequest, step: StepView | None) -> int | None:
    """Return the number of the attempt whose log is shown."""
    if step is None or not step.attempts:
        return None
    wanted = _number(request, "attempt")
    return wanted if wanted in {attempt.number for attempt in step.attempts} else step.attempts[-1].number


def _live_query(request: PageRequest, log_name: str) -> str:
    """Return the address of the live part: it says which log the page shows, so that only another one replaces it."""
    query = request.GET.copy()
    query["log"] = log_name
    return query.urlencode()


def _number(request: PageRequest, name: str) -> int | None:
    value = text(request, name)
    if value is None or value == "None":
        return None
    if not value.isdecimal():
        raise InvalidInput(f"'{name}' must be a number.")
    return int(value)


def _go(request: PageRequest, run: Run) -> HttpResponse:
    url = reverse("flows:run", args=[run.pk])
    return HttpResponseClientRedirect(url) if request.htmx else redirect(url)
