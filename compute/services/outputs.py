"""The stored output of a deleted job goes once nobody above shows its files either."""

from accounts.actor import Actor
from compute import signals
from compute.models import Job
from compute.selectors.outputs import holder_of
from datasets.services import trees


def release_output(*, actor: Actor, job_id: str) -> None:
    """Give up the stored output of a job if the job is deleted and nobody shows its files."""
    if not Job.objects.filter(pk=job_id, deleted_at__isnull=False).exists():
        return
    answers = signals.output_due.send(sender=None, job_id=job_id)
    if not any(is_needed for _, is_needed in answers):
        trees.release_tree(actor=actor, holder=holder_of(job_id))
