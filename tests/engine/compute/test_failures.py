"""How a job ended, in words."""

import pytest

from compute.engine.failures import explain_end, with_cause
from compute.engine.ports import EndCause, JobReport, ReportState


def reason_of(exit_code: int | None, cause: EndCause = EndCause.EXITED, memory_bytes: int = 0) -> str:
    report = JobReport("job", "token", ReportState.FAILED, exit_code, cause)
    return explain_end(report, memory_bytes)[2]


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (3, "The command exited with code 3."),
        (127, "The command exited with code 127: a program it calls was not found."),
        (137, "The command exited with code 137: a program it calls was killed by signal 9 (SIGKILL)."),
        (255, "The command exited with code 255."),
        (-11, "The command was killed by signal 11 (SIGSEGV)."),
        (-99, "The command was killed by signal 99."),
    ],
)
def test_an_exit_code_or_a_signal_is_told_in_words(exit_code, words):
    assert reason_of(exit_code) == words


def test_a_job_that_reached_its_memory_limit_is_told_the_limit():
    words = "The command was killed by signal 9 (SIGKILL): the memory limit of 2 GiB was reached."

    assert reason_of(-9, EndCause.OUT_OF_MEMORY, 2 * 2**30) == words


def test_what_the_job_said_last_follows_its_exit_code():
    assert with_cause("The command exited with code 1.", "ValueError: x") == (
        "The command exited with code 1: ValueError: x"
    )
    assert with_cause("The command exited with code 1.", "") == "The command exited with code 1."


def test_a_reason_that_is_the_last_of_the_log_too_is_told_once():
    reason = "The job could not be started: There is no such tree."

    assert with_cause(reason, f"[nearline] {reason}") == reason
