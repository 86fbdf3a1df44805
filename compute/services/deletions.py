"""The jobs of a run that was deleted are shown no more at once. What they left goes in the background."""

from collections.abc import Collection

from django.db import transaction

from accounts.actor import Actor
from accounts.permissions import require
from compute import permissions
from compute.models import Job
from core import clock, orm, tasks


@transaction.atomic
def delete_jobs_of_run(*, actor: Actor, project_id: str, job_ids: Collection[str]) -> None:
    """Show these jobs of a project no more. What each left is let go once it has ended, and its row stays."""
    require(actor, permissions.CANCEL_JOBS, project_id)
    for batch in orm.in_batches(sorted(job_ids)):
        Job.objects.filter(pk__in=batch, project=project_id, deleted_at=None).update(deleted_at=clock.now())
    tasks.enqueue_on_commit("compute.purge_deleted_jobs")
