"""Jobs that were placed are started, and those that are to end are told so.

They are claimed in one transaction, and handed to their driver outside of any.

A platform that dies in between leaves jobs that are `starting` with a lease. Once that has run out and their resource
does not know them, `observe` asks for them to be started again, which is harmless: starting is idempotent by name.
Jobs that are to end are told again at each poll, until they have ended.
"""

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Greatest

from accounts.errors import SecretNotFound, SecretUnreadable
from accounts.services import secrets
from compute.adapters import drivers, job_tokens
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S, HostFolder, JobSpec, source_from_json
from compute.engine.ports import CheckpointFolder, ComputeDriver, GpuShare, Launch, Replica
from compute.engine.states import JobState, ReasonCode
from compute.errors import QuotaExceeded, ResourceUnconfined, ResourceUnreachable, StartRefused, VolumeRefused
from compute.models import Job, Resource
from compute.selectors import failures, resources
from compute.selectors import jobs as job_selectors
from compute.services import journal
from compute.workers import checkpoints, probes
from core import clock, hosts, isolation, orm, tasks, units
from core.prepared import prepared
from datasets.selectors import caches
from scheduler.selectors.workloads import ClaimedPlacement, find_unclaimed_on, list_overdue, list_terminating
from scheduler.services import workloads

log = structlog.get_logger(__name__)
LEASE = timedelta(seconds=30)
# So few that all of them are asked for before the first one's lease runs out, also where a start takes seconds.
_CLAIMED_AT_ONCE = 50
_MOST_STARTS = 3
_STARTED_AT_ONCE = 8
_EARLY_DATA = "NEARLINE_EARLY_DATA"
"""Tells `nearline.open_data` where a job reads what is not in its folders yet, and by which token."""
_LAUNCHED = (
    *journal.LOCKED_FIELDS,
    *("project_id", "name", "spec", "kind", "node_name", "cpu_millicores", "memory_bytes", "gpus", "evictions"),
    *("replica_count", "min_replicas", "replicas", "slices", "checkpoint_id"),
    *("launcher_cpu_millicores", "launcher_memory_bytes"),
    *("submitted_by", "resource__name", "resource__kind", "resource__host", "resource__unconfined_reason"),
    *("resource__credentials", "project__name"),
)

_claimed: deque[Job] = deque()
"""Jobs that this process claimed as they were placed, and starts next."""

_ENDING = (JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING)


def start_placed_jobs() -> None:
    """Start all jobs whose workload was placed on a resource of this host."""
    if claimed := list(_take_claimed()):
        _start(claimed)
        return  # what another process has placed meanwhile, the periodic run finds
    # Asked without a lock first: most ticks find nothing.
    for placement_ids in orm.in_batches(_unclaimed(hosts.here()), _CLAIMED_AT_ONCE):
        for jobs in isolation.in_batch(failures.CLAIM, placement_ids, _claim):
            _start(jobs)


def start_again(job_ids: Collection[str]) -> None:
    """Start jobs that nobody saw come up; give up on one that was tried three times."""
    now = clock.now()
    with transaction.atomic():
        overdue = [
            job for job in journal.lock_jobs(job_ids) if job.state == JobState.STARTING and _is_overdue(job, now)
        ]
        hopeless = [job for job in overdue if job.starts >= _MOST_STARTS]
        reason = f"The job was started {_MOST_STARTS} times and never came up."
        reasons = [f"{reason} {job.reason}".strip() for job in hopeless]
        steps = zip(hopeless, reasons, strict=True)
        journal.record_steps([_failure(job, ReasonCode.INFRASTRUCTURE, why, now) for job, why in steps], now=now)
        ids = [job.pk for job in overdue if job.starts < _MOST_STARTS]
        Job.objects.filter(pk__in=ids).update(starts=F("starts") + 1, lease_expires_at=now + LEASE)
    _start(_launched().filter(pk__in=ids).order_by("pk"))


