"""Routes of flows, their versions, and runs."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from ninja import Query, Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core import bounds
from core.bodies import raw_body
from core.pagination import Cursor, Limit, Page, paginate
from datasets.selectors.commits import get_upload
from flows.api import schemas
from flows.api.editor_routes import router as editor_router
from flows.engine import spec
from flows.models import Bundle, Flow, FlowVersion, Run
from flows.selectors import failures
from flows.selectors import flows as flow_selectors
from flows.selectors import runs as run_selectors
from flows.selectors.runs import LogText
from flows.services import bundles, deletions, flows, outputs, runs
from flows.services.outputs import KeptOutput
from flows.services.runs import CodeVersion

router = Router()
router.add_router("", editor_router)

_EVENTS_AT_ONCE = 1000


@router.get(
    "/flows/schema.json",
    response={200: None},
    operation_id="flows_get_schema",
    openapi_extra={"responses": {200: {"content": {"application/schema+json": {"schema": {"type": "object"}}}}}},
)
def get_schema(request: ApiRequest) -> HttpResponse:  # noqa: ARG001 (the same for everybody)
    """Return the JSON Schema of flow files."""
    return JsonResponse(spec.json_schema(), content_type="application/schema+json")


@router.post("/flows/validate", response=schemas.ValidationOut, operation_id="flows_validate")
def validate(request: ApiRequest, body: schemas.ValidateIn) -> dict[str, Any]:
    """Find everything that is wrong with a flow file. Nothing is stored."""
    project = get_project(actor=request.actor, name=body.project)
    validation = flows.validate_spec(actor=request.actor, project=project, text=body.text, file_format=body.format)
    return {
        "is_valid": validation.spec is not None,
        "spec": validation.spec.model_dump(mode="json", exclude_defaults=True) if validation.spec else None,
        "problems": [asdict(problem) for problem in (*validation.problems, *validation.notes)],
    }


@router.post(
    "/flows/bundles",
    response={201: schemas.BundleOut},
    operation_id="flows_save_bundle",
    openapi_extra=raw_body("application/gzip"),
)
def save_bundle(request: ApiRequest, project: str) -> Status[dict[str, Any]]:
    """Keep a folder of code, sent as a tar.gz in the body, for flows to be pushed with: at most 20 MiB.

    For clients that do not send trees.
    """
    owner = get_project(actor=request.actor, name=project)
    bundle = bundles.save_bundle(actor=request.actor, project=owner, data=request.read(bundles.MAX_ARCHIVE_BYTES + 1))
    return Status(201, _bundle_out(bundle))


@router.post("/code/uploads", response={201: schemas.CodeUploadOut}, operation_id="flows_start_code_upload")
def start_code_upload(request: ApiRequest, body: schemas.CodeUploadIn) -> Status[dict[str, Any]]:
    """Begin to upload a folder of code as a tree; packs and manifests follow as for a commit."""
    project = get_project(actor=request.actor, name=body.project)
    started = bundles.start_upload(actor=request.actor, project=project, client_id=body.client_id)
    upload = started.upload
    out = {"id": upload.pk, "expires_at": upload.expires_at, "put_proof": upload.dataset.store.put_proof}
    return Status(201, out | {"known_roots": started.known_roots})


@router.post("/code/trees", response={201: schemas.BundleOut}, operation_id="flows_save_code_tree")
def save_code_tree(request: ApiRequest, body: schemas.CodeTreeIn) -> Status[dict[str, Any]]:
    """Keep an uploaded tree as code for flows to be pushed with."""
    upload = get_upload(actor=request.actor, upload_id=body.upload)
    return Status(201, _bundle_out(bundles.save_tree(actor=request.actor, upload=upload, root=body.root)))


@router.post("/flows", response={201: schemas.FlowVersionOut}, operation_id="flows_save_version")
def save_version(request: ApiRequest, body: schemas.FlowIn) -> Status[dict[str, Any]]:
    """Store a flow as a version; the same content is the same version."""
    project = get_project(actor=request.actor, name=body.project)
    version = flows.save_version(
        actor=request.actor, project=project, text=body.text, file_format=body.format, bundle=body.bundle
    )
    return Status(201, _version_out(version))


@router.get("/flows", response=schemas.FlowPageOut, operation_id="flows_list")
def list_flows(
    request: ApiRequest, project: str | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[object]:
    """List flows, newest first."""
    flow_rows = flow_selectors.list_flows(actor=request.actor, project=project)
    return paginate(flow_rows, cursor=cursor, limit=limit).map(_flow_out)


@router.get("/flows/{project}/{name}", response=schemas.FlowDetailOut, operation_id="flows_get")
def get_flow(request: ApiRequest, project: str, name: str, version: str | None = None) -> dict[str, Any]:
    """Return a flow and what its newest version says, or the version asked for."""
    flow = flow_selectors.get_flow(actor=request.actor, project=project, name=name)
    record = flow_selectors.get_version(actor=request.actor, flow=flow, version=version)
    detail = {"format": record.format, "text": record.text, "spec": record.spec}
    return _flow_out(flow) | {"version": _version_out(record) | detail}


@router.get("/flows/{project}/{name}/deletion", response=schemas.FlowDeletionOut, operation_id="flows_foresee_deletion")
def foresee_flow_deletion(request: ApiRequest, project: str, name: str) -> dict[str, Any]:
    """Say what the deletion of a flow would mean. Nothing changes. Refused as the deletion would be."""
    flow = flow_selectors.get_flow(actor=request.actor, project=project, name=name)
    return {"effects": deletions.foresee_flow_deletion(actor=request.actor, flow=flow)}


@router.delete("/flows/{project}/{name}", response={204: None}, operation_id="flows_delete")
def delete_flow(request: ApiRequest, project: str, name: str) -> Status[None]:
    """Delete a flow none of whose runs goes on, with its versions and runs. It cannot be restored.

    Admins of its project may.
    """
    flow = flow_selectors.get_flow(actor=request.actor, project=project, name=name)
    deletions.delete_flow(actor=request.actor, flow=flow)
    return Status(204, None)


@router.get("/flows/{project}/{name}/versions", response=schemas.FlowVersionPageOut, operation_id="flows_list_versions")
def list_versions(
    request: ApiRequest, project: str, name: str, cursor: Cursor = None, limit: Limit = 50
) -> Page[object]:
    """List the versions of a flow, newest first."""
    flow = flow_selectors.get_flow(actor=request.actor, project=project, name=name)
    versions = flow_selectors.list_versions(actor=request.actor, flow=flow)
    return paginate(versions, cursor=cursor, limit=limit).map(_version_out)


@router.post("/flows/{project}/{name}/runs", response={201: schemas.RunDetailOut}, operation_id="flows_start_run")
def start_run(request: ApiRequest, project: str, name: str, body: schemas.RunIn) -> Status[dict[str, Any]]:
    """Start a run. Dataset references are resolved to commits now, once for the whole run."""
    flow = flow_selectors.get_flow(actor=request.actor, project=project, name=name)
    version = flow_selectors.get_version(actor=request.actor, flow=flow, version=body.version)
    code = CodeVersion(**body.code.model_dump()) if body.code else None
    run = runs.start_run(actor=request.actor, version=version, parameters=body.parameters, code=code, data=body.data)
    return Status(201, _run_detail(request, run))


@router.get("/runs", response=schemas.RunPageOut, operation_id="flows_list_runs")
def list_runs(
    request: ApiRequest,
    which: Query[schemas.RunFilter],
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[object]:
    """List runs, newest first."""
    runs = run_selectors.list_runs(actor=request.actor, **which.model_dump())
    return paginate(runs, cursor=cursor, limit=limit).map(_run_out)


@router.get("/runs/{run_id}", response=schemas.RunDetailOut, operation_id="flows_get_run")
def get_run(request: ApiRequest, run_id: str) -> dict[str, Any]:
    """Return a run with its steps, their tries, and why each is where it is."""
    return _run_detail(request, run_selectors.get_run(actor=request.actor, run_id=run_id))


@router.get("/runs/{run_id}/deletion", response=schemas.FlowDeletionOut, operation_id="flows_foresee_run_deletion")
def foresee_run_deletion(request: ApiRequest, run_id: str) -> dict[str, Any]:
    """Say what the deletion of a run would mean. Nothing changes. Refused as the deletion would be."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    return {"effects": deletions.foresee_run_deletion(actor=request.actor, run=run)}


