"""Jobs that were placed are started: claimed in one transaction, handed to their driver outside of any.

A platform that dies in between leaves jobs that are `starting` with a lease. Once that has run out and their resource
does not know them, `observe` asks for them to be started again, which is harmless: starting is idempotent by name.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F

from accounts.errors import SecretNotFound
from accounts.services import secrets
from compute.adapters import drivers
from compute.engine.job_spec import JobSpec
from compute.engine.ports import GpuShare, Launch
from compute.engine.states import JobState, ReasonCode
from compute.errors import QuotaExceeded, ResourceUnconfined, ResourceUnreachable, StartRefused
from compute.models import Job, Resource
from compute.selectors import failures
from compute.services import confinement, journal
from core import clock, hosts, isolation, orm, units
from scheduler.services import workloads

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=30)
_MOST_STARTS = 3
_LAUNCHED = (
    *("name", "spec", "token", "kind", "node_name", "cpu_millicores", "memory_bytes", "gpus", "evictions"),
    *("submitted_by", "resource__name", "resource__kind", "resource__host", "resource__unconfined_reason"),
    *("resource__credentials", "project__name"),
)
_SEVERAL_PODS = "The job has several pods. The drivers of this version start one pod a job."


def start_placed_jobs() -> None:
    """Start all jobs whose workload was placed on a resource of this host."""
    ours = Resource.objects.filter(host__in=hosts.here()).values("pk")
    # Asked without a lock first: most ticks find nothing.
    for placement_ids in orm.in_batches(workloads.list_unclaimed(resources=ours)):
        for job_ids in isolation.in_batch(failures.CLAIM, placement_ids, _claim):
            _start(job_ids)


def start_again(job_ids: Collection[str]) -> None:
    """Start jobs that nobody saw come up; give up on one that was tried three times."""
    now = clock.now()
    with transaction.atomic():
        overdue = [
            job for job in journal.lock_jobs(job_ids) if job.state == JobState.STARTING and _is_overdue(job, now)
        ]
        hopeless = [job for job in overdue if job.starts >= _MOST_STARTS]
        reason = f"The job was started {_MOST_STARTS} times and never came up."
        journal.record_steps([_failure(job, ReasonCode.INFRASTRUCTURE, reason, now) for job in hopeless], now=now)
        ids = [job.pk for job in overdue if job.starts < _MOST_STARTS]
        Job.objects.filter(pk__in=ids).update(starts=F("starts") + 1, lease_expires_at=now + LEASE)
    _start(ids)


def void_leases() -> None:
    """End the leases of jobs that a platform was starting or stopping when it died; their repair begins at once.

    A job's lease has no token: whoever sees the job on its resource renews it. A start in which the platform died says
    nothing about the job, so it is not counted.
    """
    Job.objects.filter(state=JobState.STARTING).update(starts=F("starts") - 1, lease_expires_at=None)
    Job.objects.filter(state=JobState.STOPPING).update(lease_expires_at=None)


@transaction.atomic
def _claim(placement_ids: Sequence[str]) -> list[str]:
    """Claim placements: the pending jobs of their workloads begin to start."""
    now = clock.now()
    placements = {placement.workload_id: placement for placement in workloads.claim_placements(placement_ids)}
    pending = journal.lock_pending_jobs(placements)
    steps = []
    for job in pending:
        place = placements[str(job.workload_id)]
        if not place.is_only_pod:
            steps.append(_failure(job, ReasonCode.INFRASTRUCTURE, _SEVERAL_PODS, now))
            continue
        fields = {"node_name": place.node_name, "gpus": place.gpus, "starts": 1, "lease_expires_at": now + LEASE}
        message = f"Starts on {place.node_name}{_gpus_in_words(place.gpus)}."
        steps.append(journal.Step(job.pk, job.token, JobState.STARTING, message, fields))
    return journal.record_steps(steps, now=now, locked=pending)


def _start(job_ids: Sequence[str]) -> None:
    jobs = Job.objects.filter(pk__in=job_ids).select_related("resource", "project").only(*_LAUNCHED).order_by("pk")
    # One that fails keeps its lease; once that has run out it is tried again, at most `_MOST_STARTS` times.
    ended = isolation.for_each(failures.START, jobs, _start_one)
    if refused := [step for step in ended if step is not None]:
        with transaction.atomic():
            journal.record_steps(refused, now=clock.now())


def _start_one(job: Job) -> journal.Step | None:
    """Hand a job to its driver; return how it ended, if it cannot start at all."""
    try:
        confinement.require_launch(job)
        drivers.driver_of(job.resource).start(_launch_of(job))
    except QuotaExceeded as error:
        return _failure(job, ReasonCode.QUOTA_EXCEEDED, error.message, clock.now())
    except StartRefused as error:
        return _failure(job, ReasonCode.INFRASTRUCTURE, error.message, clock.now())
    except (SecretNotFound, ResourceUnconfined) as error:
        return _failure(job, ReasonCode.USER_ERROR, error.message, clock.now())
    except ResourceUnreachable as error:
        # It may or may not have started. Its lease runs out unless it is seen, and then it is tried again.
        log.warning("job.start_unanswered", job=job.name, error=error.message)
    return None


def _launch_of(job: Job) -> Launch:
    spec = JobSpec.from_json(job.spec)
    values = secrets.reveal_secrets(
        project_id=job.project_id, names=spec.secret_names, used_by=job, on_behalf_of=job.submitted_by
    )
    return Launch(
        spec=spec,
        token=job.token,
        job_id=job.pk,
        kind=job.kind,
        project=job.project.name,
        node_name=job.node_name,
        cpu_millicores=job.cpu_millicores,
        memory_bytes=job.memory_bytes,
        gpus=tuple(GpuShare(index, milli) for index, milli in job.gpus),
        secrets=values,
        evictions=job.evictions,
    )


def _failure(job: Job, code: ReasonCode, reason: str, now: datetime) -> journal.Step:
    fields = {"reason_code": code, "reason": reason}
    return journal.Step(job.pk, job.token, JobState.FAILED, reason, fields, {"finished_at": now})


def _is_overdue(job: Job, now: datetime) -> bool:
    return job.lease_expires_at is None or job.lease_expires_at <= now


def _gpus_in_words(gpus: Sequence[Sequence[int]]) -> str:
    if not gpus:
        return ""
    shares = ", ".join(
        str(index) if milli == units.ONE_GPU else f"{units.format_gpus(milli)} of {index}" for index, milli in gpus
    )
    return f", GPU {shares}"