def void_leases() -> None:
    """End the leases of jobs that a platform was starting or stopping when it died; their repair begins at once.

    A job's lease has no token: whoever sees the job on its resource renews it. A start in which the platform died says
    nothing about the job, so it is not counted. One without a lease has been taken off already: the platform died again
    before the repair. So has one of no starts: its resource has it, and brings it up since before that.
    """
    live = Job.objects.filter(is_live=True)
    leased = live.filter(state=JobState.STARTING, lease_expires_at__isnull=False)
    leased.update(starts=Greatest(F("starts") - 1, Value(0)), lease_expires_at=None)
    live.filter(state=JobState.STOPPING).update(lease_expires_at=None)


def claim_placed(placement: ClaimedPlacement) -> bool:
    """Claim a placement in the transaction that makes it, where a thread of this process starts its job next.

    It is not claimed where the job runs on another host, or waits no more: then it is found as any other.
    """
    if not tasks.is_handing_over():
        return False
    new = job_selectors.find_queued(placement.workload_id)
    jobs = _locked_pending([placement.workload_id]) if new is None else [new]
    if len(jobs) != 1 or not hosts.is_here(jobs[0].resource.host):
        return False
    if not _begin(jobs, {placement.workload_id: [placement]}, are_locked=new is None):
        return False
    transaction.on_commit(lambda: _claimed.extend(jobs))
    return True


def _take_claimed() -> Iterator[Job]:
    with suppress(IndexError):
        while True:
            yield _claimed.popleft()


@transaction.atomic
def _claim(placement_ids: Sequence[str]) -> list[Job]:
    """Claim placements: the pending jobs of their workloads begin to start. Return these jobs."""
    placements: dict[str, list[ClaimedPlacement]] = {}
    for placement in workloads.claim_placements(placement_ids):
        placements.setdefault(placement.workload_id, []).append(placement)
    return _begin(_locked_pending(placements), placements)


def _begin(
    pending: Sequence[Job], placements: Mapping[str, Sequence[ClaimedPlacement]], *, are_locked: bool = True
) -> list[Job]:
    """Have the jobs of claimed placements begin to start, and return those that do: all that the caller has locked."""
    now = clock.now()
    steps = []
    for job in pending:
        places = placements[str(job.workload_id)]
        fields = {**_placed(job, places), "starts": 1, "lease_expires_at": now + LEASE}
        nodes = "; ".join(f"{place.node_name}{_gpus_in_words(place.gpus)}" for place in places)
        steps.append(journal.Step(job.pk, job.token, JobState.STARTING, f"Starts on {nodes}.", fields))
    begun = set(journal.record_steps(steps, now=now, locked=pending if are_locked else None))
    return [job for job in pending if job.pk in begun]


def _placed(job: Job, places: Sequence[ClaimedPlacement]) -> dict[str, object]:
    """Note in a job where it was placed, and return the columns that say so."""
    fields = placed_fields(job, places)
    for column, value in fields.items():
        setattr(job, column, value)
    return fields


def placed_fields(job: Job, places: Sequence[ClaimedPlacement]) -> dict[str, object]:
    """Return the columns of a job that say where it was placed."""
    fields: dict[str, object] = {"node_name": places[0].node_name, "gpus": places[0].gpus}
    if places[0].slices:
        fields["slices"] = places[0].slices
    if job.is_gang:
        fields["replicas"] = [
            {"node": place.node_name, "gpus": place.gpus, "slices": place.slices, "pod": place.pod} for place in places
        ]
    return fields


@prepared
def _unclaimed(hosts_here: Collection[str]) -> QuerySet[Any, str]:
    return find_unclaimed_on(Resource.objects.filter(host__in=hosts_here).values("pk"))


@prepared
def _locked_pending(workload_ids: Collection[str]) -> QuerySet[Job]:
    pending = _launched().filter(workload_id__in=workload_ids, state=JobState.PENDING)
    return pending.select_for_update(of=("self",)).order_by("pk")


def _launched() -> QuerySet[Job]:
    """Return jobs with what it takes to start them."""
    return Job.objects.select_related("resource", "project").only(*_LAUNCHED)


@dataclass(frozen=True)
class _Start:
    """A job that its driver is asked to start."""

    job: Job
    launch: Launch
    driver: ComputeDriver


@dataclass(frozen=True)
class _Unanswered:
    """A job whose resource did not say whether it started, and how people are told."""

    job: Job
    reason: str

    @classmethod
    def by(cls, job: Job, error: ResourceUnreachable) -> "_Unanswered":
        log.warning("job.start_unanswered", job=job.name, error=error.message)
        return cls(job, f"Its start was not answered: {error.message}")


