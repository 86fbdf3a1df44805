"""What steps measured, as their children and conditions see it. For the platform itself: no actor is asked for."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.db.models import F, QuerySet

from compute.selectors import jobs
from compute.selectors.states import JobState
from core.prepared import prepared
from experiments.selectors import recorded
from flows.engine.expressions import Value
from flows.models import Attempt


class NewestAttempt(NamedTuple):
    """The last try of an instance of a step."""

    id: str
    step_index: int
    job_id: str | None
    state: str
    has_job_succeeded: bool


def newest_attempts(run_id: str, key: str) -> Sequence[NewestAttempt]:
    """Return the newest attempt of each instance of a step, by index."""
    return [NewestAttempt(*row) for row in _newest(run_id, key)]


@prepared
def _newest(run_id: str, key: str) -> QuerySet[Attempt, tuple[str, int, str | None, str, bool]]:
    newest = Attempt.objects.filter(run=run_id, step__key=key, number=F("step__attempt_count")).order_by("step__index")
    return newest.values_list("pk", "step__index", "job_id", "state", jobs.is_in({JobState.SUCCEEDED}))


def of_step(run_id: str, key: str, attempts: Sequence[NewestAttempt] | None = None) -> dict[int, Mapping[str, Value]]:
    """Return, for each instance of a step that succeeded, its tags and the last values of its metrics.

    `attempts` are its newest ones, where they are known.
    """
    newest = {each.id: each for each in (newest_attempts(run_id, key) if attempts is None else attempts)}
    # A job's success is the step's, as soon as its log is read; the step itself may be settled by the very next plan.
    return {
        each.step_index: each.values
        for each in recorded.of_step(run_id=run_id, step_key=key)
        if (attempt := newest.get(each.source_id)) is not None
        and (attempt.state == "succeeded" or (attempt.has_job_succeeded and each.is_read))
    }
