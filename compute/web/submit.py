"""The form that submits a job."""

from collections.abc import Collection

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from accounts.actor import Actor
from accounts.permissions import Level
from accounts.selectors import get_project, list_projects
from accounts.web.requests import PageRequest, text
from compute.errors import InvalidJobSpec, JobNameTaken, TemplateNotFound
from compute.models import Template
from compute.selectors import templates
from compute.services import submissions
from compute.services.submissions import Submission
from core import bounds, units
from datasets.errors import CacheFull, CacheSiteUnavailable
from datasets.selectors import caches, datasets

_MOST_COPIES = 100
_REFUSALS = (CacheFull, CacheSiteUnavailable, InvalidJobSpec, JobNameTaken, TemplateNotFound)


class JobForm(forms.Form):
    """What shall run, and where."""

    project = forms.ChoiceField()
    template = forms.ChoiceField(help_text="What the job gets, and on which resource.")
    command = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 5, "class": "form-control", "spellcheck": "false"}),
        max_length=100_000,
        help_text="A shell runs it in an empty folder.",
    )
    name = forms.CharField(max_length=63, required=False, help_text="Left empty, it gets one.")
    image = forms.CharField(max_length=300, required=False, help_text="For resources that run containers.")
    reads = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"})
    )
    replicas = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=bounds.MAX_REPLICAS,
        initial=1,
        help_text="More than one run together as a gang, on a cluster or simulated nodes.",
    )
    simulated_duration_s = forms.FloatField(
        required=False, min_value=0, initial=60, label="Seconds", help_text="How long it takes on a simulated node."
    )

    is_preemptible = forms.BooleanField(
        required=False, initial=True, widget=forms.CheckboxInput(attrs={"class": "form-check-input"})
    )

    def __init__(self, request: PageRequest) -> None:
        """Offer what the person may use."""
        initial = {"project": text(request, "project"), "template": text(request, "template")}
        super().__init__(request.POST or None, initial={key: value for key, value in initial.items() if value})
        actor = request.actor
        writable = [each.name for each in list_projects(actor=actor) if (actor.level_in(each.pk) or 0) >= Level.WRITE]
        self.fields["project"].choices = [(name, name) for name in writable]  # type: ignore[attr-defined]
        shapes = templates.list_templates(actor=actor)
        self.fields["template"].choices = [(shape.full_name, _describe(shape)) for shape in shapes]  # type: ignore[attr-defined]
        ready = [copy for copy in caches.list_cached_commits(actor=actor)[:_MOST_COPIES] if copy.state == "ready"]
        cached = [(caches.label_of(copy), f"{caches.label_of(copy)} on {copy.site.name}") for copy in ready]
        self.fields["reads"].choices = cached + _list_uncached(actor, dict(cached))  # type: ignore[attr-defined]


def submit_page(request: PageRequest) -> HttpResponse:
    """Show the form; a POST submits the job and shows it."""
    if request.method == "POST":
        # Who may not submit there is told so, whatever else is wrong with the form.
        project = get_project(actor=request.actor, name=request.POST.get("project", ""))
        submissions.require_submit(actor=request.actor, project=project)
    form = JobForm(request)
    if form.is_valid():
        try:
            job = submissions.submit_job(actor=request.actor, project=project, wanted=_submission_of(form))
        except _REFUSALS as error:
            form.add_error(None, f"{error.message} {error.hint}".strip())
        else:
            messages.success(request, f"{job.label} waits for its resources.")
            return redirect("compute:job", name=job.name)
    return render(request, "compute/submit.html", {"form": form})


def _list_uncached(actor: Actor, cached: Collection[str]) -> list[tuple[str, str]]:
    """Return the newest commits that are on no site: a job waits for them."""
    heads = [(each, datasets.newest_commit_of(each)) for each in datasets.list_datasets(actor=actor)[:_MOST_COPIES]]
    labels = [f"{each.project.name}/{each.name}@{head.short}" for each, head in heads if head is not None]
    return [(label, f"{label}, not cached yet: the job waits for it") for label in labels if label not in cached]


def _submission_of(form: JobForm) -> Submission:
    said = form.cleaned_data
    duration_s = said["simulated_duration_s"]
    return Submission(
        template=said["template"],
        command=said["command"],
        name=said["name"],
        image=said["image"],
        data=said["reads"],
        replicas=said["replicas"] or 1,
        simulated_duration_s=Submission.simulated_duration_s if duration_s is None else duration_s,
        is_preemptible=said["is_preemptible"],
    )


def _describe(shape: Template) -> str:
    parts = [f"{units.format_cpu(shape.cpu_millicores)} CPU", units.format_memory(shape.memory_bytes)]
    if shape.gpu_milli:
        parts.append(f"{units.format_gpus(shape.gpu_milli)} GPU")
    return f"{shape.full_name}: {', '.join(parts)}{' (simulated)' if shape.resource.is_simulated else ''}"
