"""One experiment: everything that it was given and what it left, its note, its tags and its files."""

from datetime import datetime
from typing import cast
from urllib.parse import quote, urlencode

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from compute.errors import ResourceUnreachable
from core.errors import InvalidInput
from core.streaming import picture_type, stream
from experiments.models import Experiment
from experiments.selectors import artifacts, curves, experiments, failures, sources
from experiments.selectors.artifact_previews import preview_of
from experiments.services import annotations, deletions
from experiments.web.curves import MOST_CHARTS, lines_of
from web.series import Chart, Sample, usage_charts

_MOST_FILES = 500
_TILES = 8


def experiment_page(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Show everything that an experiment was given and what it left."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    usage, is_reachable = _usage(request, row)
    shown = text(request, "artifact")
    curved = curves.list_curved(actor=request.actor, experiments=[row])
    values = experiments.metrics_of([row])[row.pk]
    metrics = sorted(values.items(), key=lambda item: (item[0] not in curved, "/" in item[0], item[0]))
    context = {
        "experiment": row,
        "times": experiments.times_of([row])[row.pk],
        "project_name": row.project.name,
        "job": row.job,
        "source": sources.describe(row),
        "parameters": dict(sorted(experiments.parameters_of(row).items())),
        "metrics": metrics,
        "tiles": metrics[:_TILES],
        "artifacts": artifacts.list_artifacts(actor=request.actor, experiment=row, limit=_MOST_FILES),
        "failures": failures.list_failures(actor=request.actor, experiment=row),
        "shown": shown,
        "preview": shown and _preview(request, row, shown),
        "lines": lines_of([row]),
        "ids": row.pk,
        "curved": curved[:MOST_CHARTS],
        "usage": usage,
        "usage_is_reachable": is_reachable,
        "deletion": deletions.find_effects(actor=request.actor, experiment=row),
        "may_write": (request.actor.level_in(row.project_id) or 0) >= Level.WRITE,
    }
    return render(request, "experiments/experiment.html", context)


@require_POST
def delete(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Delete the experiment."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    project = row.project.name
    deletions.delete_experiment(actor=request.actor, experiment=row)
    messages.success(request, f"The experiment '{row.title}' is deleted.")
    return redirect(f"{reverse('experiments:experiments')}?{urlencode({'project': project})}")


@require_POST
def write_note(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Replace the note."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    note, seen_at = request.POST.get("note", ""), _moment(request.POST.get("seen_at", ""))
    annotations.write_note(actor=request.actor, experiment=row, text=note, seen_at=seen_at)
    messages.success(request, "The note is kept.")
    return redirect("experiments:experiment", row.pk)


@require_POST
def set_tag(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Add a tag; `split=patient` gives it a value."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    key, _, value = request.POST.get("tag", "").partition("=")
    annotations.set_tag(actor=request.actor, experiment=row, key=key, value=value)
    return redirect("experiments:experiment", row.pk)


@require_POST
def remove_tag(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Take a tag away."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    annotations.remove_tag(actor=request.actor, experiment=row, key=request.POST.get("tag", ""))
    return redirect("experiments:experiment", row.pk)


def read_artifact(request: PageRequest, experiment_id: str, path: str) -> HttpResponseBase:
    """Send a file that an experiment left: a plain picture to be shown when asked for it, else to be saved."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    artifact, pieces = artifacts.open_artifact(actor=request.actor, experiment=row, path=path)
    kind = picture_type(path) if "show" in request.GET else None
    response = stream(request, pieces, content_type=kind or "application/octet-stream")
    response["Content-Length"] = str(artifact.size_bytes)
    name = quote(path.rsplit("/", 1)[-1], safe="")
    response["Content-Disposition"] = "inline" if kind else f"attachment; filename*=UTF-8''{name}"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _moment(given: str) -> datetime | None:
    try:
        return datetime.fromisoformat(given) if given else None
    except ValueError as error:
        raise InvalidInput("The form does not say which note it is about. Reload the page and try again.") from error


def _usage(request: PageRequest, row: Experiment) -> tuple[list[Chart], bool]:
    """Return the charts of what the job used, and whether the place where it ran answers at all."""
    try:
        samples = experiments.list_usage(actor=request.actor, experiment=row)
    except ResourceUnreachable:
        return [], False
    return usage_charts(cast("list[Sample]", samples)), True


def _preview(request: PageRequest, row: Experiment, path: str) -> dict[str, object]:
    artifact, pieces = artifacts.open_artifact(actor=request.actor, experiment=row, path=path)
    return {"artifact": artifact, "shown": preview_of(row, artifact, pieces)}
