"""What steps measured, as their children and conditions see it. For the platform itself: no actor is asked for."""

from collections.abc import Mapping

from django.db.models import F

from experiments.selectors import measurements
from flows.engine.expressions import Value
from flows.models import Attempt


def of_step(run_id: str, key: str) -> dict[int, Mapping[str, Value]]:
    """Return, for each instance of a step that succeeded, its tags and the last values of its metrics."""
    # A job's success is the step's, as soon as its log is read; the step itself may be settled by the very next plan.
    newest = Attempt.objects.filter(run=run_id, step__key=key, number=F("step__attempt_count"))
    states = {pk: (state, job_state) for pk, state, job_state in newest.values_list("pk", "state", "job__state")}
    return {
        each.step_index: each.values
        for each in measurements.of_step(run_id=run_id, step_key=key)
        if (state := states.get(each.source_id)) is not None
        and (state[0] == "succeeded" or (state[1] == "succeeded" and each.is_read))
    }
