"""Reads about the views of experiments that members saved."""

from django.db.models import QuerySet

from accounts.permissions import Actor
from accounts.selectors import get_project
from experiments.errors import ViewNotFound
from experiments.models import SavedView


def list_views(*, actor: Actor, project: str | None = None) -> QuerySet[SavedView]:
    """Return the saved views of the projects that the actor may see."""
    views = SavedView.objects.select_related("owner", "project").order_by("name", "pk")
    if not actor.sees_everything:
        views = views.filter(project_id__in=actor.project_ids)
    return views if project is None else views.filter(project=get_project(actor=actor, name=project))


def get_view(*, actor: Actor, view_id: str) -> SavedView:
    """Return a saved view. Raises ViewNotFound, also to those who are not members of its project."""
    view = list_views(actor=actor).filter(pk=view_id).first()
    if view is None:
        raise ViewNotFound(f"There is no saved view '{view_id}', or you are not a member of its project.")
    return view
