"""Compare the database with what a driver reports, and decide the repairs. Level-triggered: no history needed.

| the database says | the driver says | repair |
| --- | --- | --- |
| starting | starting | renew its lease, and note what it waits for |
| starting | running | note that it runs (adopts it after a restart of the platform) |
| running | running, with a reason | note that reason: what keeps it from going on |
| starting | not placed by its cluster | let it wait again, some times; then forget it |
| starting, running, stopping | ended, same token | note how it ended, then forget it |
| leaving | succeeded | note it, then forget it |
| leaving | ended otherwise, or nothing and the lease expired | let it wait again, then forget it |
| suspending | succeeded | note it, then forget it |
| suspending | ended otherwise, or nothing and the lease expired | suspend it, then forget it |
| leaving, suspending, stopping | starting, running | stop it again |
| starting | nothing, lease expired | start it again: starting is idempotent |
| running, stopping | nothing, lease expired | lost; or cancelled, where that was wanted |
| ended | starting, running | stop it: it slipped through between a start and a cancel |
| ended, or unknown | ended | forget it |
| unknown, or another token | starting, running | stop it: nobody could ever see its end |

How a job ended tells whose fault it was: that becomes a reason code, and a sentence a person can act on.
"""

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S
from compute.engine.ports import EndCause, JobReport, ReportState
from compute.engine.states import IDLE, JOB_STATES, JobState, ReasonCode
from core.units import format_memory

_ON_PLACE = frozenset({ReportState.STARTING, ReportState.RUNNING})
_ENDING = frozenset({JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING})
_SEEN_BEFORE = _ENDING | {JobState.RUNNING}
_NEXT = {
    JobState.LEAVING: (JobState.PENDING, "It has stopped and is queued again."),
    JobState.SUSPENDING: (JobState.SUSPENDED, "It has stopped and waits to be resumed."),
}
"""What a job is whose run was stopped so that it runs again later, and how people are told."""
MOST_UNPLACED = 3
"""So often in a row a cluster may not place a job: what was free in the last poll of its nodes may be taken since."""

_CAUSES: Mapping[EndCause, tuple[JobState, ReasonCode, str]] = {
    EndCause.EXITED: (JobState.FAILED, ReasonCode.USER_ERROR, ""),
    EndCause.TIMEOUT: (JobState.FAILED, ReasonCode.TIMEOUT, "The job ran longer than its timeout allows."),
    EndCause.OUT_OF_MEMORY: (JobState.FAILED, ReasonCode.OUT_OF_MEMORY, ""),
    EndCause.NOT_STARTED: (JobState.FAILED, ReasonCode.INFRASTRUCTURE, "The job could not be started."),
    EndCause.VOLUME_REFUSED: (JobState.FAILED, ReasonCode.USER_ERROR, "A volume of the job cannot be mounted."),
    EndCause.STOPPED: (JobState.CANCELLED, ReasonCode.CANCELLED, "The job was stopped."),
    EndCause.IMAGE_UNAVAILABLE: (JobState.FAILED, ReasonCode.IMAGE_UNAVAILABLE, "The image cannot be pulled."),
    EndCause.UNSCHEDULABLE: (JobState.FAILED, ReasonCode.UNSCHEDULABLE, "The cluster did not place the job."),
    EndCause.QUOTA_EXCEEDED: (JobState.FAILED, ReasonCode.QUOTA_EXCEEDED, "A quota of the cluster refused the job."),
    EndCause.EVICTED: (JobState.FAILED, ReasonCode.EVICTED, "The job was evicted from its node."),
    EndCause.PREEMPTED: (JobState.FAILED, ReasonCode.PREEMPTED, "Another pod preempted the job."),
    EndCause.NODE_LOST: (JobState.LOST, ReasonCode.NODE_LOST, "The node of the job was lost."),
    EndCause.DELETED: (JobState.FAILED, ReasonCode.DELETED, "The job was deleted on the cluster."),
    EndCause.OUTPUT_LOST: (JobState.FAILED, ReasonCode.OUTPUT_LOST, "The output of the job was not stored."),
}
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
# A shell reports the signal that killed a program as an exit code above this.
_SHELL_ADDS = 128


