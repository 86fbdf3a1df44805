"""Whose fault was it: from how a job ended to a reason code and a sentence a person can act on."""

import signal
from collections.abc import Mapping

from compute.engine.ports import EndCause, JobReport, ReportState
from compute.engine.states import JobState, ReasonCode
from core.units import format_memory

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
