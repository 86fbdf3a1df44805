"""Quotas: what each project is guaranteed, what it holds and asks for; changed here, or tried before."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core import clock, units
from core.errors import InvalidInput
from core.units import ONE_GPU
from scheduler.models import Queue
from scheduler.selectors import history, nodes, queues
from scheduler.selectors.packing import find_packing
from scheduler.services import queues as services
from scheduler.workers import cycle, packing, snapshots
from web.series import Chart, Series

_MOST_PROJECTS = 500
_HUES = 7
_PAST, _POINTS = timedelta(hours=2), 121


@dataclass(frozen=True)
class Row:
    """One project; GPUs in thousandths. `then_milli`: its fair share after the change that is tried."""

    queue: Queue
    hue: int
    held_milli: int
    asked_milli: int
    waiting: int
    fair_milli: int
    then_milli: int | None

    @property
    def borrowed_milli(self) -> int:
        """What it holds beyond its quota."""
        return max(0, self.held_milli - self.queue.gpu_quota_milli)

    @property
    def top_milli(self) -> int:
        """Where its bar ends."""
        return max(self.held_milli, self.queue.gpu_quota_milli, 1)


class QuotaForm(forms.Form):
    """What a project is guaranteed. Left empty: CPU and memory without bound, a weight as the GPU quota."""

    gpus = forms.FloatField(min_value=0, max_value=10**6, label="GPUs")
    cpu = forms.FloatField(min_value=0, max_value=10**9, required=False, label="CPU cores")
    memory = forms.CharField(max_length=30, required=False, label="Memory")
    weight = forms.FloatField(min_value=0, max_value=10**9, required=False, label="Over-quota weight")

    def clean_memory(self) -> int | None:
        """Read a size as people write it."""
        said = self.cleaned_data["memory"]
        try:
            return units.parse_bytes(said) if said else None
        except InvalidInput as error:
            raise forms.ValidationError(error.message) from error

    def read(self) -> services.Quota:
        """Return what the fields say."""
        said = self.cleaned_data
        return services.Quota(
            gpu_quota_milli=round(ONE_GPU * said["gpus"]),
            cpu_quota_millicores=None if said["cpu"] is None else round(1000 * said["cpu"]),
            memory_quota_bytes=said["memory"],
            over_quota_weight=said["weight"],
        )


def quotas_page(request: PageRequest) -> HttpResponse:
    """Show every project that the person may see; `try` names one whose quota would be as the other fields say."""
    only, tried = text(request, "project"), text(request, "try")
    visible: Iterable[Any] = queues.list_queues(actor=request.actor).order_by("project__name")[:_MOST_PROJECTS]
    found = list(visible)
    fair = cycle.fair_shares()
    changed = next((queue for queue in found if queue.project.name == tried), None)
    then = cycle.fair_shares({changed.pk: _as_tried(changed, request.GET)}) if changed is not None else {}
    rows = [_row_of(queue, number, fair, then) for number, queue in enumerate(found)]
    total = sum(ONE_GPU * len(node.gpus.all()) for node in nodes.list_nodes(actor=request.actor) if node.is_ready)
    shown = [row for row in rows if only in {None, row.queue.label}]
    context = {
        "rows": shown,
        "project_name": only,
        "total_milli": total,
        "quota_milli": sum(row.queue.gpu_quota_milli for row in rows),
        "tried": changed,
        "gpus": text(request, "gpus"),
        "packing": find_packing(),
        "enough_to_pack": packing.ENOUGH,
    }
    if request.htmx:
        return render(request, "scheduler/quotas_live.html", context)
    return render(request, "scheduler/quotas.html", context | {"chart": _chart_of(shown)})


@require_POST
def set_quota(request: PageRequest, project: str) -> HttpResponse:
    """Change what a project is guaranteed."""
    queue = queues.get_queue(actor=request.actor, project=project)
    services.require_set_quota(actor=request.actor)
    form = QuotaForm(request.POST)
    if form.is_valid():
        services.set_quota(actor=request.actor, queue=queue, **form.read())
        messages.success(request, f"The scheduler works with the new quota of {project} from the next second on.")
    else:
        messages.error(request, f"The quota of {project} stays. {_errors_of(form)}")
    return redirect("scheduler:quotas")


def _chart_of(rows: list[Row]) -> Chart | None:
    """Return the GPUs of each project in the last two hours; None if nobody held any."""
    now = clock.now()
    held = history.gpus_over_time([row.queue for row in rows], until=now, span=_PAST, points=_POINTS)
    lines = [
        Series(row.queue.label, row.hue, [milli / ONE_GPU for milli in held[row.queue.pk]])
        for row in rows
        if row.queue.pk in held
    ]
    minutes = [place - _POINTS + 1 for place in range(_POINTS)]
    return Chart("GPUs per project", minutes, "minutes from now", "", lines) if lines else None


def _as_tried(queue: Queue, said: QueryDict) -> Any:
    form = QuotaForm(said)
    if not form.is_valid():
        raise InvalidInput(f"This quota cannot be tried. {_errors_of(form)}")
    changed = copy(queue)
    for name, value in form.read().items():
        setattr(changed, name, value)
    return snapshots.view_queue(changed)


def _row_of(queue: Any, number: int, fair: Any, then: Any) -> Row:
    return Row(
        queue=queue,
        hue=number % _HUES,
        held_milli=queue.gpu_held_milli,
        asked_milli=queue.gpu_held_milli + queue.gpu_waiting_milli,
        waiting=queue.waiting_workloads,
        fair_milli=fair.get(queue.pk, 0),
        then_milli=then.get(queue.pk) if then else None,
    )


def _errors_of(form: QuotaForm) -> str:
    return "; ".join(f"{form[field].label}: {' '.join(map(str, errors))}" for field, errors in form.errors.items())
