"""What the platform could not do for experiments."""

from collections.abc import Collection, Mapping

from accounts.permissions import Actor, require
from core import isolation
from core.isolation import FailureView
from experiments import permissions
from experiments.models import Experiment

READ_LOG, RECORD_LOG = "experiments.read_log", "experiments.record_log"
READ_LATE_LOG = "experiments.read_late_log"
STORE_OUTPUTS, MOVE_ARTIFACTS = "experiments.store_outputs", "experiments.move_artifacts"
REMOVE = "experiments.remove_deleted"
FOLLOW_JOB = "experiments.follow_job"
"""Items are jobs."""

WORK: Mapping[str, str] = {
    READ_LOG: "read the log of",
    RECORD_LOG: "record what is in the log of",
    READ_LATE_LOG: "read the end of the log of",
    STORE_OUTPUTS: "keep the outputs of",
    MOVE_ARTIFACTS: "move the outputs of",
}
"""What the platform could not do, by kind of failure; the name of a step follows. Items are experiments."""


def list_failures(*, actor: Actor, experiment: Experiment) -> list[FailureView]:
    """Return what fails now for an experiment."""
    require(actor, permissions.VIEW_EXPERIMENTS, experiment.project_id)
    failures = isolation.find(WORK, [experiment.pk])
    return [FailureView.of(failure, f"{WORK[failure.kind]} {experiment.title}") for failure in failures]


def steps_of(run_id: str, experiment_ids: Collection[str]) -> Mapping[str, str]:
    """Return the steps of those experiments that belong to a run. For the platform itself."""
    if not experiment_ids:
        return {}
    return dict(Experiment.objects.filter(run_id=run_id, pk__in=experiment_ids).values_list("pk", "step_key"))