@dataclass(frozen=True)
class JobRecord:
    """What the database says about one job. `name` is that of its present run, `memory_bytes` its limit.

    `grace_period_s` is how long it may take to end once it is told to. `checkpoint_id` is its checkpoint folder, None
    where it has none, and `started_at` when its present run began. `reason_code` is why it is being stopped; empty: it
    is cancelled, or goes on. `unplaced` counts the runs before this one that its cluster did not place, in a row.
    `ran_before` is how long all runs before this one ran.
    """

    id: str
    name: str
    token: str
    state: JobState
    lease_expires_at: datetime | None
    reason: str = ""
    memory_bytes: int = 0
    grace_period_s: float = DEFAULT_GRACE_PERIOD_S
    checkpoint_id: str | None = None
    started_at: datetime | None = None
    reason_code: str = ""
    unplaced: int = 0
    ran_before: timedelta = timedelta(0)

    @property
    def stop_code(self) -> ReasonCode:
        """What it is recorded as ended for, once it was stopped."""
        return ReasonCode(self.reason_code or ReasonCode.CANCELLED)


@dataclass(frozen=True)
class Record:
    """Write a new state into the database, if the job still has this token and a state that allows it.

    `last_lines` are the lines of its log that say why it failed; `output_folder` is where its output lies on its host.
    `left_nothing`: there it is known to be empty. `unplaced` and `ran_before` are those of a job that runs again later.
    """

    job_id: str
    token: str
    state: JobState
    message: str
    reason_code: ReasonCode | None = None
    reason: str = ""
    last_lines: str = ""
    output_folder: str = ""
    left_nothing: bool = False
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    unplaced: int = 0
    ran_before: timedelta = timedelta(0)


@dataclass(frozen=True)
class Note:
    """Write down what a job waits for, in the state in which it is; an empty reason: it goes on."""

    job_id: str
    token: str
    reason: str


@dataclass(frozen=True)
class Repairs:
    """All that one comparison asks for. `stop`, `forget` hold names; `renew`, `restart` ids of jobs."""

    records: tuple[Record, ...] = ()
    notes: tuple[Note, ...] = ()
    renew: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()


def compare(
    known: Iterable[JobRecord], reports: Iterable[JobReport], *, now: datetime, renew_before: datetime
) -> Repairs:
    """Decide the repairs for one resource. `known` holds its live jobs, and all whose names the driver reports.

    Leases that end before `renew_before` are renewed.
    """
    by_name = {job.name: job for job in known}
    reported = {report.name: report for report in reports}
    records: list[Record] = []
    notes: list[Note] = []
    renew: list[str] = []
    stop: list[str] = []
    forget: list[str] = []
    for name, report in reported.items():
        job = by_name.get(name)
        if job is None or job.token != report.token or job.state in JOB_STATES.final:
            (stop if report.state in _ON_PLACE else forget).append(name)
        elif report.state in _ON_PLACE:
            is_due = _ends_before(job, renew_before)
            if is_due:
                renew.append(job.id)
            if job.state is JobState.STARTING and report.state is ReportState.RUNNING:
                records.append(_running(job, report))
            elif job.state in _ENDING:
                stop.append(name)
            # What a job waits for while it starts is worth a word only if that takes longer than usual.
            elif report.reason != job.reason and (is_due or report.state is ReportState.RUNNING):
                notes.append(Note(job.id, job.token, report.reason))
        elif job.state not in IDLE:
            records.append(_ended(job, report, now))
    missing = [job for job in by_name.values() if job.name not in reported and _ends_before(job, now)]
    restart = [job.id for job in missing if job.state is JobState.STARTING]
    records += [_absent(job, now) for job in missing if job.state in _SEEN_BEFORE]
    return Repairs(tuple(records), tuple(notes), tuple(renew), tuple(restart), tuple(stop), tuple(forget))


def _running(job: JobRecord, report: JobReport) -> Record:
    return Record(job.id, job.token, JobState.RUNNING, "The job runs.", started_at=report.started_at)


