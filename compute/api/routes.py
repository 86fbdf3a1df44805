"""Routes of resources, templates and jobs."""

import base64
import json
from dataclasses import asdict
from typing import Any

from django.http.response import HttpResponseBase
from ninja import Query, Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from compute.api import schemas
from compute.engine.changes import Changes
from compute.engine.ports import CommandOutput, TerminalRequest
from compute.models import Job, Resource, Template
from compute.selectors import checkpoints, job_rows, logs, outlooks, outputs, pool_places, resource_events, usage, waits
from compute.selectors import jobs as job_selectors
from compute.selectors import resources as resource_selectors
from compute.selectors import templates as template_selectors
from compute.selectors.job_rows import JobRow
from compute.selectors.usage import IdleGpus
from compute.services import (
    changes,
    commands,
    connections,
    jobs,
    keeping,
    lost_places,
    resources,
    submissions,
    suspensions,
    templates,
    trials,
)
from compute.services.jobs import Placing
from compute.services.lost_places import ResourceLoss
from compute.services.submissions import Submission
from core import bounds, streaming
from core.pagination import Cursor, Limit, Page, paginate
from scheduler.selectors.answers import find_proof

router = Router()


@router.get("/compute/resources", response=schemas.ResourcePageOut, operation_id="compute_list_resources")
def list_resources(request: ApiRequest) -> dict[str, Any]:
    """List the places where jobs run, with their templates."""
    return {"items": list(resource_selectors.list_resources(actor=request.actor))}


@router.post("/compute/resources", response={201: schemas.ResourceOut}, operation_id="compute_attach_resource")
def attach_resource(request: ApiRequest, body: schemas.ResourceIn) -> Status[Resource]:
    """Attach this machine, simulated nodes or a cluster, once it has answered. For site admins."""
    if body.settings:
        resource = resources.attach_by_fields(
            actor=request.actor, name=body.name, kind=body.kind, fields=body.settings, sites=body.sites
        )
        return Status(201, resource)
    config = {"nodes": [node.model_dump() for node in body.nodes]} if body.nodes else {}
    resource = resources.attach_resource(
        actor=request.actor, name=body.name, kind=body.kind, config=config, sites=body.sites, host=body.host
    )
    return Status(201, resource)


@router.patch("/compute/resources/{name}", response=schemas.ResourceOut, operation_id="compute_change_resource")
def change_resource(request: ApiRequest, name: str, body: schemas.ResourceChangeIn) -> Resource:
    """Change a resource's settings, credentials or cache sites, drain its nodes or open them. For site admins."""
    resource = resource_selectors.get_resource(actor=request.actor, name=name)
    return resources.change_resource(actor=request.actor, resource=resource, **body.model_dump(exclude_unset=True))


@router.delete("/compute/resources/{name}", response={204: None}, operation_id="compute_detach_resource")
def detach_resource(request: ApiRequest, name: str) -> Status[None]:
    """Detach a resource on which no job waits or runs. For site admins."""
    resource = resource_selectors.get_resource(actor=request.actor, name=name)
    resources.detach_resource(actor=request.actor, resource=resource)
    return Status(204, None)


@router.get("/compute/resources/{name}/events", response=schemas.EventsOut, operation_id="compute_list_events")
def list_events(request: ApiRequest, name: str) -> dict[str, Any]:
    """List what happened to a resource lately, the newest first. Warnings of a cluster are for site admins."""
    resource = resource_selectors.get_resource(actor=request.actor, name=name)
    return {"items": resource_events.list_events(actor=request.actor, resource=resource)}


@router.get("/compute/resources/{name}/loss", response=schemas.ResourceLossOut, operation_id="compute_foresee_loss")
def foresee_loss(request: ApiRequest, name: str) -> ResourceLoss:
    """Say what is lost with a resource that is away, or left cache sites, if it is given up. For site admins."""
    return lost_places.describe_resource_loss(actor=request.actor, name=name)


