"""Which datasets the steps of a run read, and where each of them lies."""

from django.db.models import QuerySet

from accounts.actor import Actor
from accounts.permissions import require
from flows import permissions
from flows.models import AttemptInput, Run


def list_inputs(*, actor: Actor, run: Run) -> QuerySet[AttemptInput]:
    """Return the datasets of all attempts of a run, newest attempts first, with attempt and step at hand."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    inputs = AttemptInput.objects.filter(attempt__run=run).select_related("attempt__step")
    return inputs.order_by("-attempt", "name")
