"""What the steps of a run left, for those that read it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import Count, F, Sum

from accounts.actor import Actor
from accounts.permissions import require
from flows import permissions
from flows.models import Artifact, Run


@dataclass(frozen=True)
class Left:
    """How much a step left, all tries of its grid together."""

    files: int
    size_bytes: int


def sum_outputs(*, actor: Actor, run: Run, keys: Collection[str]) -> Mapping[str, Left]:
    """Return by step how many files its newest attempts left, in one query; steps that left none are not there."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    newest = Artifact.objects.filter(
        experiment__run=run,
        experiment__step__key__in=keys,
        experiment__attempt__number=F("experiment__step__attempt_count"),
    )
    rows = newest.order_by().values_list("experiment__step__key").annotate(Count("pk"), Sum("size_bytes"))
    return {key: Left(files, size_bytes) for key, files, size_bytes in rows}
