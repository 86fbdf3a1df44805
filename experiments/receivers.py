"""What experiments do when a person submits a job."""

from collections.abc import Mapping, Sequence

from django.dispatch import receiver

from accounts.actor import Actor
from compute.signals import job_submitted
from experiments.services import jobs


@receiver(job_submitted, dispatch_uid="experiments.job_submitted")
def create_experiment_of_job(job_id: str, datasets: Sequence[Mapping[str, object]], **_signal: object) -> None:
    """Create the experiment of a submitted job, in the job's own transaction."""
    jobs.create_experiment(actor=Actor.system("experiments"), job_id=job_id, datasets=datasets)
