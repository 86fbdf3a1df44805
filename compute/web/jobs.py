"""The list of jobs, one job, and what can be done to it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.selectors import list_projects
from accounts.web.requests import PageRequest, text
from compute.engine.port_hosts import PortHost
from compute.engine.states import JobState, ReasonCode
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.selectors import checkpoints, failures, job_rows, pool_places, run_times, usage, waits
from compute.selectors import jobs as selectors
from compute.selectors.evictions import mark_deleted
from compute.services import changes, connections, jobs, keeping, submissions, suspensions
from compute.web.progress import progress_of
from core.errors import NotFound
from core.pagination import read_sort
from scheduler.selectors import evictions
from scheduler.selectors.answers import find_proof
from scheduler.selectors.evictions import EvictionView
from web.series import Chart, usage_charts

_ROWS = 50
_EVICTIONS = 20
_SORTS = {"name": "name", "project": "project__name", "state": "state", "gpus": "gpu_milli", "age": "pk"}


def jobs_page(request: PageRequest) -> HttpResponse:
    """List jobs in the order and within the limits that the address says."""
    project, state, cause = text(request, "project"), text(request, "state"), text(request, "cause")
    query, person = text(request, "q") or "", text(request, "person") or ""
    jobs = selectors.list_jobs(
        actor=request.actor, project=project, state=state, cause=cause, text=query, person=person
    )
    sort = read_sort(request, _SORTS, "-age")
    page = sort.paginate(jobs.defer("spec"), cursor=text(request, "cursor"), limit=_ROWS)
    context = {
        "page": page,
        "rows": job_rows.read_rows(actor=request.actor, jobs=page.items),
        "sort": sort,
        "total": jobs.count(),
        "states": list(JobState),
        "state": state,
        "causes": list(ReasonCode),
        "cause": cause,
        "project": project,
        "project_name": project,
        "query": query,
        "person": person,
        "projects": list_projects(actor=request.actor),
        "moves": any(not job.has_ended for job in page.items),
    }
    return render(request, "compute/jobs_table.html" if request.htmx else "compute/jobs.html", context)


def job_page(request: PageRequest, name: str) -> HttpResponse:
    """Show one job: what it is, why it is where it is, what happened to it, its log and what it used."""
    job = selectors.get_job(actor=request.actor, name=name)
    spec = selectors.get_spec(job)
    command = spec.command if isinstance(spec.command, str) else " ".join(spec.command)
    may_write = (request.actor.level_in(job.project_id) or 0) >= Level.WRITE
    is_own = job.kind == submissions.KIND and job.part_of_id is None
    row = job_rows.read_row(actor=request.actor, job=job)
    charts, usage_is_reachable = ([], True) if request.htmx else _usage(request, job)
    jupyter_token = connections.find_jupyter_token(actor=request.actor, job=job)
    hosts = connections.list_port_hosts(actor=request.actor, job=job)
    context = {
        "job": job,
        "project_name": job.project.name,
        "spec": spec,
        "pool": pool_places.find_pool(job),
        "links": job_rows.list_links(request.actor, job),
        # Where the platform keeps its files is nobody's business and only in the way of reading.
        "command": command.replace(str(settings.NEARLINE.home), "$NEARLINE_HOME"),
        "failures": failures.of_job(job),
        "events": selectors.list_events(actor=request.actor, job=job),
        "times": row.times,
        "progress": progress_of(job, run_times.forecast_durations([job]).get(job.pk)),
        "parts": job_rows.read_parts(actor=request.actor, job=job),
        "checkpoint": checkpoints.find_state(actor=request.actor, job=job),
        "data_wait": waits.find_data_waits([job]).get(job.pk),
        "outlook": row.outlook,
        "wait": waits.find_waits(actor=request.actor, jobs=[job]).get(job.pk),
        "closed_places": pool_places.explain_closed(actor=request.actor, job=job),
        "proof": find_proof(job.workload) if job.state == JobState.PENDING else None,
        "evictions": _evictions_of(request, job) if job.evictions else [],
        "may_write": may_write,
        "may_cancel": may_write and job.part_of_id is None,
        "idle": row.idle,
        "may_suspend": is_own,
        "may_delete": is_own and job.has_ended,
        "jupyter_token": jupyter_token,
        "port_hosts": hosts,
        "port_texts": {
            port: _port_texts(request, job, port, hosts, "" if number else jupyter_token) if may_write else []
            for number, port in enumerate(spec.ports)
        },
        "charts": charts,
        "usage_is_reachable": usage_is_reachable,
        "has_gpu_charts": any(chart.title.startswith("GPU") for chart in charts),
    }
    return render(request, "compute/job_live.html" if request.htmx else "compute/job.html", context)


def _port_texts(
    request: PageRequest, job: Job, port: int, hosts: Mapping[int, PortHost], jupyter_token: str
) -> list[str]:
    """Return what is copied to reach a port of a job: its address for browsers, and the command that forwards it.

    After the command its Jupyter has an address on the machine where the command runs. A browser that has us at
    127.0.0.1 would send our cookies there with it, and so to the job.
    """
    if job.resource.is_simulated or job.has_parts:
        return []
    addresses = [request.build_absolute_uri(hosts[port].path)] if port in hosts else []
    local = "localhost" if urlsplit(request.build_absolute_uri()).hostname == "127.0.0.1" else "127.0.0.1"
    forwarded = [f"http://{local}:{port}/lab?token={jupyter_token}"] if jupyter_token else []
    return [*addresses, f"nearline job port-forward {job.name} {port}", *forwarded]


def changes_part(request: PageRequest, name: str) -> HttpResponse:
    """Show what would let a waiting job start sooner, and whom that would stop: a part of its page."""
    job = selectors.get_job(actor=request.actor, name=name)
    tried = changes.try_changes(actor=request.actor, job=job)
    return render(request, "compute/changes.html", {"tried": tried, "job": job})


def _usage(request: PageRequest, job: Job) -> tuple[list[Chart], bool]:
    """Return the charts of what a job used, and whether the place where it runs or ran answers at all."""
    try:
        return usage_charts(usage.read_usage(actor=request.actor, job=job)), True
    except ResourceUnreachable:
        return [], False


def _evictions_of(request: PageRequest, job: Job) -> list[EvictionView]:
    rows = evictions.list_evictions(actor=request.actor, job=job.name)[:_EVICTIONS]
    return mark_deleted(evictions.view_evictions(actor=request.actor, rows=rows))


def open_port(request: PageRequest, label: str) -> HttpResponse:
    """Lead to the pages that a port of a job serves."""
    host = PortHost.read(label)
    if host is None:
        raise NotFound("No port of a job has this address.")
    return redirect(connections.offer_page(actor=request.actor, host=host, path=text(request, "path") or ""))


@require_POST
def cancel(request: PageRequest, name: str) -> HttpResponse:
    """Cancel a job and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    jobs.cancel_job(actor=request.actor, job=job)
    messages.success(request, f"{job.label} is cancelled.")
    return redirect("compute:job", name=name)


