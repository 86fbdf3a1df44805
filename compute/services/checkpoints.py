"""The checkpoint folders of jobs and steps: who has which, when it was last saved to, and what an interruption cost.

One folder serves all runs of a submitted job, or all attempts of a step. Its content lies where the last run left it,
and goes to the store when a run elsewhere needs it (see `compute.workers.checkpoints`).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat

from compute.engine.checkpoints import count_lost_s
from compute.engine.states import JobState
from compute.models import Checkpoint, Job
from core import clock, orm
from scheduler.services import workloads

# Stands between an owner that has another folder since, and the id of the old one.
_RETIRED = "~"


@dataclass(frozen=True)
class Interruption:
    """A run that ended without success, of a job with a checkpoint folder.

    `checkpoint` is the last checkpoint that the end of its log tells of, step and moment; None: of none.
    """

    checkpoint_id: str
    started_at: datetime
    ended_at: datetime
    checkpoint: tuple[int, datetime] | None = None


def attach(jobs: Sequence[Job]) -> None:
    """Note in new jobs that are not stored yet which folders they have, inside the caller's transaction.

    After a job that has succeeded, as when a step is run once more, they have a new one. Folders that are there are
    locked, so that none is deleted of which these jobs are not seen yet.
    """
    jobs_of: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if owner := job.spec.get("checkpoint"):
            jobs_of[owner].append(job)
    for batch in orm.in_batches(sorted(jobs_of)):
        has_succeeded = Exists(Job.objects.filter(checkpoint=OuterRef("pk"), state=JobState.SUCCEEDED))
        known = Checkpoint.objects.filter(owner__in=batch)
        list(known.select_for_update().order_by("pk").values_list("pk"))
        retire(known.filter(Q(deleted_at__isnull=False) | Q(has_succeeded)))
        new = [Checkpoint(project_id=jobs_of[owner][0].project_id, owner=owner) for owner in batch]
        Checkpoint.objects.bulk_create(new, ignore_conflicts=True)
        for checkpoint_id, owner in known.values_list("pk", "owner"):
            for job in jobs_of[owner]:
                job.checkpoint_id = checkpoint_id


def retire(rows: QuerySet[Checkpoint]) -> None:
    """Let the next job of the same owner have a new folder, inside the caller's transaction."""
    rows.exclude(owner__contains=_RETIRED).update(owner=Concat("owner", Value(_RETIRED), "pk"))


@transaction.atomic
def record_saved(*, job_id: str, step: int, at: datetime | None) -> None:
    """Note the newest checkpoint that a job told of, and when it was made.

    Without a folder nothing is kept of it, nor when a run elsewhere has the folder meanwhile.
    """
    known = Job.objects.filter(pk=job_id, checkpoint__isnull=False)
    job = known.only("checkpoint_id", "workload_id", "resource_id").first()
    if job is None:
        return
    row = Checkpoint.objects.select_for_update().get(pk=job.checkpoint_id)
    if row.resource_id not in {None, job.resource_id}:
        return
    now = clock.now()
    saved_at = min(at or now, now)
    if row.saved_at is not None and saved_at <= row.saved_at:
        return
    row.step, row.saved_at = step, saved_at
    # The log is read later than it is printed: this may be the last word of a run that was interrupted since.
    if row.interrupted_at is not None and saved_at <= row.interrupted_at:
        row.resumed_step, row.lost_s = step, (row.interrupted_at - saved_at).total_seconds()
    row.save(update_fields=["step", "saved_at", "resumed_step", "lost_s"])
    if job.workload_id is not None:
        workloads.note_saved(workload_id=job.workload_id, at=saved_at)


def note_interruptions(interruptions: Collection[Interruption]) -> None:
    """Note what runs lost that ended without success, inside the caller's transaction."""
    by_id = {each.checkpoint_id: each for each in interruptions}
    rows = Checkpoint.objects.select_for_update().filter(pk__in=by_id).order_by("pk") if by_id else ()
    for row in rows:
        run = by_id[row.pk]
        if run.checkpoint is not None and (row.saved_at is None or row.saved_at < run.checkpoint[1] <= run.ended_at):
            row.step, row.saved_at = run.checkpoint
        row.interrupted_at, row.resumed_step = run.ended_at, row.step
        row.lost_s = count_lost_s(started_at=run.started_at, ended_at=run.ended_at, saved_at=row.saved_at)
        row.save(update_fields=["step", "saved_at", "interrupted_at", "resumed_step", "lost_s"])
