"""The list of jobs, one job, its log, and cancelling it."""

from collections.abc import Iterator

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.selectors import list_projects
from accounts.web.requests import PageRequest, text
from compute.engine import log_text
from compute.engine.states import JobState
from compute.models import Job
from compute.selectors import jobs as selectors
from compute.services import jobs
from core.errors import InvalidInput
from core.pagination import paginate
from core.streaming import stream
from web.series import usage_charts

_ROWS = 50


def jobs_page(request: PageRequest) -> HttpResponse:
    """List jobs, newest first."""
    project, state = text(request, "project"), text(request, "state")
    found = selectors.list_jobs(actor=request.actor, project=project, state=state)
    page = paginate(found, cursor=text(request, "cursor"), limit=_ROWS)
    context = {
        "page": page,
        "states": list(JobState),
        "state": state,
        "project": project,
        "projects": list_projects(actor=request.actor),
        "moves": any(not job.has_ended for job in page.items),
    }
    return render(request, "compute/jobs_table.html" if request.htmx else "compute/jobs.html", context)


def job_page(request: PageRequest, name: str) -> HttpResponse:
    """Show one job: what it is, why it is where it is, what happened to it, its log and what it used."""
    job = selectors.get_job(actor=request.actor, name=name)
    spec = selectors.get_spec(job)
    context = {
        "job": job,
        "project_name": job.project.name,
        "spec": spec,
        "command": spec.command if isinstance(spec.command, str) else " ".join(spec.command),
        "events": selectors.list_events(actor=request.actor, job=job),
        "charts": [] if request.htmx else usage_charts(selectors.usage(actor=request.actor, job=job)),
    }
    return render(request, "compute/job_live.html" if request.htmx else "compute/job.html", context)


def read_log(request: PageRequest, name: str) -> HttpResponse:
    """Answer with what the job printed after `offset`, as JSON for `<log-view>`."""
    offset = request.GET.get("offset", "0")
    if not offset.isdecimal():
        raise InvalidInput("The offset must be a number of bytes.")
    job = selectors.get_job(actor=request.actor, name=name)
    part = log_text.decode(selectors.read_log(actor=request.actor, job=job, offset=int(offset)))
    return JsonResponse({"text": part.text, "next_offset": part.next_offset, "is_complete": part.is_complete})


def download_log(request: PageRequest, name: str) -> HttpResponseBase:
    """Send the whole log so far as a file."""
    job = selectors.get_job(actor=request.actor, name=name)
    response = stream(request, _whole_log(request, job), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{job.name}.log"'
    return response


@require_POST
def cancel(request: PageRequest, name: str) -> HttpResponse:
    """Cancel a job and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    jobs.cancel_job(actor=request.actor, job=job)
    messages.success(request, f"{job.name} is cancelled.")
    return redirect("compute:job", name=name)


def _whole_log(request: PageRequest, job: Job) -> Iterator[bytes]:
    offset = 0
    while (chunk := selectors.read_log(actor=request.actor, job=job, offset=offset)).data:
        yield chunk.data
        offset = chunk.next_offset
