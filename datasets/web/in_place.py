"""What a dataset refers to where it lies: imported in place, compared with its source, and copied into the store."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.errors import InvalidInput, PlatformError
from core.pagination import paginate
from datasets.errors import ReferenceNotFound, SourceFileMissing, SourceNotFound, SourceUnreachable
from datasets.models import WORKING, Dataset
from datasets.selectors import commits, datasets, sources
from datasets.selectors import in_place as reads
from datasets.services import in_place
from datasets.web import heading
from web.refused_forms import show_again, shown

_IMPORTS, _SOURCES, _BRANCHES = 50, 200, 200
_FIELDS: dict[type[PlatformError], str] = {
    ReferenceNotFound: "branch",
    SourceFileMissing: "folder",
    SourceNotFound: "source",
    SourceUnreachable: "source",
}
"""Beside which field of the form an error is shown."""


class ImportForm(forms.Form):
    """What to import in place, and where it is put."""

    source = forms.ChoiceField()
    folder = forms.CharField(
        max_length=4096, required=False, label="Folder in the source", help_text="Empty: all of it."
    )
    directory = forms.CharField(
        max_length=4096, required=False, label="Folder in the dataset", help_text="Empty: its top."
    )
    branch = forms.ChoiceField(required=False)
    message = forms.CharField(max_length=10_000, required=False, help_text="Of the commit. Empty: where it came from.")


def imports_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List what was imported in place, and offer more; htmx asks for the list while something moves."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    rows = reads.list_imports(actor=request.actor, dataset=dataset)
    page = paginate(rows, cursor=text(request, "cursor"), limit=_IMPORTS)
    context = heading.of(request.actor, dataset, tab="imports") | {
        "imports": reads.view_imports(page.items),
        "moves": any(row.state in WORKING or row.is_being_checked for row in page.items),
        "next_cursor": page.next_cursor,
    }
    if request.htmx:
        return render(request, "datasets/imports_live.html", context | {"is_part": True})
    context["form"] = shown(request, _form_for(request, dataset))
    return render(request, "datasets/imports.html", context)


@require_POST
def start_import(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Have a folder of a source imported in place."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    form = _form_for(request, dataset, request.POST)
    if form.is_valid():
        given = form.cleaned_data
        try:
            in_place.request_import(
                actor=request.actor,
                dataset=dataset,
                source=given["source"],
                prefix=given["folder"],
                directory=given["directory"],
                branch=given["branch"],
                message=given["message"],
            )
        except (InvalidInput, ReferenceNotFound, SourceFileMissing, SourceNotFound, SourceUnreachable) as error:
            form.add_error(_FIELDS.get(type(error)), error.message)
        else:
            messages.success(request, "The server reads each file once. None is copied.")
            return redirect("datasets:imports", project=project, name=name)
    return show_again(request, "datasets:imports", form, of=[project, name])


def preview_import(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Say how many files and bytes a folder of a source holds; htmx asks when the form changes."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    context: dict[str, object] = {"dataset": dataset}
    try:
        context["preview"] = in_place.preview_import(
            actor=request.actor,
            project=dataset.project,
            source=text(request, "source") or "",
            prefix=(text(request, "folder") or "").strip(),
        )
    except (InvalidInput, SourceFileMissing, SourceNotFound, SourceUnreachable) as error:
        context["error"] = error
    return render(request, "datasets/import_preview.html", context)


@require_POST
def promote_import(request: PageRequest, project: str, name: str, import_id: str) -> HttpResponse:
    """Have the content of an import copied into the store."""
    in_place.promote(actor=request.actor, row=reads.get_import(actor=request.actor, import_id=import_id))
    messages.success(request, "Its files are being copied into the store.")
    return redirect("datasets:imports", project=project, name=name)


@require_POST
def cancel_import(request: PageRequest, project: str, name: str, import_id: str) -> HttpResponse:
    """Have an import stopped, or the promotion of one."""
    in_place.cancel(actor=request.actor, row=reads.get_import(actor=request.actor, import_id=import_id))
    messages.success(request, "It is being stopped.")
    return redirect("datasets:imports", project=project, name=name)


@require_POST
def check_import(request: PageRequest, project: str, name: str, import_id: str) -> HttpResponse:
    """Have the files of an import compared with what they were."""
    in_place.request_check(actor=request.actor, row=reads.get_import(actor=request.actor, import_id=import_id))
    messages.success(request, "Its files are being compared with what they were.")
    return redirect("datasets:imports", project=project, name=name)


def _form_for(request: PageRequest, dataset: Dataset, typed: QueryDict | None = None) -> ImportForm:
    """Return the form, with what a project may import from, and the branches of the dataset."""
    form = ImportForm(typed, initial={"branch": dataset.default_branch}, auto_id="import-%s")
    open_sources = sources.list_sources_for(actor=request.actor, project=dataset.project)[:_SOURCES]
    branches = commits.list_branches(request.actor, dataset).order_by("name").values_list("name", flat=True)
    form.fields["source"].choices = [(one.name, one.name) for one in open_sources]  # type: ignore[attr-defined]
    form.fields["branch"].choices = [(one, one) for one in branches[:_BRANCHES]]  # type: ignore[attr-defined]
    preview_url = reverse("datasets:preview_import", args=[dataset.project.name, dataset.name])
    watched = {"hx-get": preview_url, "hx-target": "#import-preview", "hx-include": "closest form"}
    # A form that comes back says itself what is wrong.
    trigger = "load, change" if typed is None else "change"
    form.fields["source"].widget.attrs |= watched | {"hx-trigger": trigger}
    form.fields["folder"].widget.attrs |= watched | {"hx-trigger": "input changed delay:400ms", "class": "mono"}
    form.fields["directory"].widget.attrs["class"] = "mono"
    return form
