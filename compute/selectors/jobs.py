"""Reads about jobs: the rows, and through their drivers the logs and the outputs.

Those that the task of this thread has written are noted until it ends, as the next tasks of a hand-over need not read
them again. Those whose transaction was rolled back are among them, and others may have changed them since. So what is
done with one is compared with its row, or concerns what does not change any more.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, chain, islice, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.permissions import Actor, require
from accounts.selectors import get_project
from compute import permissions
from compute.adapters import drivers
from compute.adapters.local.kind import open_tree_folders
from compute.engine.job_spec import HostFolder, JobSpec, Mount, Tree, read_inputs_and_code
from compute.engine.ports import ComputeDriver, LogChunk, OutputReader
from compute.engine.states import HOLDING, IDLE, JOB_STATES, LIMITS, JobState, ReasonCode, explain_unknown
from compute.errors import JobHasParts, JobIsPart, JobNotFound, ResourceUnreachable
from compute.models import Job, JobEvent, ResourceState
from compute.selectors import stored_logs
from core import hosts, orm, tasks
from core.errors import InvalidInput
from core.prepared import prepared
from core.sealed_folder import SealedFolder
from scheduler.selectors import workloads
from scheduler.selectors.workloads import WorkloadWait

MAX_LOG_BYTES = 1 << 20
SUBMITTED = "job"
"""The kind of the jobs that people submit by themselves."""
HOLDER = "job:"
"""The holder of the commits that a job reads: this, and its id."""

_STATUS_COLUMNS = (
    *("pk", "state", "reason_code", "reason", "node_name", "exit_code", "last_lines", "started_at", "finished_at"),
    *("files_deleted_at", "log_stored_at", "resource__is_simulated", "resource__host", "workload_id"),
    *("resource__name", "resource__state", "evictions"),
)
_STATUS_GETTERS = {column: attrgetter(column.replace("__", ".")) for column in _STATUS_COLUMNS}
_READ_COLUMNS = (
    *_STATUS_COLUMNS,
    *("project_id", "name", "spec", "completions", "retries", "log_bytes"),
    *("output_state", "output_root", "output_folder", "output_files", "output_error"),
    *("resource__name", "resource__kind", "resource__credentials", "resource__unconfined_reason"),
)

_QUEUED, _ENDED = "compute.queued", "compute.ended"
COLUMNS = tuple(field.attname for field in Job._meta.concrete_fields)


@dataclass(frozen=True)
class JobStatus:
    """What other apps know of a job: where it is in its life, and why. `wait` is told while it is pending.

    `is_here`: this host's processes look after what it wrote, or those of any host may, as its own is given up.
    `unknown_reason`: its resource does not answer, so that `state` is the last that was known; empty: it is known.
    """

    id: str
    state: JobState
    reason_code: str
    reason: str
    node_name: str
    exit_code: int | None
    last_lines: str
    started_at: datetime | None
    finished_at: datetime | None
    has_files: bool
    is_simulated: bool
    is_here: bool
    evictions: int = 0
    unknown_reason: str = ""
    wait: WorkloadWait = field(default_factory=WorkloadWait)

    @property
    def is_placed(self) -> bool:
        """Whether it holds resources."""
        return self.state in HOLDING

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.state in JOB_STATES.final

    @property
    def has_reached_limit(self) -> bool:
        """Whether it was cancelled by nobody, but idle or running for longer than it may be."""
        return self.state is JobState.CANCELLED and self.reason_code in LIMITS


def states_of(job_ids: Collection[str] | QuerySet[Any, Any]) -> Mapping[str, JobStatus]:
    """Return the status of these jobs by id, in two queries. For apps above that have checked who may know."""
    return _states_of(list(Job.objects.filter(pk__in=job_ids).order_by().values(*_STATUS_COLUMNS)))


def _states_of(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, JobStatus]:
    pending = [row["workload_id"] for row in rows if row["state"] == JobState.PENDING and row["workload_id"]]
    waits = workloads.waits_of(pending) if pending else {}
    return {row["pk"]: _status_of(row, waits) for row in rows}


def states_of_jobs(jobs: Collection[Job]) -> Mapping[str, JobStatus]:
    """Return the status of jobs that `list_for_reading` has read, by id."""
    rows = [{column: get(job) for column, get in _STATUS_GETTERS.items()} for job in jobs]
    return _states_of(rows)


def is_in(states: Collection[JobState]) -> Exists:
    """Return the condition, for rows of an app above, that the job whose id is in `job` is in one of the states."""
    return Exists(Job.objects.filter(pk=OuterRef("job"), state__in=sorted(states)))


def _status_of(row: Mapping[str, Any], waits: Mapping[str, WorkloadWait]) -> JobStatus:
    is_unknown = row["state"] in HOLDING and row["resource__state"] == ResourceState.UNREACHABLE
    is_given_up = row["files_deleted_at"] is not None and row["log_stored_at"] is not None
    return JobStatus(
        id=row["pk"],
        state=JobState(row["state"]),
        reason_code=row["reason_code"],
        reason=row["reason"],
        node_name=row["node_name"],
        exit_code=row["exit_code"],
        last_lines=row["last_lines"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        has_files=row["files_deleted_at"] is None,
        is_simulated=row["resource__is_simulated"],
        is_here=hosts.is_here(row["resource__host"]) or is_given_up,
        evictions=row["evictions"],
        unknown_reason=explain_unknown(row["resource__name"], JobState(row["state"])) if is_unknown else "",
        wait=waits.get(row["workload_id"], WorkloadWait()),
    )


def list_many(job_ids: Collection[str]) -> list[Job]:
    """Return these jobs with resource, workload and answer, by id. For apps above that have checked who may know."""
    return list(Job.objects.filter(pk__in=job_ids).select_related("workload__answer", "resource").order_by("pk"))


def list_for_reading(job_ids: AbstractSet[str]) -> dict[str, Job]:
    """Return jobs by id with what it takes to read their logs and outputs. For the platform itself."""
    jobs = {job.pk: job for job in map(find_ended, job_ids) if job is not None}
    for batch in orm.in_batches(sorted(job_ids - jobs.keys())):
        jobs |= {job.pk: job for job in _for_reading(batch)}
    return jobs


@prepared
def _for_reading(job_ids: Collection[str]) -> QuerySet[Job]:
    return Job.objects.filter(pk__in=job_ids).select_related("resource").only(*_READ_COLUMNS).order_by("pk")


def list_jobs(
    *,
    actor: Actor,
    project: str | None = None,
    state: str | None = None,
    cause: str | None = None,
    text: str = "",
    person: str = "",
    with_parts: bool = False,
) -> QuerySet[Job]:
    """Return the jobs that the actor may see, newest first; those of one project or in one state where asked for.

    `cause` says why they ended without success (`ReasonCode`), `text` is a part of their name or title, `person` a part
    of who submitted them. Parts of jobs are listed `with_parts` only.
    """
    jobs = Job.objects.filter(deleted_at=None).select_related("resource", "project", "workload__answer").order_by("-pk")
    if not with_parts:
        jobs = jobs.filter(part_of=None)
    if not actor.sees_everything:
        jobs = jobs.filter(project_id__in=actor.project_ids)
    if project is not None:
        jobs = jobs.filter(project=get_project(actor=actor, name=project))
    if state is not None:
        if state not in set(JobState):
            raise InvalidInput(f"'{state}' is no state of a job. There are: {', '.join(JobState)}.")
        jobs = in_states(jobs, {JobState(state)})
    if cause is not None:
        if cause not in set(ReasonCode):
            raise InvalidInput(f"'{cause}' is no cause of a failure. There are: {', '.join(ReasonCode)}.")
        jobs = jobs.filter(reason_code=cause)
    if text:
        jobs = jobs.filter(Q(name__icontains=text) | Q(title__icontains=text))
    return jobs.filter(submitted_by__icontains=person) if person else jobs


def in_states(jobs: QuerySet[Job], states: Collection[JobState]) -> QuerySet[Job]:
    """Keep the jobs in some states. Live ones are found by their index, however many others there are.

    A job whose parts run is running.
    """
    if not JOB_STATES.live.issuperset(states):
        return jobs.filter(state__in=states)
    have_running_parts = Q(state=JobState.PENDING, parts_running__gt=0)
    condition = Q(state__in=states)
    if (JobState.RUNNING in states) != (JobState.PENDING in states):
        condition = condition | have_running_parts if JobState.RUNNING in states else condition & ~have_running_parts
    return jobs.filter(pk__in=Job.objects.filter(condition, is_live=True).order_by().values("pk"))


def find_running() -> QuerySet[Job]:
    """Return the jobs whose command runs. For the platform itself."""
    return Job.objects.filter(is_live=True, state__in=sorted(HOLDING - {JobState.STARTING}))


def list_live_of(usernames: Collection[str], *, kind: str) -> QuerySet[Job]:
    """Return the jobs of one kind that these people submitted and that have not ended. For the platform itself."""
    live = Job.objects.filter(kind=kind, submitted_by__in=usernames, is_live=True, part_of=None)
    return live.select_related("project").order_by("pk")


def get_job(*, actor: Actor, name: str) -> Job:
    """Return a job by its name, or by what a person called it (see `find_named`).

    Raises JobNotFound, also to those who are not members of its project.
    """
    job = find_named(name, list_jobs(actor=actor, with_parts=True).select_related("part_of"))
    if job is None:
        raise JobNotFound(f"There is no job called '{name}', or you are not a member of its project.")
    return job


def get_by_id(*, actor: Actor, job_id: str) -> Job:
    """Return a job by its id. Raises JobNotFound, also to those who are not members of its project."""
    job = list_jobs(actor=actor, with_parts=True).filter(pk=job_id).first()
    if job is None:
        raise JobNotFound("There is no such job, or you are not a member of its project.")
    return job


def find_named(name: str, jobs: QuerySet[Job] | None = None) -> Job | None:
    """Return the job of that name among these, by default among all that are not deleted. For the platform itself.

    A job that a person submitted has what they called it as its title, where a deleted one has had that name.
    """
    if jobs is None:
        jobs = Job.objects.filter(deleted_at=None).order_by("-pk")
    return jobs.filter(name=name).first() or jobs.filter(title=name, kind=SUBMITTED).first()


def find_free_name(names: Iterator[str]) -> str:
    """Return the first of the names, of which there is no end, that no job has or had. For the platform itself.

    Most often the first one is free. Each query asks for more of them than the one before, as a name may have been used
    thousands of times.
    """
    for size in chain([1, 10, 100], repeat(1000)):
        asked = list(islice(names, size))
        taken = set(Job.objects.filter(name__in=asked).values_list("name", flat=True))
        if (free := next((name for name in asked if name not in taken), None)) is not None:
            return free
    raise AssertionError("names have no end")


def list_by_id(job_ids: Collection[str]) -> dict[str, Job]:
    """Return jobs with their resources by id, without their specs. For the platform itself."""
    jobs: dict[str, Job] = {}
    for batch in orm.in_batches(sorted(job_ids)):
        rows = Job.objects.filter(pk__in=batch).defer("spec").prefetch_related("resource")
        jobs |= {job.pk: job for job in rows}
    return jobs


def list_parts(*, actor: Actor, job: Job) -> QuerySet[Job]:
    """Return all tries of the parts of a job, by index, the last one of each first."""
    parts = list_jobs(actor=actor, with_parts=True).filter(part_of=job.pk)
    return parts.defer("spec").order_by("part_index", "-pk")


def get_program(*, actor: Actor, name: str) -> Job:
    """Return the job whose log and processes a name means: itself, or the last try of one that has a single part."""
    job = get_job(actor=actor, name=name)
    tries = list_parts(actor=actor, job=job) if job.has_parts and job.completions == 1 else Job.objects.none()
    last = tries.first()
    return job if last is None else get_job(actor=actor, name=last.name)


def require_whole(job: Job) -> None:
    """Raise JobIsPart for a part of another job, which decides about it."""
    if job.part_of_id is not None:
        raise JobIsPart(f"{job.label} is a part of another job, and goes the way of that.")


def require_no_parts(job: Job) -> None:
    """Raise JobHasParts for a job that runs as parts, where only one of them can be meant."""
    if job.has_parts:
        raise JobHasParts(
            f"{job.label} runs as {job.completions} parts: {job.label}-0 to {job.label}-{job.completions - 1}."
        )


def list_events(*, actor: Actor, job: Job) -> QuerySet[JobEvent]:
    """Return what happened to a job, oldest first."""
    require(actor, permissions.VIEW_JOBS, job.project_id)
    return JobEvent.objects.filter(job=job).order_by("seq")


def read_log(*, actor: Actor, job: Job, offset: int = 0, limit: int = MAX_LOG_BYTES) -> LogChunk:
    """Return what a job printed, from a byte offset. Complete once the job has ended and all of it was read.

    What it printed before it was evicted comes first. What is in the store is read there, and the rest from the
    resource. Raises ResourceUnreachable for the rest only, and JobHasParts.
    """
    require(actor, permissions.VIEW_JOBS, job.project_id)
    require_no_parts(job)
    if offset < 0 or limit < 0:
        raise InvalidInput("The offset and the limit cannot be negative.")
    limit = min(limit, MAX_LOG_BYTES)
    if offset < job.log_bytes or job.log_stored_at is not None:
        data = stored_logs.read(job, offset, limit)
        end = offset + len(data)
        size_bytes = job.log_bytes if job.log_stored_at is not None else _size_of_log(job)
        return LogChunk(data, end, job.log_stored_at is not None and end >= size_bytes, size_bytes)
    if job.state in IDLE and not job.evictions:
        return LogChunk(b"", offset, is_complete=False, size_bytes=0)
    chunk = read_live_log(job, offset, limit)
    # A job that never came to run, or whose files are deleted, has no log that could still grow.
    is_over = job.has_ended and not chunk.data and chunk.next_offset >= chunk.size_bytes
    return replace(chunk, is_complete=True) if is_over else chunk


def is_readable(job: Job) -> bool:
    """Whether this process can read all of a job's log: it is stored, or its resource is not another host's."""
    return job.log_stored_at is not None or hosts.is_here(job.resource.host)


def read_live_log(job: Job, offset: int, limit: int) -> LogChunk:
    """Return part of a log from the resource on which the job runs or ran. Raises ResourceUnreachable.

    For the platform itself.
    """
    return _read_log(drivers.driver_of(job.resource), job, offset, limit)


def _size_of_log(job: Job) -> int:
    """Return how long a log is that is stored in part; where the resource does not answer, what is known of it."""
    try:
        return max(job.log_bytes, read_live_log(job, 0, 0).size_bytes)
    except ResourceUnreachable:
        return job.log_bytes


def _read_log(driver: ComputeDriver, job: Job, offset: int, limit: int) -> LogChunk:
    """Read in the logs of all runs of a job as if they were one."""
    *earlier, last = job.run_names
    ends = list(accumulate(driver.read_log(name, 0, 0).size_bytes for name in earlier))
    run = bisect_right(ends, offset)
    start, before_last = (ends[run - 1] if run else 0), (ends[-1] if ends else 0)
    chunk = driver.read_log(job.run_names[run], offset - start, limit)
    is_last = run == len(earlier)
    size_bytes = before_last + (chunk if is_last else driver.read_log(last, 0, 0)).size_bytes
    return LogChunk(chunk.data, start + chunk.next_offset, is_last and chunk.is_complete, size_bytes)


def open_output(job: Job) -> OutputReader:
    """Return what reads what a job wrote to `$NEARLINE_OUTPUT` in its last run. For the platform itself."""
    return drivers.driver_of(job.resource).open_output(job.run_name)


def find_output_folder(job: Job) -> HostFolder | None:
    """Return the folder of a job's output on the host where it ran, for jobs there. For the platform itself.

    None where there is none any more.
    """
    if job.files_deleted_at is not None:
        return None
    if not hosts.is_here(job.resource.host):
        return HostFolder(job.output_folder) if job.output_folder else None
    source = open_output(job).source
    return source if source is not None and Path(source.path).is_dir() else None


def open_outputs(job_ids: Collection[str]) -> dict[str, OutputReader]:
    """Return the readers of many jobs by id. For the platform itself."""
    readers: dict[str, OutputReader] = {}
    for batch in orm.in_batches(sorted(set(job_ids))):
        rows = Job.objects.filter(pk__in=batch).select_related("resource")
        rows = rows.only("name", "evictions", "resource__name", "resource__kind", "resource__host")
        readers |= {job.pk: open_output(job) for job in rows}
    return readers


def find_tree_folder(job: Job, tree: Tree) -> SealedFolder | None:
    """Return the folder of this host in which a job read a tree, as others of its resource do. For the platform itself.

    None where there is none, and for jobs of a resource that brings each of them a tree of its own. Needs the resource
    at hand.
    """
    if not drivers.get_kind(job.resource.kind).shares_trees or not hosts.is_here(job.resource.host):
        return None
    sealed = open_tree_folders(Path(settings.NEARLINE.home)).sealed(tree)
    return sealed if sealed.folder.exists() else None


def code_of(spec: JobSpec) -> str:
    """Return the root of the tree that is the code of a job; empty: it has none, or none that is stored."""
    return spec.code.source.root if spec.code is not None and isinstance(spec.code.source, Tree) else ""


def list_inputs(job: Job) -> tuple[tuple[Mount, ...], Mount | None]:
    """Return the outputs of other jobs that a job was given, and its code; None: it has none."""
    return read_inputs_and_code(job.spec)


def get_spec(job: Job) -> JobSpec:
    """Return what a job was submitted as."""
    return JobSpec.from_json(job.spec)


def job_of(columns: tuple[Any, ...]) -> Job:
    """Return the row of a job from its `COLUMNS`."""
    return Job.from_db(DEFAULT_DB_ALIAS, COLUMNS, columns)


def note_queued(jobs: Iterable[Job]) -> None:
    """Keep new jobs, with their templates and resources, until the task ends."""
    _note(_QUEUED, {str(job.workload_id): job for job in jobs})


def find_queued(workload_id: str) -> Job | None:
    """Return the new job of a workload, if this task has queued it."""
    return _find(_QUEUED, workload_id)


def note_ended(jobs: Iterable[Job]) -> None:
    """Keep jobs that have ended until the task ends."""
    _note(_ENDED, {job.pk: job for job in jobs})


def find_ended(job_id: str) -> Job | None:
    """Return a job, if this task has ended it."""
    return _find(_ENDED, job_id)


def _note(key: str, jobs: Mapping[str, Job]) -> None:
    if (memo := tasks.memo()) is not None:
        memo.setdefault(key, {}).update(jobs)


def _find(key: str, job_id: str) -> Job | None:
    memo: Mapping[str, Any] = tasks.memo() or {}
    job: Job | None = memo.get(key, {}).get(job_id)
    return job