def _ended(job: JobRecord, report: JobReport, now: datetime) -> Record:
    state, reason_code, reason = explain_end(report, job.memory_bytes)
    if job.state in _NEXT and state is not JobState.SUCCEEDED:
        return _interrupted(job, now)
    if job.state is JobState.STARTING and report.cause is EndCause.UNSCHEDULABLE:
        times = job.unplaced + 1
        if times < MOST_UNPLACED:
            message = f"{reason} It has not run, and is queued again."
            return Record(job.id, job.token, JobState.PENDING, message, unplaced=times, ran_before=job.ran_before)
        reason = f"{reason} That happened {times} times in a row."
    if job.state is JobState.STOPPING and state is not JobState.SUCCEEDED:
        state, reason_code, reason = JobState.CANCELLED, job.stop_code, job.reason or "The job was cancelled."
    return Record(
        job.id,
        job.token,
        state,
        reason or "The job succeeded.",
        reason_code=reason_code,
        reason=reason,
        exit_code=report.exit_code,
        started_at=report.started_at,
        finished_at=report.finished_at or now,
    )


def _interrupted(job: JobRecord, now: datetime) -> Record:
    # A failure in these seconds may come from being stopped. If it does not, the next run fails as well.
    ran = timedelta(0) if job.started_at is None else now - job.started_at
    return Record(job.id, job.token, *_NEXT[job.state], ran_before=job.ran_before + ran)


def _absent(job: JobRecord, now: datetime) -> Record:
    if job.state in _NEXT:
        return _interrupted(job, now)
    if job.state is JobState.STOPPING:
        reason = job.reason or "The job was cancelled."
        return Record(job.id, job.token, JobState.CANCELLED, reason, job.stop_code, reason=reason, finished_at=now)
    reason = "The job disappeared from the resource; its exit status is unknown."
    return Record(job.id, job.token, JobState.LOST, reason, ReasonCode.INFRASTRUCTURE, reason=reason, finished_at=now)


def _ends_before(job: JobRecord, moment: datetime) -> bool:
    return job.lease_expires_at is None or job.lease_expires_at <= moment


def explain_end(report: JobReport, memory_bytes: int = 0) -> tuple[JobState, ReasonCode | None, str]:
    """Return the state, reason code and reason with which a job whose end is reported is recorded.

    `memory_bytes` is its limit; 0: it has none. The reason says which replica of a gang it is about.
    """
    state, code, reason = _explain_end(report, memory_bytes)
    return state, code, reason if report.replica is None else f"Replica {report.replica}: {reason}"


def _explain_end(report: JobReport, memory_bytes: int) -> tuple[JobState, ReasonCode | None, str]:
    if report.state is ReportState.SUCCEEDED:
        return JobState.SUCCEEDED, None, ""
    if report.state is ReportState.LOST:
        return (
            JobState.LOST,
            ReasonCode.INFRASTRUCTURE,
            report.reason or "The job disappeared; its exit status is unknown.",
        )
    state, code, reason = _CAUSES[report.cause]
    if report.cause is EndCause.OUT_OF_MEMORY:
        limit = f"the memory limit of {format_memory(memory_bytes)}" if memory_bytes else "its memory limit"
        reason = f"The command was {_killed_by(signal.SIGKILL)}: {limit} was reached."
    return state, code, report.reason or reason or _exit_in_words(report.exit_code)


def with_cause(reason: str, headline: str) -> str:
    """Return the reason of a failure with what the job itself said last."""
    # A job that never began says no more in its log than its reason does.
    is_news = headline and reason not in headline
    return f"{reason.removesuffix('.')}: {headline}" if is_news else reason


def _exit_in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "The command failed."
    if exit_code < 0:
        return f"The command was {_killed_by(-exit_code)}."
    if exit_code == _NOT_FOUND:
        return "The command exited with code 127: a program it calls was not found."
    if exit_code == _NOT_EXECUTABLE:
        return "The command exited with code 126: a program it calls may not be executed."
    if _SHELL_ADDS < exit_code <= _SHELL_ADDS + signal.NSIG:
        return (
            f"The command exited with code {exit_code}: a program it calls was {_killed_by(exit_code - _SHELL_ADDS)}."
        )
    return f"The command exited with code {exit_code}."


def _killed_by(number: int) -> str:
    try:
        return f"killed by signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"killed by signal {number}"
