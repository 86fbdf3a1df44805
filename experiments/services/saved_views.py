"""Views of a project's experiments that members name and share."""

from django.db import IntegrityError, transaction

from accounts import audit
from accounts.errors import PermissionDenied
from accounts.models import Project
from accounts.permissions import Actor, require
from core.errors import InvalidInput
from experiments import permissions
from experiments.errors import ViewExists
from experiments.models import SavedView

MAX_NAME, MAX_QUERY = 100, 8000


@transaction.atomic
def save_view(*, actor: Actor, project: Project, name: str, query: str) -> SavedView:
    """Keep a view under a name. One of the actor's own is replaced. Raises ViewExists when the name is another's."""
    require(actor, permissions.SAVE_VIEW, project.pk)
    name = _tidy_name(name)
    if len(query) > MAX_QUERY or "\0" in query:
        raise InvalidInput(f"The address of a view has at most {MAX_QUERY} characters.")
    if actor.user_id is None:
        raise PermissionDenied("Only people save views.")
    view, is_new = SavedView.objects.select_for_update().get_or_create(
        project=project, name=name, defaults={"query": query, "owner_id": actor.user_id}
    )
    if view.owner_id != actor.user_id:
        raise ViewExists(f"{view.owner.username} keeps a view called '{name}' already.")
    if not is_new:
        view.query = query
        view.save(update_fields=["query"])
    audit.record(actor, "flows.save_view", view)
    return view


@transaction.atomic
def rename_view(*, actor: Actor, view: SavedView, name: str) -> SavedView:
    """Give a view another name: its owner's own, or as an admin of the project any. Raises ViewExists."""
    _require_change(actor, view)
    view.name = _tidy_name(name)
    try:
        with transaction.atomic():
            view.save(update_fields=["name"])
    except IntegrityError as error:
        raise ViewExists(f"There is a view called '{view.name}' in {view.project.name} already.") from error
    audit.record(actor, "flows.rename_view", view)
    return view


@transaction.atomic
def delete_view(*, actor: Actor, view: SavedView) -> None:
    """Delete a view: its owner's own, or as an admin of the project any."""
    _require_change(actor, view)
    audit.record(actor, "flows.delete_view", view)
    view.delete()


def _require_change(actor: Actor, view: SavedView) -> None:
    is_own = view.owner_id == actor.user_id
    require(actor, permissions.SAVE_VIEW if is_own else permissions.CHANGE_VIEW, view.project_id)


def _tidy_name(name: str) -> str:
    tidy = " ".join(name.replace("\0", "").split())
    if not 0 < len(tidy) <= MAX_NAME:
        raise InvalidInput(f"The name of a view has 1 to {MAX_NAME} characters.")
    return tidy
