"""Renaming and deleting from the files page, each as a commit."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.permissions import Level
from accounts.web.requests import PageRequest, text
from datasets.selectors import commits, datasets
from datasets.services import tree_edits
from datasets.web.paths import link_path, read_path
from nearline.content.paths import show_path, to_bytes


def edit_path(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Offer to rename or delete a file or a folder. Without script it is a page of its own."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    branch = commits.get_branch(request.actor, dataset, text(request, "ref") or dataset.default_branch)
    path = read_path(request, "path")
    context = {
        "dataset": dataset,
        "project_name": project,
        "branch": branch,
        "path": show_path(path),
        "link": link_path(path),
        "may_write": (request.actor.level_in(dataset.project_id) or 0) >= Level.WRITE,
    }
    return render(request, "datasets/edit_dialog.html" if request.htmx else "datasets/edit_page.html", context)


@require_POST
def remove(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Delete a file, or a folder with all that is in it."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    branch, path = request.POST.get("branch", ""), read_path(request, "path")
    made = tree_edits.remove_paths(
        actor=request.actor,
        dataset=dataset,
        branch=branch,
        paths=[path],
        expected_head=request.POST.get("head", ""),
        message=request.POST.get("message", "").strip(),
    )
    messages.success(request, f"{show_path(path)} is gone from {branch}, by commit {made.short}.")
    return _show(project, name, branch, path.rpartition(b"/")[0])


@require_POST
def rename(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Give a file or a folder another path."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    branch, path = request.POST.get("branch", ""), read_path(request, "path")
    to = to_bytes(request.POST.get("to", "").strip().strip("/"))
    made = tree_edits.rename_path(
        actor=request.actor,
        dataset=dataset,
        branch=branch,
        path=path,
        to=to,
        expected_head=request.POST.get("head", ""),
        message=request.POST.get("message", "").strip(),
    )
    messages.success(request, f"{show_path(path)} is {show_path(to)} now, by commit {made.short}.")
    return _show(project, name, branch, to.rpartition(b"/")[0])


def _show(project: str, name: str, branch: str, folder: bytes) -> HttpResponse:
    return redirect(f"{reverse('datasets:files', args=[project, name])}?ref={branch}&path={link_path(folder)}")
