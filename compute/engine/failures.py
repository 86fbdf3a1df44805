"""Whose fault was it: from how a job ended to a reason code and a sentence a person can act on."""

import signal
from collections.abc import Mapping

from compute.engine.ports import EndCause, JobReport, ReportState
from compute.engine.states import JobState, ReasonCode

_CAUSES: Mapping[EndCause, tuple[JobState, ReasonCode, str]] = {
    EndCause.EXITED: (JobState.FAILED, ReasonCode.USER_ERROR, ""),
    EndCause.TIMEOUT: (JobState.FAILED, ReasonCode.TIMEOUT, "The job ran longer than its timeout allows."),
    EndCause.OUT_OF_MEMORY: (
        JobState.FAILED,
        ReasonCode.OUT_OF_MEMORY,
        "The job needed more memory than its template gives.",
    ),
    EndCause.NOT_STARTED: (JobState.FAILED, ReasonCode.INFRASTRUCTURE, "The job could not be started."),
    EndCause.STOPPED: (JobState.CANCELLED, ReasonCode.CANCELLED, "The job was stopped."),
}
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def explain_end(report: JobReport) -> tuple[JobState, ReasonCode | None, str]:
    """Return the state, reason code and reason with which a job whose end is reported goes into the books."""
    if report.state is ReportState.SUCCEEDED:
        return JobState.SUCCEEDED, None, ""
    if report.state is ReportState.LOST:
        return JobState.LOST, ReasonCode.INFRASTRUCTURE, report.reason or "The job is gone and left no word of its end."
    state, code, reason = _CAUSES[report.cause]
    return state, code, report.reason or reason or _exit_in_words(report.exit_code)


def _exit_in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "The command failed."
    if exit_code < 0:
        return f"The command was ended by signal {_signal_name(-exit_code)}."
    if exit_code == _NOT_FOUND:
        return "The command exited with code 127: a program it calls was not found."
    if exit_code == _NOT_EXECUTABLE:
        return "The command exited with code 126: a program it calls may not be executed."
    return f"The command exited with code {exit_code}."


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return str(number)
