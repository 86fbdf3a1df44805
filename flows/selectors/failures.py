"""What the platform could not do for a run, and when it tries again."""

from collections.abc import Mapping

from django.db.models import Q

from accounts.actor import Actor
from accounts.permissions import require
from core import isolation
from core.isolation import FailureView
from flows import permissions
from flows.models import Attempt, Run

ADVANCE = "flows.advance"
"""Items are runs."""
READ_LOG, RECORD_LOG = "flows.read_log", "flows.record_log"
STORE_OUTPUTS, RECORD_OUTPUTS = "flows.store_outputs", "flows.record_outputs"
"""Items are experiments."""
BRING_INPUT, COPY_INPUT = "flows.bring_input", "flows.copy_input"
"""Items are inputs of attempts."""

_STEP_WORK: Mapping[str, str] = {
    READ_LOG: "read the log of",
    RECORD_LOG: "record what is in the log of",
    STORE_OUTPUTS: "keep the outputs of",
    RECORD_OUTPUTS: "record the outputs of",
    BRING_INPUT: "bring a dataset to",
    COPY_INPUT: "copy a dataset for",
}


def list_failures(*, actor: Actor, run: Run) -> list[FailureView]:
    """Return what fails now for a run and its steps."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    failures = isolation.find([ADVANCE, *_STEP_WORK])
    steps = _steps_of(run, [failure.item_id for failure in failures])
    of_run = [FailureView.of(failure, "advance this run") for failure in failures if failure.item_id == run.pk]
    return of_run + [
        FailureView.of(failure, f"{_STEP_WORK[failure.kind]} '{steps[failure.item_id]}'")
        for failure in failures
        if failure.item_id in steps
    ]


def ids_of(run: Run) -> list[str]:
    """Return the ids of what fails now for a run and its steps."""
    failures = isolation.find([ADVANCE, *_STEP_WORK])
    item_ids = _steps_of(run, [failure.item_id for failure in failures]).keys() | {run.pk}
    return [failure.pk for failure in failures if failure.item_id in item_ids]


def _steps_of(run: Run, item_ids: list[str]) -> dict[str, str]:
    """Return the steps of a run by those experiments and inputs among the items that belong to it."""
    if not item_ids:
        return {}
    mine = Attempt.objects.filter(Q(experiment__in=item_ids) | Q(inputs__in=item_ids), run=run)
    return {
        item_id: key
        for key, *ids in mine.values_list("step__key", "experiment__pk", "inputs__pk")
        for item_id in ids
        if item_id is not None
    }
