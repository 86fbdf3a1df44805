"""Routes of experiments."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from django.http.response import HttpResponseBase
from ninja import Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core import streaming
from core.pagination import Cursor, Limit, Page
from experiments.api import schemas
from experiments.models import Experiment
from experiments.selectors import artifacts, curves, experiments, lists, sources
from experiments.selectors.curves import Curve
from experiments.services import annotations, deletions, recording
from experiments.services.recording import Point, Values

router = Router()


@router.get("/experiments", response=schemas.ExperimentPageOut, operation_id="experiments_list")
def list_experiments(
    request: ApiRequest,
    *,
    project: str | None = None,
    run: str | None = None,
    filter: str | None = None,  # noqa: A002 (the name that the address has)
    sort: str | None = None,
    recorded: bool = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[object]:
    """List experiments with the last values of their metrics, newest first.

    There is one for every attempt of every step and for every job that a person submitted, besides those that programs
    create. With `recorded` only those that recorded a metric, a parameter or an artifact, or that somebody tagged or
    wrote about.

    `filter` is such as `metrics.accuracy > 0.9 and params.lr in (0.1, 0.3)`, `sort` such as `-metrics.accuracy`.
    """
    rows = lists.find(actor=request.actor, project=project, run=run, where=filter, order=sort, is_recorded=recorded)
    page = lists.page_of(rows, is_sorted=bool(sort), cursor=cursor, limit=limit)
    shown = _experiments_out(page.items)
    return page.map(lambda row: shown[row.pk])


@router.get("/experiments/compare", response=schemas.ComparisonOut, operation_id="experiments_compare")
def compare(request: ApiRequest, ids: str) -> dict[str, Any]:
    """Put experiments side by side; `ids` are separated by commas."""
    experiment_ids = list(dict.fromkeys(part.strip() for part in ids.split(",") if part.strip()))
    comparison = experiments.compare(actor=request.actor, experiment_ids=experiment_ids)
    shown = _experiments_out(comparison.experiments)
    return {
        "experiments": [shown[row.pk] for row in comparison.experiments],
        "parameters": comparison.parameters,
        "metrics": comparison.metrics,
        "tags": comparison.tags,
    }


@router.get("/experiments/{experiment_id}", response=schemas.ExperimentDetailOut, operation_id="experiments_get")
def get_experiment(request: ApiRequest, experiment_id: str) -> dict[str, Any]:
    """Return everything that an experiment was given and what it left."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return _experiment_out(row) | {
        "data": row.datasets,
        "code": row.code,
        "decision": sources.describe(row).decision,
        "artifacts": artifacts.list_artifacts(actor=request.actor, experiment=row),
        "artifacts_error": row.artifacts_error,
        "log_problems": row.problems,
        "usage": experiments.list_usage(actor=request.actor, experiment=row),
        "job_name": row.job_name,
        "note": row.note,
        "note_by": row.note_by,
        "note_at": row.note_at,
    }


@router.post("/experiments", response={201: schemas.ExperimentOut}, operation_id="experiments_create")
def create_experiment(request: ApiRequest, body: schemas.ExperimentIn) -> Status[dict[str, Any]]:
    """Create an experiment that belongs to no job, for a program that runs elsewhere. It runs until it is finished."""
    project = get_project(actor=request.actor, name=body.project)
    row = recording.create_experiment(actor=request.actor, project=project, title=body.title, values=_values(body))
    return Status(201, _experiment_out(row))


@router.post("/experiments/{experiment_id}/records", response=schemas.ExperimentOut, operation_id="experiments_record")
def record_values(request: ApiRequest, experiment_id: str, body: schemas.RecordsIn) -> dict[str, Any]:
    """Record parameters, tags and measurements of an experiment that belongs to no job."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    row = recording.record_values(actor=request.actor, experiment=row, values=_values(body))
    return _experiment_out(row)


@router.post("/experiments/{experiment_id}/finish", response=schemas.ExperimentOut, operation_id="experiments_finish")
def finish_experiment(request: ApiRequest, experiment_id: str, body: schemas.FinishIn) -> dict[str, Any]:
    """End an experiment that belongs to no job."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    row = recording.finish_experiment(actor=request.actor, experiment=row, state=body.state, reason=body.reason)
    return _experiment_out(row)


