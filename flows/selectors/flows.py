"""Reads about flows, their versions and one's own drafts, limited to the projects that the actor may see."""

from django.db.models import OuterRef, QuerySet, Subquery

from accounts.models import Project
from accounts.permissions import Actor, require
from accounts.selectors import get_project
from flows import permissions
from flows.errors import FlowNotFound
from flows.models import Flow, FlowDraft, FlowVersion

NEW = "~"
"""What the keys of drafts start with whose flow does not exist yet."""
_SHORTEST_PREFIX = 6


def list_flows(*, actor: Actor, project: str | None = None) -> QuerySet[Flow]:
    """Return the flows that the actor may see, newest first, each with `newest_hash` and `newest_number`."""
    newest = FlowVersion.objects.filter(flow=OuterRef("pk")).order_by("-number")
    flows = (
        Flow.objects.filter(deleted_at=None)
        .select_related("project")
        .annotate(newest_hash=Subquery(newest.values("hash")[:1]), newest_number=Subquery(newest.values("number")[:1]))
    )
    if not actor.sees_everything:
        flows = flows.filter(project_id__in=actor.project_ids)
    if project is not None:
        flows = flows.filter(project=get_project(actor=actor, name=project))
    return flows.order_by("-pk")


def get_flow(*, actor: Actor, project: str, name: str) -> Flow:
    """Return a flow. Raises FlowNotFound, also to those who are not members of its project."""
    flow = list_flows(actor=actor).filter(project__name=project, name=name).first()
    if flow is None:
        raise FlowNotFound(f"There is no flow {project}/{name}, or you are not a member of its project.")
    return flow


def list_versions(*, actor: Actor, flow: Flow) -> QuerySet[FlowVersion]:
    """Return the versions of a flow, newest first."""
    require(actor, permissions.VIEW_FLOWS, flow.project_id)
    return FlowVersion.objects.filter(flow=flow).select_related("flow__project").order_by("-number")


def newest_number(*, actor: Actor, project: Project, name: str) -> int | None:
    """Return the number of a flow's newest version; None for a flow that does not exist."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    versions = FlowVersion.objects.filter(flow__project=project, flow__name=name, flow__deleted_at=None)
    return versions.order_by("-number").values_list("number", flat=True).first()


def get_version(*, actor: Actor, flow: Flow, version: str | None = None) -> FlowVersion:
    """Return a version by its hash, the beginning of it (6 digits at least) or its number; without, the newest.

    Raises FlowNotFound.
    """
    versions = list_versions(actor=actor, flow=flow)
    if version:
        is_number = version.isdigit() and len(version) < _SHORTEST_PREFIX
        if is_number:
            versions = versions.filter(number=int(version))
        elif len(version) >= _SHORTEST_PREFIX:
            versions = versions.filter(hash__startswith=version)
        else:
            versions = versions.none()
    newest = versions.first()
    if newest is None:
        raise FlowNotFound(f"The flow {flow.name} has no version '{version}'.")
    return newest


def find_draft(*, actor: Actor, project: Project, key: str) -> FlowDraft | None:
    """Return the actor's draft of a flow; None when there is none."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    return FlowDraft.objects.filter(user_id=actor.user_id or 0, project=project, key=key).first()


def list_new_drafts(*, actor: Actor) -> QuerySet[FlowDraft]:
    """Return the actor's drafts of flows that do not exist yet, newest first."""
    drafts = FlowDraft.objects.filter(user_id=actor.user_id or 0, key__startswith=NEW).select_related("project")
    if not actor.sees_everything:
        drafts = drafts.filter(project_id__in=actor.project_ids)
    return drafts.order_by("-updated_at", "-pk")
