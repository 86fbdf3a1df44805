"""What steps measured, as their children and conditions see it. For the platform itself: no actor is asked for."""

from collections.abc import Mapping

from django.db.models import F

from compute.selectors import jobs
from compute.selectors.states import JobState
from experiments.selectors import measurements
from flows.engine.expressions import Value
from flows.models import Attempt


def of_step(run_id: str, key: str) -> dict[int, Mapping[str, Value]]:
    """Return, for each instance of a step that succeeded, its tags and the last values of its metrics."""
    # A job's success is the step's, as soon as its log is read; the step itself may be settled by the very next plan.
    newest = Attempt.objects.filter(run=run_id, step__key=key, number=F("step__attempt_count"))
    succeeded = newest.annotate(has_job_succeeded=jobs.is_in({JobState.SUCCEEDED}))
    states = {pk: (state, is_over) for pk, state, is_over in succeeded.values_list("pk", "state", "has_job_succeeded")}
    return {
        each.step_index: each.values
        for each in measurements.of_step(run_id=run_id, step_key=key)
        if (state := states.get(each.source_id)) is not None
        and (state[0] == "succeeded" or (state[1] and each.is_read))
    }