@router.post("/compute/resources/{name}/give-up", response=schemas.ResourceLossOut, operation_id="compute_give_up")
def give_up_resource(request: ApiRequest, name: str) -> ResourceLoss:
    """End the jobs and cache sites of a resource that never comes back, and detach it. For site admins."""
    return lost_places.give_up_resource(actor=request.actor, name=name)


@router.get("/compute/templates", response=schemas.TemplatePageOut, operation_id="compute_list_templates")
def list_templates(request: ApiRequest, project: str | None = None) -> dict[str, Any]:
    """List the shapes that jobs may have. All projects may use all of them."""
    return {"items": list(template_selectors.list_templates(actor=request.actor, project=project))}


@router.post("/compute/templates", response={201: schemas.TemplateOut}, operation_id="compute_create_template")
def create_template(request: ApiRequest, body: schemas.TemplateIn) -> Status[Template]:
    """Add a template to a resource. For site admins."""
    resource = resource_selectors.get_resource(actor=request.actor, name=body.resource)
    shape = templates.Shape(**body.model_dump(exclude={"resource", "name"}))
    return Status(201, templates.create_template(actor=request.actor, resource=resource, name=body.name, shape=shape))


@router.patch("/compute/templates/{name}", response=schemas.TemplateOut, operation_id="compute_change_template")
def change_template(request: ApiRequest, name: str, body: schemas.TemplateChangeIn) -> Template:
    """Change a template, named `resource.template`; jobs that are there keep their shape. For site admins."""
    template = template_selectors.get_template(actor=request.actor, full_name=name)
    changes = body.model_dump(exclude_unset=True)
    return templates.change_template(actor=request.actor, template=template, changes=changes)


@router.delete("/compute/templates/{name}", response={204: None}, operation_id="compute_delete_template")
def delete_template(request: ApiRequest, name: str) -> Status[None]:
    """Delete a template, named `resource.template`; jobs that are there keep their shape. For site admins."""
    template = template_selectors.get_template(actor=request.actor, full_name=name)
    templates.delete_template(actor=request.actor, template=template)
    return Status(204, None)


