"""What experiments do when a person submits a job, and what they answer when it, or its files, are to be deleted."""

from collections.abc import Mapping, Sequence

from django.dispatch import receiver

from accounts.actor import Actor
from compute.signals import files_due, job_submitted, output_due
from experiments.models import Experiment
from experiments.services import jobs


@receiver(job_submitted, dispatch_uid="experiments.job_submitted")
def create_experiment_of_job(job_id: str, datasets: Sequence[Mapping[str, object]], **_signal: object) -> None:
    """Create the experiment of a submitted job, in the job's own transaction."""
    jobs.create_experiment(actor=Actor.system("experiments"), job_id=job_id, datasets=datasets)


@receiver(output_due, dispatch_uid="experiments.output_due")
def needs_output(job_id: str, **_signal: object) -> bool:
    """Whether an experiment shows the files of a job."""
    return Experiment.objects.filter(job=job_id).exists()


@receiver(files_due, dispatch_uid="experiments.files_due")
def keep_files_to_store(job_id: str, **_question: object) -> bool:
    """Keep the files of a job while its output is still to be stored."""
    return Experiment.objects.filter(job=job_id, artifacts_wanted=True).exists()