@router.delete("/runs/{run_id}", response={204: None}, operation_id="flows_delete_run")
def delete_run(request: ApiRequest, run_id: str) -> Status[None]:
    """Delete a run that has ended, with its steps, logs, outputs and experiments. It cannot be restored.

    Who started it may, and admins of its project. Dataset versions that were kept of its outputs stay.
    """
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    deletions.delete_run(actor=request.actor, run=run)
    return Status(204, None)


@router.get("/runs/{run_id}/events", response=schemas.EventPageOut, operation_id="flows_list_events")
def list_events(request: ApiRequest, run_id: str, after: bounds.Count = 0) -> dict[str, Any]:
    """Return what happened in a run after the event with that number, oldest first."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    events = list(run_selectors.list_events(actor=request.actor, run=run, after=after)[:_EVENTS_AT_ONCE])
    last = events[-1].seq if events else after
    return {"items": events, "last_seq": last, "is_complete": run.has_ended and last >= run.event_seq}


@router.post("/runs/{run_id}/cancel", response=schemas.RunDetailOut, operation_id="flows_cancel_run")
def cancel_run(request: ApiRequest, run_id: str) -> dict[str, Any]:
    """Stop what runs and start nothing more."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    return _run_detail(request, runs.cancel_run(actor=request.actor, run=run))


