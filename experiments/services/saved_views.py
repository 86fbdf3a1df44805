"""Views of a project's experiments that members name and share."""

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.errors import PermissionDenied
from accounts.models import Project
from accounts.permissions import require
from core.errors import InvalidInput
from experiments import permissions
from experiments.errors import ViewExists
from experiments.models import SavedView

MAX_NAME, MAX_QUERY = 100, 8000


@transaction.atomic
def save_view(*, actor: Actor, project: Project, name: str, query: str) -> SavedView:
    """Keep a view under a name. One of the actor's own is replaced. Raises ViewExists when the name is another's."""
    require(actor, permissions.SAVE_VIEW, project.pk)
    name = " ".join(name.replace("\0", "").split())
    if not 0 < len(name) <= MAX_NAME or len(query) > MAX_QUERY or "\0" in query:
        raise InvalidInput(f"A view has a name of at most {MAX_NAME} characters, and its address at most {MAX_QUERY}.")
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
def delete_view(*, actor: Actor, view: SavedView) -> None:
    """Delete a view: its owner's own, or as an admin of the project any."""
    is_own = view.owner_id == actor.user_id
    require(actor, permissions.SAVE_VIEW if is_own else permissions.DELETE_VIEW, view.project_id)
    audit.record(actor, "flows.delete_view", view)
    view.delete()
