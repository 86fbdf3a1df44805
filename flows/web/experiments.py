"""Experiments: the table, one in full, several side by side, and the files that they left."""

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render

from accounts.selectors import list_projects
from accounts.web.requests import PageRequest, text
from core.pagination import paginate
from core.streaming import stream
from flows.models import Experiment
from flows.selectors import experiments as selectors
from flows.web.curves import metric_charts
from web.series import Sample, usage_charts

_ROWS = 50
_COLUMNS = 5
_MOST_CURVES = 8
_PIXELS = {"image/png", "image/jpeg", "image/gif", "image/webp"}


@dataclass(frozen=True)
class Row:
    """An experiment with the cells of the chosen columns."""

    experiment: Experiment
    hue: int
    parameters: Sequence[object]
    metrics: Sequence[object]


def experiments_page(request: PageRequest) -> HttpResponse:
    """List experiments, newest first, with the parameters and metrics that the address chooses as columns."""
    project, run = text(request, "project"), text(request, "run")
    found = selectors.list_experiments(actor=request.actor, project=project, run=run)
    page = paginate(found, cursor=text(request, "cursor"), limit=_ROWS)
    rows = list(page.items)
    metrics = selectors.metrics_of(rows)
    parameters = {row.pk: selectors.parameters_of(row) for row in rows}
    all_parameters, all_metrics = _keys(list(parameters.values())), _keys(list(metrics.values()))
    chosen_parameters = request.GET.getlist("p") or _telling(all_parameters, list(parameters.values()))
    chosen_metrics = request.GET.getlist("m") or all_metrics[:_COLUMNS]
    context = {
        "rows": [
            Row(
                row,
                number % 8,
                [parameters[row.pk].get(key) for key in chosen_parameters],
                [metrics[row.pk].get(key) for key in chosen_metrics],
            )
            for number, row in enumerate(rows)
        ],
        "all_parameters": all_parameters,
        "all_metrics": all_metrics,
        "chosen_parameters": chosen_parameters,
        "chosen_metrics": chosen_metrics,
        "next_cursor": page.next_cursor,
        "total": found.count(),
        "project": project,
        "projects": list_projects(actor=request.actor),
        "run": run,
        "moves": any(row.attempt.finished_at is None for row in rows),
    }
    return render(request, "flows/experiments_table.html" if request.htmx else "flows/experiments.html", context)


def experiment_page(request: PageRequest, experiment_id: str) -> HttpResponse:
    """Show everything that an attempt was given and what it left."""
    row = selectors.get_experiment(actor=request.actor, experiment_id=experiment_id)
    metrics = selectors.metrics_of([row])[row.pk]
    context = {
        "experiment": row,
        "project_name": row.project.name,
        "attempt": row.attempt,
        "job": row.attempt.job,
        "parameters": selectors.parameters_of(row),
        "metrics": metrics,
        "decision": row.step.decision,
        "artifacts": selectors.list_artifacts(actor=request.actor, experiment=row)[:500],
        "charts": metric_charts(request.actor, [row], list(metrics)),
        "usage": usage_charts(cast("Sequence[Sample]", selectors.list_usage(actor=request.actor, experiment=row))),
    }
    return render(request, "flows/experiment.html", context)


def compare_page(request: PageRequest) -> HttpResponse:
    """Put experiments side by side: what differs, and their curves over each other."""
    given = [part for value in request.GET.getlist("ids") for part in value.split(",")]
    wanted = list(dict.fromkeys(part.strip() for part in given if part.strip()))
    found = selectors.compare(actor=request.actor, experiment_ids=wanted)
    context = {
        "experiments": [(row, number % 8) for number, row in enumerate(found.experiments)],
        "groups": [
            ("Parameters", _differing(found.parameters)),
            ("Metrics", _differing(found.metrics)),
            ("Tags", _differing(found.tags)),
        ],
        "charts": metric_charts(request.actor, list(found.experiments), list(found.metrics)[:_MOST_CURVES]),
    }
    return render(request, "flows/compare.html", context)


def read_artifact(request: PageRequest, experiment_id: str, path: str) -> HttpResponseBase:
    """Send a file that an experiment left: a plain picture to be shown when asked for it, else to be saved."""
    row = selectors.get_experiment(actor=request.actor, experiment_id=experiment_id)
    artifact, pieces = selectors.open_artifact(actor=request.actor, experiment=row, path=path)
    kind = mimetypes.guess_type(path)[0]
    is_shown = "show" in request.GET and kind in _PIXELS
    response = stream(request, pieces, content_type=kind if is_shown and kind else "application/octet-stream")
    response["Content-Length"] = str(artifact.size_bytes)
    name = quote(path.rsplit("/", 1)[-1], safe="")
    response["Content-Disposition"] = "inline" if is_shown else f"attachment; filename*=UTF-8''{name}"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _keys(columns: Sequence[Mapping[str, object]]) -> list[str]:
    return sorted({key for column in columns for key in column})


def _telling(keys: Sequence[str], columns: Sequence[Mapping[str, object]]) -> list[str]:
    """Return a few keys, those first whose values differ between the rows."""

    def is_same(key: str) -> bool:
        return len({str(column.get(key)) for column in columns}) <= 1

    return sorted(keys, key=is_same)[:_COLUMNS]


def _differing(rows: Mapping[str, Sequence[object]]) -> list[tuple[str, Sequence[object], bool]]:
    return [(key, values, len({str(value) for value in values}) > 1) for key, values in rows.items()]
