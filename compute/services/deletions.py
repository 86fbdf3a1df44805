"""Deleted jobs are shown no more at once. What they left goes in the background, outputs once nobody shows them."""

from collections.abc import Collection
from typing import Any

from django.db import transaction

from accounts.permissions import Actor, require
from compute import permissions, signals
from compute.models import Job
from compute.selectors.outputs import holder_of
from core import clock, orm, tasks
from datasets.services import trees


@transaction.atomic
def delete_jobs_of_run(*, actor: Actor, project_id: str, job_ids: Collection[str]) -> None:
    """Show these jobs of a project no more. What each left is let go once it has ended, and its row stays."""
    require(actor, permissions.CANCEL_JOBS, project_id)
    for batch in orm.in_batches(sorted(job_ids)):
        Job.objects.filter(pk__in=batch, project=project_id, deleted_at=None).update(deleted_at=clock.now())
    tasks.enqueue_on_commit("compute.purge_deleted_jobs")


def release_outputs(*, actor: Actor, job_ids: Collection[str]) -> None:
    """Give up the stored outputs of those of some jobs that are deleted and whose files nobody shows."""
    deleted = set(Job.objects.filter(pk__in=job_ids, deleted_at__isnull=False).values_list("pk", flat=True))
    if not deleted:
        return
    answers: Any = signals.output_due.send(sender=None, job_ids=deleted)
    unshown = deleted.difference(*(ids for _, ids in answers))
    trees.release_trees(actor=actor, holders=list(map(holder_of, unshown)))