@require_POST
def delete(request: PageRequest, name: str) -> HttpResponse:
    """Delete a job and show the others."""
    job = selectors.get_job(actor=request.actor, name=name)
    submissions.delete_job(actor=request.actor, job=job)
    messages.success(request, f"{job.label} is deleted.")
    return redirect("compute:jobs")


@require_POST
def rerun(request: PageRequest, name: str) -> HttpResponse:
    """Submit a job once more, as it was, and show the new one."""
    job = selectors.get_job(actor=request.actor, name=name)
    again = submissions.rerun_job(actor=request.actor, job=job)
    messages.success(request, f"{again.label} is {job.label} once more. It waits for its resources.")
    return redirect("compute:job", name=again.name)


@require_POST
def suspend(request: PageRequest, name: str) -> HttpResponse:
    """Suspend a job and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    suspensions.suspend_job(actor=request.actor, job=job)
    messages.success(request, f"{job.label} gives its resources back until it is resumed.")
    return redirect("compute:job", name=name)


@require_POST
def resume(request: PageRequest, name: str) -> HttpResponse:
    """Resume a suspended job and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    job = suspensions.resume_job(actor=request.actor, job=job)
    messages.success(
        request, f"{job.label} is queued again{'' if job.state == JobState.PENDING else ' once it has stopped'}."
    )
    return redirect("compute:job", name=name)


@require_POST
def keep(request: PageRequest, name: str) -> HttpResponse:
    """Keep a job that is idle and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    keeping.keep_job(actor=request.actor, job=job)
    messages.success(request, f"{job.label} goes on. Its idle time counts from now.")
    return redirect("compute:job", name=name)
