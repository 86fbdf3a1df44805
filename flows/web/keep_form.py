"""The form by which the output of a step becomes a version of a dataset."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from accounts.permissions import Level
from accounts.web.requests import PageRequest, go_to
from core.errors import Conflict, InvalidInput
from flows.selectors import runs as selectors
from flows.selectors.specs import spec_of
from flows.services import outputs
from flows.web.step_panel import number_in


class KeepForm(forms.Form):
    """Which dataset the output goes to."""

    dataset = forms.CharField(max_length=127, widget=forms.TextInput({"autocomplete": "off", "autofocus": True}))
    message = forms.CharField(max_length=1000, required=False, widget=forms.TextInput({"autocomplete": "off"}))


def keep_form(request: PageRequest, run_id: str, key: str) -> HttpResponse:
    """Show the form; a POST keeps the output of a step in a dataset of its project, and creates one that is missing.

    `index` of the address names one try of a grid.
    """
    run, index = selectors.get_run(actor=request.actor, run_id=run_id), number_in(request, "index")
    step = selectors.get_step(actor=request.actor, run=run, key=key, index=index)
    form = KeepForm(request.POST or None, auto_id="keep-%s")
    form.fields["dataset"].label = f"Dataset of {run.project.name}"
    if request.method == "POST" and form.is_valid():
        try:
            commit = outputs.keep_output(
                actor=request.actor, run=run, step=key, index=index, creates=True, **form.cleaned_data
            )
        except (InvalidInput, Conflict) as error:
            form.add_error("dataset" if isinstance(error, InvalidInput) else None, f"{error.message} {error.hint}")
        else:
            messages.success(request, f"Kept as version {commit.commit[:8]} of {commit.dataset}.")
            return go_to(request, f"/datasets/{commit.dataset}/?ref={commit.commit}")
    context = {
        "run": run,
        "title": selectors.title_of(step, spec_of(run.version_id).step(key).title),
        "url": f"{reverse('flows:keep', args=[run.pk, key])}?{request.GET.urlencode()}",
        "form": form,
        "may_write": (request.actor.level_in(run.project_id) or 0) >= Level.WRITE,
    }
    page = "flows/keep_dialog.html" if request.htmx else "flows/keep_page.html"
    return render(request, page, context, status=422 if form.errors else 200)
