"""Experiments of jobs that people submit: their source is the job itself, by its name."""

from collections.abc import Mapping, Sequence

from accounts.permissions import Actor
from compute.selectors import jobs
from experiments.engine.states import ExperimentState
from experiments.selectors.sources import JOB
from experiments.services import experiments
from experiments.services.experiments import NewExperiment


def create_experiment(*, actor: Actor, job_id: str, datasets: Sequence[Mapping[str, object]]) -> None:
    """Create the experiment of a job that waits for resources. `datasets` say which commits it reads.

    All of its output is stored once it has succeeded.
    """
    job = jobs.list_by_id([job_id])[job_id]
    new = NewExperiment(
        project_id=job.project_id,
        source_id=job.name,
        title=job.label,
        state=ExperimentState.QUEUED,
        created_by=job.submitted_by,
        job_id=job.pk,
        job_name=job.name,
        template=job.template_name,
        is_simulated=job.resource.is_simulated,
        datasets=datasets,
        output_patterns=("**",),
    )
    experiments.create_experiments(actor=actor, kind=JOB, experiments=[new])