def _start(jobs: Iterable[Job]) -> None:
    # One that fails keeps its lease; once that has run out it is tried again, at most `_MOST_STARTS` times.
    prepared = isolation.for_each(failures.PREPARE, jobs, _prepare)
    starts = [start for start in prepared if isinstance(start, _Start)]
    here = [start for start in starts if not _is_remote(start)]
    outcomes = [*prepared, *isolation.for_each(failures.START, here, _start_one, key=_id_of)]
    if len(here) < len(starts):
        remote = filter(_is_remote, starts)
        with ThreadPoolExecutor(_STARTED_AT_ONCE, thread_name_prefix="start") as pool:
            outcomes += isolation.for_each(failures.START, remote, _start_one, key=_id_of, executor=pool)
    ended = [outcome for outcome in outcomes if isinstance(outcome, journal.Step)]
    unanswered = [outcome for outcome in outcomes if isinstance(outcome, _Unanswered)]
    news = {each.job.pk: (each.job.token, each.reason) for each in unanswered if each.reason != each.job.reason}
    if ended or news:
        with transaction.atomic():
            if ended:
                journal.record_steps(ended, now=clock.now())
            if news:
                journal.record_reasons(news, now=clock.now())


def _prepare(job: Job) -> _Start | journal.Step | _Unanswered | None:
    """Return what starts a job, or how it ended, if it cannot start at all; None if it cannot start yet."""
    try:
        resources.require_launch(job)
        if absence := _find_absence(job):
            journal.put_off_start(job, absence)
            return None
        checkpoint = checkpoints.take(job) if job.checkpoint_id is not None else None
        if job.checkpoint_id is not None and checkpoint is None:
            return None
        return _Start(job, launch_of(job, checkpoint), drivers.driver_of(job.resource))
    except (SecretNotFound, ResourceUnconfined) as error:
        return _failure(job, ReasonCode.USER_ERROR, error.message, clock.now())
    except SecretUnreadable as error:
        return _failure(job, ReasonCode.USER_ERROR, f"{error.message} {error.hint}", clock.now())
    except ResourceUnreachable as error:
        return _Unanswered.by(job, error)


def _find_absence(job: Job) -> str:
    """Say why a dataset is not on this host now that is expected back; empty: all are there, or one is lost."""
    sources = [source_from_json(mount["source"]) for mount in job.spec["data"]]
    missing = [each.path for each in sources if isinstance(each, HostFolder) and not Path(each.path).exists()]
    return next(filter(None, map(caches.find_absence, missing)), "")


def _start_one(start: _Start) -> journal.Step | _Unanswered | None:
    """Hand a job to its driver; return how it ended, if it cannot start at all, or that nobody answered."""
    try:
        start.driver.start(start.launch)
    except QuotaExceeded as error:
        return _failure(start.job, ReasonCode.QUOTA_EXCEEDED, error.message, clock.now())
    except VolumeRefused as error:
        return _failure(start.job, ReasonCode.USER_ERROR, error.message, clock.now())
    except StartRefused as error:
        return _failure(start.job, ReasonCode.INFRASTRUCTURE, error.message, clock.now())
    except ResourceUnreachable as error:
        # It may or may not have started. Its lease runs out unless it is seen, and then it is tried again.
        return _Unanswered.by(start.job, error)
    return None


def _is_remote(start: _Start) -> bool:
    return drivers.get_kind(start.job.resource.kind).is_remote


def _id_of(start: _Start) -> str:
    return str(start.job.pk)


