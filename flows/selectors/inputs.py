"""Which datasets the steps of a run read, where each of them lies, and from where jobs can mount what they read."""

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.permissions import require
from compute.services.jobs import SourceKind
from flows import permissions
from flows.models import AttemptInput, Run

DATA_SOURCES = frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE})
"""A dataset is a cached or own copy on this host, or is read from the store."""

OUTPUT_SOURCES = frozenset({SourceKind.HOST_FOLDER})
"""The output of an earlier step is its folder on this host; where that is not here, it comes from the store."""


def list_inputs(*, actor: Actor, run: Run) -> QuerySet[AttemptInput]:
    """Return the datasets of all attempts of a run, newest attempts first, with attempt and step at hand."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    inputs = AttemptInput.objects.filter(attempt__run=run).select_related("attempt__step")
    return inputs.order_by("-attempt", "name")