@router.get("/compute/jobs", response=schemas.JobPageOut, operation_id="compute_list_jobs")
def list_jobs(
    request: ApiRequest,
    filters: Query[schemas.JobFilters],
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[object]:
    """List jobs, newest first: of one project, in one state, or that failed for one cause."""
    jobs = job_selectors.list_jobs(actor=request.actor, **filters.model_dump())
    page = paginate(jobs, cursor=cursor, limit=limit)
    rows = job_rows.read_rows(actor=request.actor, jobs=page.items)
    return Page([_row_out(request, row) for row in rows], page.next_cursor)


@router.post("/compute/jobs", response={201: schemas.JobOut}, operation_id="compute_submit_job")
def submit_job(request: ApiRequest, body: schemas.JobIn) -> Status[dict[str, Any]]:
    """Submit one job. It is queued, and says why as long as it waits."""
    project = get_project(actor=request.actor, name=body.project)
    submission = _submission_of(body)
    job = submissions.submit_job(actor=request.actor, project=project, submission=submission)
    return Status(201, _job_out(request, job_selectors.get_job(actor=request.actor, name=job.name)))


@router.post("/compute/jobs/try", response=schemas.TrialOut, operation_id="compute_try_job")
def try_job(request: ApiRequest, body: schemas.JobIn) -> trials.Trial:
    """Say whether a job would start now, or when and where, and whom it would stop. Nothing changes."""
    project = get_project(actor=request.actor, name=body.project)
    submission = _submission_of(body)
    return trials.try_job(actor=request.actor, project=project, submission=submission)


@router.get("/compute/jobs/{name}", response=schemas.JobDetailOut, operation_id="compute_get_job")
def get_job(request: ApiRequest, name: str) -> dict[str, Any]:
    """Return one job with its history."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    proof = find_proof(job.workload)
    advice = proof.advice if proof is not None else ""
    row = job_rows.read_row(actor=request.actor, job=job)
    outlook = outlooks.find_outlook(actor=request.actor, job=job) if job.has_parts else row.outlook
    return _row_out(request, row) | {
        "pool": pool_places.find_pool(job),
        "advice": advice,
        "data_wait": waits.find_data_waits([job]).get(job.pk),
        "outlook": outlook,
        "wait": waits.find_waits(actor=request.actor, jobs=[job]).get(job.pk),
        "closed_places": pool_places.explain_closed(actor=request.actor, job=job),
        "last_lines": job.last_lines,
        "replicas": job.replicas,
        "parts": [_part_out(part) for part in job_rows.read_parts(actor=request.actor, job=job)],
        "part_of": job.part_of.name if job.part_of is not None else "",
        "jupyter_token": connections.find_jupyter_token(actor=request.actor, job=job),
        "checkpoint": checkpoints.find_state(actor=request.actor, job=job),
        "gpu_check": job.gpu_check or None,
        "events": list(job_selectors.list_events(actor=request.actor, job=job)),
    }


@router.get("/compute/jobs/{name}/changes", response=schemas.TriedChangesOut, operation_id="compute_try_changes")
def try_changes(request: ApiRequest, name: str) -> Changes:
    """Say what would let a waiting job start sooner, and whom that would stop. Nothing changes."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    return changes.try_changes(actor=request.actor, job=job)


@router.get("/compute/jobs/{name}/log", response=schemas.JobLogOut, operation_id="compute_read_log")
def read_log(
    request: ApiRequest, name: str, offset: bounds.Offset = 0, limit: bounds.Whole = job_selectors.MAX_LOG_BYTES
) -> schemas.JobLogOut:
    """Return part of what a job printed, without the platform's own lines; `offset` and `limit` are in bytes."""
    job = job_selectors.get_program(actor=request.actor, name=name)
    part = logs.read_text(actor=request.actor, job=job, offset=offset, limit=limit)
    return schemas.JobLogOut(
        text=part.text,
        next_offset=part.next_offset,
        is_complete=part.is_complete,
        is_stored=job.log_stored_at is not None,
    )


@router.get("/compute/jobs/{name}/output", response=schemas.OutputOut, operation_id="compute_get_output")
def get_output(request: ApiRequest, name: str) -> outputs.StoredOutput:
    """Return the tree that the store holds of what a job left. Its files are read by the routes of trees."""
    job = job_selectors.get_program(actor=request.actor, name=name)
    return outputs.get_output(actor=request.actor, job=job)


@router.get("/compute/jobs/{name}/usage", response=schemas.UsagePageOut, operation_id="compute_read_usage")
def read_usage(request: ApiRequest, name: str, after: bounds.Moment | None = None) -> dict[str, Any]:
    """Return what a job used: about once a second, on a cluster its GPUs alone, twice a minute; null: not measured."""
    job = job_selectors.get_program(actor=request.actor, name=name)
    return {"items": list(usage.read_usage(actor=request.actor, job=job, after=after))}


@router.get("/compute/idle-gpus", response=schemas.IdleGpusPageOut, operation_id="compute_list_idle_gpus")
def list_idle_gpus(request: ApiRequest, project: str | None = None) -> dict[str, Any]:
    """List who holds GPUs that were not used over the last ten minutes, or whose use nobody measures."""
    holders = usage.list_idle_gpus(actor=request.actor, project=project)
    return {"items": [_idle_gpus_out(each) for each in holders]}


def _idle_gpus_out(idle: IdleGpus) -> dict[str, Any]:
    job = idle.job
    return {
        "job": job.name,
        "label": job.label,
        "project": job.project.name,
        "submitted_by": job.submitted_by,
        "resource": job.resource.name,
        "node": job.node_name,
        "gpu_milli": idle.gpu_milli,
        "gpu_percent": idle.percent,
        "text": idle.text,
    }


@router.post("/compute/jobs/{name}/exec", response={200: bytes}, operation_id="compute_run_command")
def run_command(request: ApiRequest, name: str, body: schemas.CommandIn) -> HttpResponseBase:
    """Run a command in a job that runs. The answer is JSON, a line each for what it prints, the last its `exit_code`.

    `stdout` and `stderr` are Base64. An empty line says that the command still runs.
    """
    job = job_selectors.get_program(actor=request.actor, name=name)
    output = commands.run_command(
        actor=request.actor, job=job, command=body.command, stdin=body.stdin, replica=body.replica
    )
    return streaming.stream(request, map(_line_of, output), content_type="application/x-ndjson")


@router.post("/compute/jobs/{name}/ports", response={201: schemas.TicketOut}, operation_id="compute_open_port")
def open_port(request: ApiRequest, name: str, body: schemas.PortIn) -> Status[connections.Ticket]:
    """Issue a ticket for connections to a TCP port of a job that runs. For those who may run commands in it.

    Each connection is a WebSocket at the `url` of the ticket, whose handshake has it as its bearer token.
    """
    job = job_selectors.get_program(actor=request.actor, name=name)
    ticket = connections.offer_port(actor=request.actor, job=job, port=body.port, replica=body.replica)
    return Status(201, ticket)


@router.post("/compute/jobs/{name}/terminals", response={201: schemas.TicketOut}, operation_id="compute_open_terminal")
def open_terminal(request: ApiRequest, name: str, body: schemas.TerminalIn) -> Status[connections.Ticket]:
    """Issue a ticket for a command in a terminal in a job that runs. The terminal is a WebSocket, as a port is."""
    job = job_selectors.get_program(actor=request.actor, name=name)
    terminal_request = TerminalRequest(tuple(body.command), columns=body.columns, rows=body.rows, kind=body.kind)
    ticket = connections.offer_terminal(actor=request.actor, job=job, request=terminal_request, replica=body.replica)
    return Status(201, ticket)


def _line_of(output: CommandOutput) -> bytes:
    line: dict[str, object] = {}
    if output.data:
        line["stderr" if output.is_error else "stdout"] = base64.b64encode(output.data).decode()
    if output.exit_code is not None:
        line["exit_code"] = output.exit_code
    return (json.dumps(line) if line else "").encode() + b"\n"


@router.post("/compute/jobs/{name}/cancel", response=schemas.JobOut, operation_id="compute_cancel_job")
def cancel_job(request: ApiRequest, name: str, body: schemas.CancelIn | None = None) -> dict[str, Any]:
    """Cancel a job. Without effect on one that has ended."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    reason = body.reason if body is not None else ""
    return _job_out(request, jobs.cancel_job(actor=request.actor, job=job, reason=reason))


@router.delete("/compute/jobs/{name}", response={204: None}, operation_id="compute_delete_job")
def delete_job(request: ApiRequest, name: str) -> Status[None]:
    """Stop a job for good and show it no more, so that another one can be called so. Its experiment stays."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    submissions.delete_job(actor=request.actor, job=job)
    return Status(204, None)


@router.post("/compute/jobs/{name}/suspend", response=schemas.JobOut, operation_id="compute_suspend_job")
def suspend_job(request: ApiRequest, name: str) -> dict[str, Any]:
    """Stop a job and keep it out of the queue until it is resumed. Its data stays where it is."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    return _job_out(request, suspensions.suspend_job(actor=request.actor, job=job))


@router.post("/compute/jobs/{name}/resume", response=schemas.JobOut, operation_id="compute_resume_job")
def resume_job(request: ApiRequest, name: str) -> dict[str, Any]:
    """Queue a suspended job again; it starts anew, at the end of the line.

    One that has not stopped yet is queued again once it has, in its old place.
    """
    job = job_selectors.get_job(actor=request.actor, name=name)
    return _job_out(request, suspensions.resume_job(actor=request.actor, job=job))


@router.post("/compute/jobs/{name}/keep", response=schemas.JobOut, operation_id="compute_keep_job")
def keep_job(request: ApiRequest, name: str) -> dict[str, Any]:
    """Count a running job as used now, so that it may be idle for as long as its limit says once more."""
    job = keeping.keep_job(actor=request.actor, job=job_selectors.get_job(actor=request.actor, name=name))
    return _job_out(request, job)


@router.post("/compute/jobs/{name}/rerun", response={201: schemas.JobOut}, operation_id="compute_rerun_job")
def rerun_job(request: ApiRequest, name: str, body: schemas.RerunIn) -> Status[dict[str, Any]]:
    """Submit once more what a job was submitted as, as a new job."""
    job = job_selectors.get_job(actor=request.actor, name=name)
    new = submissions.rerun_job(actor=request.actor, job=job, name=body.name)
    return Status(201, _job_out(request, job_selectors.get_job(actor=request.actor, name=new.name)))


_PLACING = set(schemas.PlacingIn.model_fields)


def _submission_of(body: schemas.JobIn) -> Submission:
    return Submission(
        **body.model_dump(exclude={"project"} | _PLACING), placing=Placing(**body.model_dump(include=_PLACING))
    )


def _part_out(row: JobRow) -> dict[str, Any]:
    part = row.job
    return {
        "part_index": part.part_index,
        "name": part.name,
        "state": part.state_shown,
        "reason": row.why,
        "resource": part.resource.name,
        "node": part.node_name,
        "evictions": part.evictions,
        "started_at": part.started_at,
        "finished_at": part.finished_at,
    }


def _job_out(request: ApiRequest, job: Job) -> dict[str, Any]:
    return _row_out(request, job_rows.read_row(actor=request.actor, job=job))


def _row_out(request: ApiRequest, row: JobRow) -> dict[str, Any]:
    job = row.job
    hosts = connections.list_port_hosts(actor=request.actor, job=job)
    spec = job_selectors.get_spec(job)
    wait_reason = job.workload.why if job.state == "pending" and job.workload is not None else ""
    reason = job.reason_shown if job.is_unknown else job.reason or wait_reason
    return {
        "id": job.pk,
        "name": job.name,
        "label": job.label,
        "project": job.project.name,
        "kind": job.kind,
        "state": job.present_state,
        "is_unknown": job.is_unknown,
        "reason_code": job.reason_code,
        "reason": reason,
        "why": row.why,
        "resource": job.resource.name,
        "template": job.template_name,
        "is_simulated": job.resource.is_simulated,
        "cpu_millicores": job.cpu_millicores,
        "memory_bytes": job.memory_bytes,
        "gpu_milli": job.gpu_milli,
        "gpu_cap": job.gpu_cap,
        "node": job.node_name,
        "nodes": job.node_names,
        "gpus": job.gpus,
        "replica_count": job.replica_count,
        "completions": job.completions,
        "parallelism": job.parallelism,
        "parts_done": job.parts_done,
        "parts_running": job.parts_running,
        "part_index": job.part_index,
        "slices": job.slices,
        **asdict(spec.placing),
        "command": spec.command if isinstance(spec.command, str) else " ".join(spec.command),
        "image": spec.image,
        "code": job_selectors.code_of(spec),
        "env": spec.env,
        "secrets": spec.secret_names,
        "ports": spec.ports,
        "port_urls": {port: host.path for port, host in hosts.items()},
        "volumes": spec.volumes,
        "pools": spec.pools,
        "timeout_s": spec.timeout_s,
        "idle_limit_s": job.idle_limit_s,
        "idle": row.idle,
        "priority": job.priority,
        "is_preemptible": job.is_preemptible,
        "evictions": job.evictions,
        "exit_code": job.exit_code,
        "submitted_by": job.submitted_by,
        "times": row.times,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
    }
