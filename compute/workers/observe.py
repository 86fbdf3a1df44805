"""What runs is compared with the database, and the difference repaired. The only writer of what drivers report.

Level-triggered: one poll tells everything, so a poll may be missed, doubled, or made by several processes at once.
After a restart of the platform the first poll adopts whatever runs.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet

from compute.adapters import drivers
from compute.engine import gpu_check
from compute.engine.checkpoints import find_last_told
from compute.engine.gpu_check import GivenGpus
from compute.engine.job_spec import job_of_run, name_of_run
from compute.engine.log_text import find_excerpt
from compute.engine.placing import Placing
from compute.engine.ports import ComputeDriver, JobReport, ReportState
from compute.engine.reconcile import JobRecord, Record, Repairs, compare, with_cause
from compute.engine.states import IDLE, JOB_STATES, JobState, ReasonCode
from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from compute.errors import ResourceUnreachable
from compute.models import Job, OutputState, Resource, new_token
from compute.selectors import failures, jobs, resources
from compute.services import checkpoints, journal
from compute.services.checkpoints import Interruption
from compute.workers import launches, probes
from compute.workers.launches import LEASE
from core import clock, hosts, isolation, orm, tasks
from core.prepared import prepared
from scheduler.selectors import nodes

log = structlog.get_logger(__name__)
# A lease is renewed when a third of it is gone, not at each poll.
_RENEW_BELOW = LEASE * 2 / 3
_RECORD_FIELDS = (
    *("pk", "name", "evictions", "token", "state", "lease_expires_at", "reason", "memory_bytes", "grace_period_s"),
    *("checkpoint_id", "started_at", "reason_code", "unplaced", "ran_before"),
)
_LOG_END_BYTES = 32 * 1024
_MANY = 500
"""Of so many reported jobs those are left out of a poll that run and need nothing."""
_RUN_OVER = JOB_STATES.final | IDLE
_RUN_BROKEN = _RUN_OVER - {JobState.SUCCEEDED}
_NO_RUN = {
    "node_name": "",
    "gpus": [],
    "slices": [],
    "replicas": [],
    "gpu_check": {},
    "starts": 0,
    "lease_expires_at": None,
    "started_at": None,
}

_Visible = tuple[VisibleGpus | None, ...]
_MOST_REMEMBERED = 10_000
# By token of a run: what this process has noted, so that later reports that say the same cost nothing.
_noted: dict[str, _Visible] = {}


def find_started() -> list[QuerySet[Job]]:
    """Return the jobs that a resource has or should have."""
    return [Job.objects.filter(is_live=True).exclude(state__in=sorted(IDLE))]


def observe_all() -> None:
    """Look at every attached resource of this host. One that has jobs cannot be detached."""
    attached = Resource.objects.filter(detached_at=None, host__in=hosts.here()).values_list("pk", flat=True)
    observe_each(sorted(attached))


def observe_each(resource_ids: Sequence[str]) -> None:
    """Look at these probes. One that fails stops none of the others."""
    isolation.for_each(failures.OBSERVE, resource_ids, lambda resource_id: observe_resource(resource_id=resource_id))


def observe_resource(*, resource_id: str) -> None:
    """Look at one resource and repair what differs, unless that is for another host to do."""
    resource = resources.find_recently(resource_id)
    if resource is None or not hosts.is_here(resource.host):
        return
    driver = drivers.driver_of(resource)
    try:
        # First the reports, then the database: a job is in the database before it can be reported.
        reports = driver.list_jobs()
        now = clock.now()
        known, unsettled = _read_records(resource, reports, now + _RENEW_BELOW)
        repairs = compare(known, unsettled, now=now, renew_before=now + _RENEW_BELOW)
        names = {report.token: report.name for report in reports}
        explained = isolation.for_each(
            failures.EXPLAIN,
            repairs.records,
            lambda record: _with_details(record, driver, names.get(record.token)),
            key=lambda record: record.job_id,
        )
        # An end that cannot be explained is recorded all the same.
        by_job = {record.job_id: record for record in explained}
        records = [by_job.get(record.job_id, record) for record in repairs.records]
        _note_replicas(resource, reports)
        with_checkpoint = {job.id: job for job in known if job.checkpoint_id is not None}
        interrupted = isolation.for_each(
            failures.EXPLAIN,
            [record for record in records if record.job_id in with_checkpoint and record.state in _RUN_BROKEN],
            lambda record: _interruption(record, with_checkpoint[record.job_id], driver, names.get(record.token)),
            key=lambda record: record.job_id,
        )
        ended = _write_changes(resource, records, repairs, dict(filter(None, interrupted)))
        _note_gpu_checks(resource, reports)
        launches.stop_jobs(resource, repairs.stop, {record.name: record.grace_period_s for record in known})
        over = [*repairs.forget, *_names_of(repairs, ended, reports)]
        if over:  # nobody waits for that
            tasks.after_hand_over(partial(_forget, resource, driver, over))
    except ResourceUnreachable as error:
        probes.note_unreachable(resource=resource, error=error)
    else:
        probes.note_contact(resource=resource)
        if repairs.restart:
            launches.start_again(repairs.restart)


def _forget(resource: Resource, driver: ComputeDriver, names: Sequence[str]) -> None:
    try:
        with drivers.side_by_side(resource, len(names)) as executor:
            isolation.for_each(
                failures.FORGET, names, driver.forget, concerns_all=(ResourceUnreachable,), executor=executor
            )
    except ResourceUnreachable as error:
        probes.note_unreachable(resource=resource, error=error)


@prepared
def _started_on(resource_id: str) -> QuerySet[Job, tuple[Any, ...]]:
    return _started(resource_id).values_list(*_RECORD_FIELDS)


@prepared
def _unsettled_on(resource_id: str, renew_before: datetime) -> QuerySet[Job, tuple[Any, ...]]:
    return _started(resource_id).exclude(_is_settled(renew_before)).values_list(*_RECORD_FIELDS)


@prepared
def _settled_on(resource_id: str, renew_before: datetime) -> QuerySet[Job, tuple[str, int, str]]:
    return _started(resource_id).filter(_is_settled(renew_before)).values_list("name", "evictions", "token")


def _is_settled(renew_before: datetime) -> Q:
    return Q(state=JobState.RUNNING, reason="", lease_expires_at__gt=renew_before)


def _started(resource_id: str) -> QuerySet[Job]:
    return Job.objects.filter(resource=resource_id, is_live=True).exclude(state__in=sorted(IDLE))


def _read_records(
    resource: Resource, reports: Sequence[JobReport], renew_before: datetime
) -> tuple[list[JobRecord], Sequence[JobReport]]:
    """Return what the database says, and the reports that may differ from it.

    Of many jobs most run, as their reports say, and have leases that need no renewal yet: of these little is read.
    """
    is_many = len(reports) >= _MANY
    started = _unsettled_on(resource.pk, renew_before) if is_many else _started_on(resource.pk)
    known = {record.name: record for record in map(_record_of, started)}
    if is_many:
        settled = {
            name_of_run(name, evictions): token for name, evictions, token in _settled_on(resource.pk, renew_before)
        }
        reports = [
            report
            for report in reports
            if report.state is not ReportState.RUNNING
            or report.reason
            or report.name in known  # it was changed between the two queries
            or settled.get(report.name) != report.token
        ]
    missing = [job_of_run(report.name) for report in reports if report.name not in known]
    for names in orm.in_batches(missing):
        rows = Job.objects.filter(name__in=names).values_list(*_RECORD_FIELDS)
        known.update((record.name, record) for record in map(_record_of, rows))
    return list(known.values()), reports


def _record_of(row: tuple[Any, ...]) -> JobRecord:
    job_id, name, evictions, token, state, *others = row
    return JobRecord(job_id, name_of_run(name, evictions), token, JobState(state), *others)


def _with_details(record: Record, driver: ComputeDriver, name: str | None) -> Record:
    """Return the record of a failure with what the job said last in its log, of a success with where its output is."""
    if record.state is JobState.SUCCEEDED and name is not None:
        folder = source.path if (source := driver.open_output(name).source) is not None else ""
        return replace(record, output_folder=folder, left_nothing=bool(folder) and _is_empty(folder))
    if record.state is not JobState.FAILED or name is None:
        return record
    try:
        end = _read_end(driver, name)
    except ResourceUnreachable as error:
        log.warning("job.log_unreadable", job=name, error=error.message)
        return record
    excerpt = find_excerpt(end.decode(errors="replace"))
    # What somebody else did to it is not told by what it printed last.
    is_its_own = record.reason_code is ReasonCode.USER_ERROR
    reason = with_cause(record.reason, excerpt.headline) if is_its_own else record.reason
    return replace(record, message=reason, reason=reason, last_lines="\n".join(excerpt.lines))


def _is_empty(folder: str) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is None
    return False


def _write_changes(
    resource: Resource, records: Sequence[Record], repairs: Repairs, interruptions: Mapping[str, Interruption]
) -> Collection[str]:
    """Write what the driver reported; return the ids of the jobs that changed. `interruptions` are given by job."""
    now = clock.now()

    @transaction.atomic
    def write(records: Sequence[Record]) -> list[str]:
        written = journal.record_steps([_step_of(record) for record in records], now=now)
        for job in filter(None, map(jobs.find_ended, written)):
            job.resource = resource
        if interruptions:
            checkpoints.note_interruptions([interruptions[job_id] for job_id in written if job_id in interruptions])
        return written

    changed = isolation.in_batch(failures.RECORD, records, write, key=lambda record: record.job_id)
    isolation.in_batch(
        failures.RECORD,
        repairs.notes,
        lambda notes: journal.record_reasons({note.job_id: (note.token, note.reason) for note in notes}, now=now),
        key=lambda note: note.job_id,
    )
    _renew_leases(repairs.renew, now)
    return {job_id for job_ids in changed for job_id in job_ids}


def _interruption(
    record: Record, job: JobRecord, driver: ComputeDriver, name: str | None
) -> tuple[str, Interruption] | None:
    """Return what is known of a run that has ended without success, by its job; None for one that never began."""
    started_at = record.started_at or job.started_at
    if job.checkpoint_id is None or started_at is None:
        return None
    checkpoint = None
    if name is not None:
        with suppress(ResourceUnreachable):
            checkpoint = find_last_told(_read_end(driver, name))
    return job.id, Interruption(job.checkpoint_id, started_at, record.finished_at or clock.now(), checkpoint)


def _read_end(driver: ComputeDriver, name: str) -> bytes:
    size_bytes = driver.read_log(name, 0, 0).size_bytes
    return driver.read_log(name, max(0, size_bytes - _LOG_END_BYTES), _LOG_END_BYTES).data


def _note_replicas(resource: Resource, reports: Sequence[JobReport]) -> None:
    """Note in the gangs of a resource how each of their replicas stands."""
    replicas = {report.token: report.replicas for report in reports if report.replicas}
    live = Job.objects.filter(resource=resource, is_live=True)
    for job in (job for tokens in orm.in_batches(sorted(replicas)) for job in live.filter(token__in=tokens)):
        states = [{"state": each.state, "reason": each.reason} for each in replicas[job.token]]
        # An elastic job may have more or less of them than its resource told just now: that is not decided here.
        padded = [*states, *[{}] * len(job.replicas)]
        present = [{**place, **state} for place, state in zip(job.replicas, padded, strict=False)]
        if present != job.replicas:
            unchanged = Job.objects.filter(pk=job.pk, token=job.token, event_seq=job.event_seq)
            unchanged.update(replicas=present)


def _step_of(record: Record) -> journal.Step:
    fields: dict[str, object] = {}
    if record.state is JobState.RUNNING:
        fields = {"reason": ""}
    if record.state in IDLE:
        fields = {**_NO_RUN, "evictions": F("evictions") + 1, "token": new_token(), "ran_before": record.ran_before}
    if record.state is JobState.PENDING:
        fields |= {"reason": "", "unplaced": record.unplaced}
    if record.state in JOB_STATES.final:
        fields = {
            "exit_code": record.exit_code,
            "reason_code": record.reason_code or "",
            "reason": record.reason,
            "last_lines": record.last_lines,
            "output_folder": record.output_folder,
        }
        if record.left_nothing:
            fields["output_state"] = OutputState.STORED
    moments = {"started_at": record.started_at, "finished_at": record.finished_at}
    times = {column: moment for column, moment in moments.items() if moment is not None}
    return journal.Step(record.job_id, record.token, record.state, record.message, fields, times)


def _renew_leases(job_ids: Sequence[str], now: datetime) -> None:
    for batch in orm.in_batches(job_ids):
        live = Job.objects.filter(pk__in=batch, is_live=True)
        live.update(lease_expires_at=now + LEASE)


def _names_of(repairs: Repairs, changed: Collection[str], reports: Sequence[JobReport]) -> list[str]:
    """Return the names of the reported jobs whose end has just been written, so that the driver may forget them."""
    ended = {(record.job_id, record.token) for record in repairs.records if record.state in _RUN_OVER}
    tokens = {token for job_id, token in ended if job_id in changed}
    return [report.name for report in reports if report.token in tokens]


def _note_gpu_checks(resource: Resource, reports: Sequence[JobReport]) -> None:
    """Note in jobs what their reports say that they see, unless that was done."""
    news = [report for report in reports if (report.gpus_seen or report.replicas) and _sees_news(report)]
    if news:
        isolation.for_each(
            failures.CHECK_GPUS, news, lambda report: _note_gpu_check(resource, report), key=lambda report: report.name
        )


def _sees_news(report: JobReport) -> bool:
    visible = _visible_to(report)
    return any(visible) and _noted.get(report.token) != visible


def _visible_to(report: JobReport) -> _Visible:
    return tuple(each.gpus_seen for each in report.replicas) or (report.gpus_seen,)


def _note_gpu_check(resource: Resource, report: JobReport) -> None:
    visible = _visible_to(report)
    _write_gpu_check(resource, report, visible)
    while len(_noted) >= _MOST_REMEMBERED:
        _noted.pop(next(iter(tuple(_noted))), None)
    _noted[report.token] = visible


@transaction.atomic
def _write_gpu_check(resource: Resource, report: JobReport, visible: _Visible) -> None:
    fields = ("gpu_check", "gpus", "slices", "replicas", "node_name", "spec", *journal.LOCKED_FIELDS)
    runs = Job.objects.filter(name=job_of_run(report.name), resource=resource, token=report.token)
    job = runs.select_for_update(of=("self",)).only(*fields).first()
    if job is None:
        return
    check = gpu_check.check(visible, _given_to(resource, job))
    if check is None or check.to_json() == job.gpu_check:
        return
    Job.objects.filter(pk=job.pk).update(gpu_check=check.to_json())
    if check.differs and check.text != job.gpu_check.get("text"):
        journal.record_notes({job.pk: check.text}, now=clock.now(), locked=[job])


def _given_to(resource: Resource, job: Job) -> list[GivenGpus]:
    places = job.replicas or [{"node": job.node_name, "gpus": job.gpus, "slices": job.slices}]
    devices = nodes.list_devices(resource_id=resource.pk, names=[place["node"] for place in places])
    asked_bytes = Placing.read(job.spec.get("placing")).gpu_memory_bytes
    return [
        GivenGpus(
            place["gpus"],
            place.get("slices", ()),
            {gpu.index: SeenGpu(gpu.uuid, gpu.memory_bytes) for gpu in devices.get(place["node"], ())},
            asked_bytes,
        )
        for place in places
    ]
