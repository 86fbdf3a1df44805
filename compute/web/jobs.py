"""The list of jobs, one job, and cancelling it."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.selectors import list_projects
from accounts.web.requests import PageRequest, text
from compute.engine.states import JobState
from compute.selectors import jobs as selectors
from compute.services import jobs
from core.pagination import paginate
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


@require_POST
def cancel(request: PageRequest, name: str) -> HttpResponse:
    """Cancel a job and show it."""
    job = selectors.get_job(actor=request.actor, name=name)
    jobs.cancel_job(actor=request.actor, job=job)
    messages.success(request, f"{job.name} is cancelled.")
    return redirect("compute:job", name=name)
