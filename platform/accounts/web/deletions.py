"""The end of a project, told first, and its return."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from accounts import selectors
from accounts.services import deletions
from accounts.web.requests import PageRequest, text, to_members
from core.errors import InvalidInput
from core.pagination import paginate

_ROWS = 50


def delete_page(request: PageRequest, name: str) -> HttpResponse:
    """Show what the deletion of a project does; a POST in which its name was typed once more deletes it."""
    project = selectors.get_project(actor=request.actor, name=name)
    if request.method != "POST":
        forecast = deletions.foresee_deletion(actor=request.actor, project=project)
        return render(request, "accounts/delete_project.html", {"forecast": forecast})
    deletions.require_delete(actor=request.actor, project=project)
    if request.POST.get("confirmed") != name:
        raise InvalidInput("The name that was typed is not the project's. Nothing was deleted.")
    deleted = deletions.delete_project(actor=request.actor, project=project, for_good="for_good" in request.POST)
    messages.success(request, f"{name} is deleted. {selectors.describe_restore_time(deleted)}")
    return redirect("accounts:deleted_projects")


def deleted_page(request: PageRequest) -> HttpResponse:
    """List the deleted projects that the reader may restore, and those whose removal goes on."""
    page = paginate(selectors.list_deleted(actor=request.actor), cursor=text(request, "cursor"), limit=_ROWS)
    context = {"rows": page.items, "next_cursor": page.next_cursor, "restore_days": settings.NEARLINE.restore_days}
    return render(request, "accounts/deleted_projects.html", context)


@require_POST
def restore(request: PageRequest, name: str) -> HttpResponse:
    """Bring back a deleted project and show its members."""
    project = selectors.get_deleted(actor=request.actor, name=name)
    deletions.restore_project(actor=request.actor, project=project)
    messages.success(request, f"{name} is restored. Its commits can be cached again; what was stopped stays stopped.")
    return to_members(request, name)


@require_POST
def delete_for_good(request: PageRequest, name: str) -> HttpResponse:
    """Delete a project for good that could still be restored."""
    project = selectors.get_deleted(actor=request.actor, name=name)
    deletions.delete_for_good(actor=request.actor, project=project)
    messages.success(request, f"{name} is deleted for good.")
    return redirect("accounts:deleted_projects")
