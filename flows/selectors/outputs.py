"""What the steps of a run left, for those that read it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import F

from accounts.permissions import Actor, require
from experiments.selectors import artifacts
from flows import permissions
from flows.models import Attempt, Run


@dataclass(frozen=True)
class Left:
    """How much a step left, all tries of its grid together."""

    files: int
    size_bytes: int


def sum_outputs(*, actor: Actor, run: Run, keys: Collection[str]) -> Mapping[str, Left]:
    """Return by step how many files its newest attempts left, in two queries; steps that left none are not there."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    sums = artifacts.sum_artifacts(actor=actor, project_id=run.project_id, run_id=run.pk, step_keys=keys)
    newest = Attempt.objects.filter(run=run, step__key__in=keys, number=F("step__attempt_count"))
    steps = dict(newest.values_list("pk", "step__key")) if sums else {}
    totals: dict[str, Left] = {}
    for each in sums:
        if (key := steps.get(each.source_id)) is not None:
            before = totals.get(key, Left(0, 0))
            totals[key] = Left(before.files + each.files, before.size_bytes + each.size_bytes)
    return totals
