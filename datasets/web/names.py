"""Branches and tags of a dataset, and its settings."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts.web.requests import PageRequest, text
from core.errors import InvalidInput, PlatformError
from core.pagination import M, Page, paginate_by
from datasets.errors import AmbiguousReference, EmptyBranch, InvalidLabel, NameTaken, ReferenceNotFound
from datasets.selectors import commits, datasets
from datasets.services import branches
from datasets.services import datasets as services
from datasets.web import heading
from web.refused_forms import show_again, shown

_ROWS = 50
_FIELDS: dict[type[PlatformError], str] = {
    AmbiguousReference: "at",
    EmptyBranch: "at",
    InvalidLabel: "label",
    NameTaken: "label",
    ReferenceNotFound: "at",
}
"""Beside which field of the form an error is shown."""


class NameForm(forms.Form):
    """A new branch or tag."""

    kind = forms.ChoiceField(
        choices=[("branch", "Branch: moves with new commits"), ("tag", "Tag: stays with its commit")]
    )
    label = forms.CharField(max_length=100, label="Name", widget=forms.TextInput({"autocomplete": "off"}))
    at = forms.CharField(
        max_length=100,
        help_text="A branch, a tag, or the beginning of a commit's id.",
        widget=forms.TextInput({"class": "mono", "autocomplete": "off"}),
    )


def names_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """List what names the commits of a dataset."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    newest = datasets.newest_commit_of(dataset)
    part = text(request, "q") or ""
    branches = commits.list_branches(request.actor, dataset).select_related("head").filter(name__icontains=part)
    tags = commits.list_tags(request.actor, dataset).select_related("commit").filter(name__icontains=part)
    context = heading.of(request.actor, dataset, tab="names") | {
        "part": part,
        "branches": _page_of(branches, text(request, "branches")),
        "tags": _page_of(tags, text(request, "tags")),
        "form": shown(request, NameForm(initial={"at": newest.short if newest else ""}, auto_id="name-%s")),
    }
    return render(request, "datasets/names.html", context)


@require_POST
def create_name(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Make a branch or a tag at a commit."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    form = NameForm(request.POST, auto_id="name-%s")
    if form.is_valid():
        label, at = form.cleaned_data["label"], form.cleaned_data["at"]
        try:
            commit = commits.get_commit(request.actor, dataset, at)
            if form.cleaned_data["kind"] == "tag":
                branches.create_tag(actor=request.actor, dataset=dataset, name=label, commit=commit)
            else:
                branches.create_branch(actor=request.actor, dataset=dataset, name=label, at=commit.id)
        except (AmbiguousReference, EmptyBranch, InvalidLabel, NameTaken, ReferenceNotFound) as error:
            form.add_error(_FIELDS[type(error)], error.message)
        else:
            messages.success(request, f"{label} is at {commit.short}.")
            return redirect("datasets:names", project=project, name=name)
    return show_again(request, "datasets:names", form, of=[project, name])


@require_POST
def move_branch(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Let a branch point to another commit."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    label = request.POST.get("label", "")
    commit = commits.get_commit(request.actor, dataset, request.POST.get("at", "").strip())
    branches.move_branch(
        actor=request.actor, dataset=dataset, name=label, to=commit, expected=request.POST.get("expected") or None
    )
    messages.success(request, f"{label} is at {commit.short}.")
    return redirect("datasets:names", project=project, name=name)


@require_POST
def delete_name(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Delete a branch or a tag; commits stay."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    label = request.POST.get("label", "")
    delete = branches.delete_tag if request.POST.get("kind") == "tag" else branches.delete_branch
    delete(actor=request.actor, dataset=dataset, name=label)
    messages.success(request, f"{label} is deleted. Its commits stay.")
    return redirect("datasets:names", project=project, name=name)


def settings_page(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Show what of a dataset can be changed; a POST changes it."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    if request.method == "POST":
        days = request.POST.get("idle_days", "").strip()
        changes: dict[str, object] = {
            "description": request.POST.get("description", "").strip(),
            "kind": request.POST.get("kind", "").strip() or "general",
            "idle_days": _number(days) if days else None,
        }
        if default_branch := request.POST.get("default_branch"):
            changes["default_branch"] = default_branch
        if (new_name := request.POST.get("name", name).strip()) != name:
            changes["name"] = new_name
        changed = services.update_dataset(actor=request.actor, dataset=dataset, changes=changes)
        messages.success(request, "Saved.")
        return redirect("datasets:settings", project=project, name=changed.name)
    context = heading.of(request.actor, dataset, tab="settings") | {"restore_days": settings.NEARLINE.restore_days}
    return render(request, "datasets/settings.html", context)


@require_POST
def delete(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Delete a dataset whose name was typed once more."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    if request.POST.get("confirmed") != name:
        raise InvalidInput("The name that was typed is not the dataset's. Nothing was deleted.")
    deleted = services.delete_dataset(actor=request.actor, dataset=dataset, for_good="for_good" in request.POST)
    until = deleted.restore_ends_at
    rest = f" It can be restored until {until:%Y-%m-%d %H:%M} UTC." if until else ""
    messages.success(request, f"{project}/{name} is deleted.{rest}")
    return redirect("datasets:hub")


def _number(days: str) -> float:
    try:
        return float(days)
    except ValueError as error:
        raise InvalidInput(f"'{days}' is not a number of days.", field="idle_days") from error


def _page_of(rows: QuerySet[M], cursor: str | None) -> Page[M]:
    return paginate_by(rows, field="name", descending=False, cursor=cursor, limit=_ROWS)