@router.post("/runs/{run_id}/retry", response=schemas.RunDetailOut, operation_id="flows_retry_run")
def retry_run(request: ApiRequest, run_id: str, body: schemas.RetryIn | None = None) -> dict[str, Any]:
    """Try the steps again that did not succeed; or one step, and all after it. The rest is kept."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    wish = body or schemas.RetryIn()
    return _run_detail(request, runs.retry_run(actor=request.actor, run=run, step=wish.step, index=wish.index))


@router.get("/runs/{run_id}/steps/{key}/log", response=schemas.StepLogOut, operation_id="flows_read_log")
def read_log(request: ApiRequest, run_id: str, key: str, part: Query[schemas.LogPart]) -> LogText:
    """Return part of what a step printed; `offset` and `limit` are in bytes. Without `attempt`: the newest."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    return run_selectors.read_log(actor=request.actor, run=run, key=key, **part.model_dump())


@router.post("/runs/{run_id}/steps/{key}/keep", response={201: schemas.KeptOutputOut}, operation_id="flows_keep_output")
def keep_output(request: ApiRequest, run_id: str, key: str, body: schemas.KeepIn) -> Status[KeptOutput]:
    """Make the output of a step the newest version of a dataset, with its files and no others. Nothing is copied."""
    run = run_selectors.get_run(actor=request.actor, run_id=run_id)
    commit = outputs.keep_output(
        actor=request.actor,
        run=run,
        step=key,
        index=body.index,
        dataset=body.dataset,
        message=body.message,
        creates=body.create,
        allow_collisions=body.allow_collisions,
    )
    return Status(201, commit)


def _flow_out(flow: Flow) -> dict[str, Any]:
    return {
        "id": flow.pk,
        "project": flow.project.name,
        "name": flow.name,
        "title": flow.title,
        "description": flow.description,
        "newest_version": {
            "number": getattr(flow, "newest_number", None),
            "hash": getattr(flow, "newest_hash", None),
        },
        "url": f"{settings.NEARLINE.url}/flows/{flow.project.name}/{flow.name}/",
        "created_at": flow.created_at,
        "updated_at": flow.updated_at,
    }


def _bundle_out(bundle: Bundle) -> dict[str, Any]:
    return {"bundle": bundle.sha256, "size_bytes": bundle.size_bytes, "files": bundle.files}


def _version_out(version: FlowVersion) -> dict[str, Any]:
    return {
        "id": version.pk,
        "project": version.flow.project.name,
        "flow": version.flow.name,
        "number": version.number,
        "hash": version.hash,
        "bundle": version.bundle,
        "created_by": version.created_by,
        "created_at": version.created_at,
    }


def _run_out(run: Run) -> dict[str, Any]:
    return {
        "id": run.pk,
        "project": run.project.name,
        "flow": run.flow.name,
        "number": run.number,
        "version": run.version.hash,
        "state": run.state,
        "reason": run.reason,
        "is_cancelling": run.cancel_requested_at is not None and not run.has_ended,
        "parameters": run.parameters,
        "datasets": list(run.datasets.values()),
        "code": run.code,
        "created_by": run.created_by,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "total_s": run_selectors.total_s(run),
        "url": run_selectors.url_of(run),
    }


def _run_detail(request: ApiRequest, run: Run) -> dict[str, Any]:
    steps = run_selectors.list_steps(actor=request.actor, run=run)
    return _run_out(run) | {
        "steps": steps,
        "times": run_selectors.times_of(run, steps),
        "failures": failures.list_failures(actor=request.actor, run=run),
    }
