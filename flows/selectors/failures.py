"""What the platform could not do for a run, and when it tries again."""

from collections.abc import Mapping

from accounts.permissions import Actor, require
from core import isolation
from core.isolation import FailureView
from core.models import Failure
from experiments.selectors import failures as experiment_failures
from flows import permissions
from flows.models import AttemptInput, Run

ADVANCE = "flows.advance"
"""Items are runs."""
FORECAST = "flows.forecast"
"""Items are runs. A step starts without a forecast, and its reason says so."""
BRING_NEXT = "flows.bring_next"
"""Items are steps whose parents run. Their attempts ask for the datasets again."""
BRING_INPUT, COPY_INPUT = "flows.bring_input", "flows.copy_input"
"""Items are inputs of attempts."""

_STEP_WORK: Mapping[str, str] = {
    **experiment_failures.WORK,
    BRING_INPUT: "bring a dataset to",
    COPY_INPUT: "copy a dataset for",
}


def list_failures(*, actor: Actor, run: Run) -> list[FailureView]:
    """Return what fails now for a run and its steps."""
    require(actor, permissions.VIEW_FLOWS, run.project_id)
    return [FailureView.of(failure, work) for failure, work in _failures_of(run)]


def ids_of(run: Run) -> list[str]:
    """Return the ids of what fails now for a run and its steps."""
    return [failure.pk for failure, _ in _failures_of(run)]


def _failures_of(run: Run) -> list[tuple[Failure, str]]:
    """Return failures with what could not be done: of the run, then of its steps, the oldest first."""
    failures = isolation.find([ADVANCE, *_STEP_WORK])
    item_ids = [failure.item_id for failure in failures]
    steps = {**_steps_of(run, item_ids), **experiment_failures.steps_of(run.pk, item_ids)}
    of_run = [(failure, "advance this run") for failure in failures if failure.item_id == run.pk]
    return of_run + [
        (failure, f"{_STEP_WORK[failure.kind]} '{steps[failure.item_id]}'")
        for failure in failures
        if failure.item_id in steps
    ]


def _steps_of(run: Run, item_ids: list[str]) -> dict[str, str]:
    """Return the steps of a run by those inputs among the items that belong to it."""
    if not item_ids:
        return {}
    return dict(AttemptInput.objects.filter(pk__in=item_ids, attempt__run=run).values_list("pk", "attempt__step__key"))
