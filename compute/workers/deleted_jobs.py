"""What deleted jobs left: once they have ended, the store lets go of their logs, their code and their outputs.

An output whose files an experiment still shows stays until that is deleted too. A job's files on its resource go with
the next cleaning (`cleaning`), and its row stays, for the history of what was consumed.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from accounts.permissions import Actor
from compute import signals
from compute.models import Job, StoredLogChunk
from compute.selectors import failures
from compute.services import deletions
from compute.services.submissions import CODE_HOLDER
from compute.workers.logs import LOG_HOLDER
from core import clock, isolation, orm, tasks
from datasets.services import trees

_SYSTEM = Actor.system("deleted jobs")
_JOBS_AT_ONCE = 10_000
# As many as hold others up for a moment only.
_BATCH = 100


def find_deleted() -> list[QuerySet[Job]]:
    """Return the deleted jobs that have ended and of which the store may still have something."""
    return [Job.objects.filter(deleted_at__isnull=False, purged_at=None, is_live=False)]


def purge_deleted() -> None:
    """Let the store go of what deleted jobs left. One whose log is still read waits for that."""
    (deleted,) = find_deleted()
    job_ids = list(deleted.order_by("pk").values_list("pk", flat=True)[:_JOBS_AT_ONCE])
    count = 0
    for batch in orm.in_batches(job_ids, _BATCH):
        count += sum(isolation.in_batch(failures.PURGE, batch, _purge))
    if count:
        tasks.enqueue("compute.clean")
    if count == _JOBS_AT_ONCE:
        tasks.enqueue("compute.purge_deleted_jobs")


@transaction.atomic
def _purge(job_ids: Sequence[str]) -> int:
    """Let go of what these jobs left; return of how many of them."""
    (deleted,) = find_deleted()
    locked = deleted.select_for_update().filter(pk__in=job_ids).order_by("pk")
    ids = list(locked.values_list("pk", flat=True))
    answers: Any = signals.log_due.send(sender=None, job_ids=ids)
    ids = sorted(set(ids).difference(*(read for _, read in answers)))
    _release_logs(ids)
    trees.release_trees(actor=_SYSTEM, holders=[CODE_HOLDER + job_id for job_id in ids])
    deletions.release_outputs(actor=_SYSTEM, job_ids=ids)
    now = clock.now()
    Job.objects.filter(pk__in=ids).update(purged_at=now, log_stored_at=Coalesce("log_stored_at", now))
    return len(ids)


def _release_logs(job_ids: Sequence[str]) -> None:
    """Forget what the store has of these logs. A tree that logs of other jobs share stays for those."""
    chunks = StoredLogChunk.objects.filter(job__in=job_ids)
    roots: defaultdict[str, set[str]] = defaultdict(set)
    for dataset_id, root in chunks.values_list("dataset_id", "root").distinct():
        roots[dataset_id].add(root)
    chunks.delete()
    for dataset_id, of_dataset in roots.items():
        unused = of_dataset.difference(
            shared
            for batch in orm.in_batches(sorted(of_dataset))
            for shared in StoredLogChunk.objects.filter(root__in=batch).values_list("root", flat=True).distinct()
        )
        trees.release_roots(actor=_SYSTEM, dataset_id=dataset_id, roots=unused, prefix=LOG_HOLDER)
