"""The library of a project: steps that were written before, to be taken over into another flow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery

from accounts.actor import Actor
from accounts.models import Project
from accounts.permissions import require
from flows import permissions
from flows.models import FlowVersion

_MOST_FLOWS = 40


@dataclass(frozen=True)
class Shelf:
    """The steps of one flow, as they stand in its newest version. `needs_code`: they run files that came with it."""

    flow: str
    title: str
    needs_code: bool
    steps: Sequence[Mapping[str, Any]]


def list_library(*, actor: Actor, project: Project) -> Sequence[Shelf]:
    """Return the steps of the project's flows, those changed last first, in one query."""
    require(actor, permissions.VIEW_FLOWS, project.pk)
    newest = FlowVersion.objects.filter(flow=OuterRef("flow")).order_by("-number").values("pk")[:1]
    versions = (
        FlowVersion.objects.filter(flow__project=project, flow__deleted_at=None, pk=Subquery(newest))
        .select_related("flow")
        .order_by("-flow__updated_at", "-pk")[:_MOST_FLOWS]
    )
    return [
        Shelf(version.flow.name, version.flow.title, bool(version.bundle), version.spec.get("steps", []))
        for version in versions
    ]
