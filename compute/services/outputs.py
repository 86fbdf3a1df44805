"""The stored output of a deleted job goes once nobody above shows its files either."""

from collections.abc import Collection
from typing import Any

from accounts.actor import Actor
from compute import signals
from compute.models import Job
from compute.selectors.outputs import holder_of
from datasets.services import trees


def release_outputs(*, actor: Actor, job_ids: Collection[str]) -> None:
    """Give up the stored outputs of those of some jobs that are deleted and whose files nobody shows."""
    deleted = set(Job.objects.filter(pk__in=job_ids, deleted_at__isnull=False).values_list("pk", flat=True))
    if not deleted:
        return
    answers: Any = signals.output_due.send(sender=None, job_ids=deleted)
    unshown = deleted.difference(*(ids for _, ids in answers))
    trees.release_trees(actor=actor, holders=list(map(holder_of, unshown)))
