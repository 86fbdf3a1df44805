"""What ends with a place that does not come back: its jobs, and what of them lay there alone."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from compute.engine.states import IDLE, JobState, ReasonCode
from compute.models import Job, OutputState, Resource
from compute.services import journal
from scheduler.services import resource_nodes


@dataclass(frozen=True)
class JobLoss:
    """What of jobs ends. `logs` and `outputs` are those that the store does not hold, or not all of."""

    pending: int
    started: int
    logs: int
    outputs: int


def count_loss(jobs: QuerySet[Job]) -> JobLoss:
    """Return what of these jobs ends with the place where they ran or wait."""
    started = jobs.exclude(state__in=sorted(IDLE))
    unstored = started.filter(state=JobState.SUCCEEDED, files_deleted_at=None).exclude(output_state=OutputState.STORED)
    return JobLoss(
        pending=jobs.filter(state__in=sorted(IDLE)).count(),
        started=started.filter(is_live=True).count(),
        logs=started.filter(log_stored_at=None).count(),
        outputs=unstored.count(),
    )


def end_jobs(jobs: QuerySet[Job], reason: str, now: datetime) -> None:
    """End the jobs that have not ended: those that have started are lost, the others fail."""
    live = jobs.filter(is_live=True).values_list("pk", flat=True)
    ending = {"reason_code": ReasonCode.INFRASTRUCTURE, "reason": reason}
    steps = [
        journal.Step(
            job.pk,
            job.token,
            JobState.FAILED if job.state in IDLE else JobState.LOST,
            reason,
            ending,
            {"finished_at": now},
        )
        for job in journal.lock_jobs(list(live))
    ]
    journal.record_steps(steps, now=now)


def forget_files(jobs: QuerySet[Job], now: datetime) -> None:
    """Note that nothing more of these jobs can be stored, or has to be deleted."""
    jobs.filter(log_stored_at=None).update(log_stored_at=now)
    jobs.filter(files_deleted_at=None).update(files_deleted_at=now)


def detach(resource: Resource, now: datetime) -> None:
    """Take away a resource that no job is on any more."""
    resource.detached_at = now
    resource.save(update_fields=["detached_at"])
    resource_nodes.report_nodes(
        resource_id=resource.pk, resource_name=resource.name, is_simulated=resource.is_simulated, nodes=[]
    )