@router.get(
    "/experiments/{experiment_id}/deletion",
    response=schemas.ExperimentDeletionOut,
    operation_id="experiments_foresee_deletion",
)
def foresee_deletion(request: ApiRequest, experiment_id: str) -> schemas.ExperimentDeletionOut:
    """Say what the deletion of an experiment would mean. Nothing changes."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return schemas.ExperimentDeletionOut(
        effects=list(deletions.foresee_deletion(actor=request.actor, experiment=row)),
    )


@router.delete("/experiments/{experiment_id}", response={204: None}, operation_id="experiments_delete")
def delete_experiment(request: ApiRequest, experiment_id: str) -> Status[None]:
    """Delete an experiment that has ended and is not of a run: your own, or as an admin of its project any."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    deletions.delete_experiment(actor=request.actor, experiment=row)
    return Status(204, None)


@router.put("/experiments/{experiment_id}/note", response=schemas.NoteOut, operation_id="experiments_write_note")
def write_note(request: ApiRequest, experiment_id: str, body: schemas.NoteIn) -> Experiment:
    """Replace the note of an experiment. A 409 says that somebody wrote another since `seen_at`."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return annotations.write_note(actor=request.actor, experiment=row, text=body.note, seen_at=body.seen_at)


@router.put(
    "/experiments/{experiment_id}/tags/{path:key}",
    response=schemas.ExperimentTagsOut,
    operation_id="experiments_set_tag",
)
def set_tag(request: ApiRequest, experiment_id: str, key: str, body: schemas.ExperimentTagIn) -> Experiment:
    """Add a tag to an experiment, or give it another value."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return annotations.set_tag(actor=request.actor, experiment=row, key=key, value=body.value)


@router.delete(
    "/experiments/{experiment_id}/tags/{path:key}",
    response=schemas.ExperimentTagsOut,
    operation_id="experiments_remove_tag",
)
def remove_tag(request: ApiRequest, experiment_id: str, key: str) -> Experiment:
    """Take a tag away from an experiment."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return annotations.remove_tag(actor=request.actor, experiment=row, key=key)


@router.get("/experiments/{experiment_id}/metrics", response=schemas.CurveOut, operation_id="experiments_read_metric")
def read_metric(request: ApiRequest, experiment_id: str, key: str) -> Curve:
    """Return the points of one metric; of many, those that show its shape."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    return curves.read_curve(actor=request.actor, experiment=row, key=key)


@router.get(
    "/experiments/{experiment_id}/artifacts/{file:path}",
    response={200: bytes},
    operation_id="experiments_download_artifact",
)
def download_artifact(request: ApiRequest, experiment_id: str, path: str) -> HttpResponseBase:
    """Return the bytes of one file that an experiment left."""
    row = experiments.get_experiment(actor=request.actor, experiment_id=experiment_id)
    artifact, pieces = artifacts.open_artifact(actor=request.actor, experiment=row, path=path)
    picture = streaming.picture_type(path)
    response = streaming.stream(request, pieces, content_type=picture or "application/octet-stream")
    response["Content-Length"] = str(artifact.size_bytes)
    shown = "inline" if picture else "attachment"
    response["Content-Disposition"] = f"{shown}; filename*=UTF-8''{quote(path.rsplit('/', 1)[-1])}"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    response["ETag"] = f'"{artifact.content_hash}"'
    return response


def _values(body: schemas.RecordsIn) -> Values:
    points = [Point(item.key, float(item.value), item.step, item.at) for item in body.metrics]
    return Values(parameters=body.parameters, tags=body.tags, metrics=points)


def _experiment_out(row: Experiment) -> dict[str, Any]:
    return _experiments_out([row])[row.pk]


def _experiments_out(rows: Sequence[Experiment]) -> dict[str, dict[str, Any]]:
    metrics, times = experiments.metrics_of(rows), experiments.times_of(rows)
    return {row.pk: _facts_of(row) | {"metrics": metrics[row.pk], "times": times[row.pk]} for row in rows}


def _facts_of(row: Experiment) -> dict[str, Any]:
    return {
        "id": row.pk,
        "project": row.project.name,
        "run": row.run_id,
        "flow": row.flow,
        "run_number": row.run_number or 0,
        "step": row.step_key,
        "index": row.step_index or 0,
        "attempt": row.attempt_number or 0,
        "label": row.title,
        "title": row.title,
        "state": row.state,
        "reason": row.reason,
        "parameters": experiments.parameters_of(row),
        "tags": row.tags,
        "template": row.template,
        "is_simulated": row.is_simulated,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "url": experiments.url_of(row),
    }