def launch_of(job: Job, checkpoint: CheckpointFolder | None) -> Launch:
    """Return what starts a placed job. Raises SecretNotFound and SecretUnreadable."""
    spec = JobSpec.from_json(job.spec)
    values = secrets.reveal_secrets(
        project_id=job.project_id, names=spec.secret_names, used_by=job, on_behalf_of=job.submitted_by
    )
    if spec.jupyter:
        values = {**values, job_tokens.JUPYTER_VARIABLE: job_tokens.jupyter_token_of(job.pk)}
    if spec.early:
        values = {**values, _EARLY_DATA: _early_data(spec, job.resource)}
    return Launch(
        spec=spec,
        token=job.token,
        job_id=job.pk,
        kind=job.kind,
        project=tasks.recently(("project", job.project_id), lambda: job.project.name),
        node_name=job.node_name,
        cpu_millicores=job.cpu_millicores,
        memory_bytes=job.memory_bytes,
        gpus=_shares(job.gpus),
        secrets=values,
        evictions=job.evictions,
        slices=tuple(job.slices),
        peers=replicas_of(job)[1:],
        min_replicas=job.min_replicas,
        max_replicas=job.replica_count if job.min_replicas else 0,
        checkpoint=checkpoint,
    )


def _early_data(spec: JobSpec, resource: Resource) -> str:
    tokens = {name: caches.sign_reader(copy_id, spec.holder) for name, copy_id in spec.early.items()}
    address_field = drivers.get_kind(resource.kind).address_field
    url = str(resource.config.get(address_field) or settings.NEARLINE.url).rstrip("/")
    return json.dumps({"url": url, "tokens": tokens})


def replicas_of(job: Job) -> tuple[Replica, ...]:
    """Return where the replicas of a placed gang run; none for a job without."""
    return tuple(Replica(each["node"], _shares(each["gpus"]), tuple(each.get("slices", ()))) for each in job.replicas)


def _shares(gpus: Sequence[Sequence[int]]) -> tuple[GpuShare, ...]:
    return tuple(GpuShare(index, milli) for index, milli in gpus)


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


def evict_jobs() -> None:
    """Stop evicted jobs. They are requeued once they have stopped, unless they have reached a time limit."""
    # Asked without a lock first: most ticks find nothing.
    reasons = list_terminating()
    if not reasons:
        return

    overdue = list_overdue()

    @transaction.atomic
    def evict(workload_ids: Sequence[str]) -> list[str]:
        jobs = Job.objects.filter(workload_id__in=workload_ids, state__in=(JobState.STARTING, JobState.RUNNING))
        steps = []
        for job_id, token, workload_id in jobs.order_by("pk").values_list("pk", "token", "workload_id"):
            reason, limit = reasons[str(workload_id)], overdue.get(str(workload_id))
            state = JobState.LEAVING if limit is None else JobState.STOPPING
            why = {} if limit is None else {"reason_code": ReasonCode(limit)}
            steps.append(journal.Step(job_id, token, state, reason, {"reason": reason, **why}))
        return journal.record_steps(steps, now=clock.now())

    is_news = False
    for batch in orm.in_batches(list(reasons)):
        is_news |= any(isolation.in_batch(failures.EVICT, batch, evict))
    if is_news:
        stop_ending_jobs()


def stop_ending_jobs() -> None:
    """Tell every job that is being cancelled, evicted or suspended to end. What cannot be reached is told later."""
    ending = Job.objects.filter(state__in=_ENDING, resource__host__in=hosts.here()).select_related("resource")
    graces_s = defaultdict[Resource, dict[str, float]](dict)
    for job in ending.order_by("pk"):
        graces_s[job.resource][job.run_name] = job.grace_period_s
    # Those behind a network come last: the others would wait for their answers.
    places = sorted(graces_s, key=lambda resource: drivers.get_kind(resource.kind).is_remote)
    isolation.for_each(failures.STOP_ALL, places, lambda resource: _stop_on(resource, graces_s[resource]))


def stop_jobs(resource: Resource, names: Sequence[str], graces_s: Mapping[str, float]) -> None:
    """Tell these jobs to end, each within its grace period. One that fails stops none of the others.

    Raises ResourceUnreachable and CredentialsUnreadable.
    """
    driver = drivers.driver_of(resource)
    with drivers.side_by_side(resource, len(names)) as executor:
        isolation.for_each(
            failures.STOP,
            names,
            lambda name: driver.stop(name, graces_s.get(name, DEFAULT_GRACE_PERIOD_S)),
            concerns_all=(ResourceUnreachable,),
            executor=executor,
        )


def _stop_on(resource: Resource, graces_s: Mapping[str, float]) -> None:
    try:
        stop_jobs(resource, list(graces_s), graces_s)
    except ResourceUnreachable as error:
        probes.note_unreachable(resource=resource, error=error)
