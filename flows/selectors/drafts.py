"""Reads about one's own drafts."""

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from flows import permissions
from flows.models import FlowDraft

NEW = "~"
"""What the keys of drafts start with whose flow does not exist yet."""


def find_draft(*, actor: Actor, project: Project, key: str) -> FlowDraft | None:
    """Return the actor's draft of a flow; None when there is none."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    return FlowDraft.objects.filter(user_id=actor.user_id or 0, project=project, key=key).first()


def list_new(*, actor: Actor) -> QuerySet[FlowDraft]:
    """Return the actor's drafts of flows that do not exist yet, newest first."""
    drafts = FlowDraft.objects.filter(user_id=actor.user_id or 0, key__startswith=NEW).select_related("project")
    if not actor.sees_everything:
        drafts = drafts.filter(project_id__in=actor.project_ids)
    return drafts.order_by("-updated_at", "-pk")
