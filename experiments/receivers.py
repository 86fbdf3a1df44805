"""What experiments do when a person submits a job, and what they answer when it, or its files, are to be deleted."""

from collections.abc import Collection, Mapping, Sequence

from django.db.models import Q
from django.dispatch import receiver

from accounts.permissions import Actor
from compute.signals import files_due, job_submitted, log_due, output_awaited, output_due
from experiments.models import Experiment
from experiments.services import jobs


@receiver(job_submitted, dispatch_uid="experiments.job_submitted")
def create_experiment_of_job(job_id: str, datasets: Sequence[Mapping[str, object]], **_signal: object) -> None:
    """Create the experiment of a submitted job, in the job's own transaction."""
    jobs.create_experiment(actor=Actor.system("experiments"), job_id=job_id, datasets=datasets)


@receiver(output_due, dispatch_uid="experiments.output_due")
def find_shown_outputs(job_ids: Collection[str], **_question: object) -> Collection[str]:
    """Return those of some jobs whose files an experiment shows."""
    return list(Experiment.objects.filter(job__in=job_ids, deleted_at=None).values_list("job_id", flat=True))


@receiver(log_due, dispatch_uid="experiments.log_due")
def find_unread_logs(job_ids: Collection[str], **_question: object) -> Collection[str]:
    """Return those of some jobs whose experiments have not ended, as their logs are not read to the end."""
    unread = Experiment.objects.filter(job__in=job_ids, deleted_at=None, is_live=True)
    return list(unread.values_list("job_id", flat=True))


@receiver(output_awaited, dispatch_uid="experiments.output_awaited")
def expect_output(job_id: str, **_question: object) -> bool:
    """Say whether the output of a job will be stored; that it is to be is noted when its end is."""
    is_expected = Q(artifacts_wanted=True) | Q(is_live=True)
    return Experiment.objects.filter(is_expected, job=job_id, deleted_at=None).exists()


@receiver(files_due, dispatch_uid="experiments.files_due")
def keep_files_to_store(job_id: str, **_question: object) -> bool:
    """Keep the files of a job while its output is still to be stored."""
    return Experiment.objects.filter(job=job_id, artifacts_wanted=True).exists()
