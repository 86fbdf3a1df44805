from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.engine.ports import EndCause, JobReport, ReportState
from compute.engine.reconcile import JobRecord, Note, Record, compare, explain_end, with_cause
from compute.engine.states import JOB_STATES, JobState, ReasonCode

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FRESH, EXPIRED = NOW + timedelta(seconds=25), NOW - timedelta(seconds=1)


def known(state, *, lease=FRESH, token="t", reason=""):
    return JobRecord("job_1", "train", token, JobState(state), lease, reason)


def report(state, **facts):
    return JobReport("train", facts.pop("token", "t"), ReportState(state), **facts)


def decide(jobs, reports):
    return compare(jobs, reports, now=NOW, renew_before=NOW + timedelta(seconds=20))


def test_a_starting_job_that_runs_is_adopted():
    repairs = decide([known("starting")], [report("running", started_at=NOW)])

    assert repairs.records == (Record("job_1", "t", JobState.RUNNING, "The job runs.", started_at=NOW),)


def test_a_job_whose_files_are_still_brought_keeps_its_lease_and_is_not_started_again():
    fresh = decide([known("starting")], [report("starting")])
    late = decide([known("starting", lease=EXPIRED)], [report("starting")])

    assert fresh == type(fresh)()
    assert (late.renew, late.restart, late.records) == (("job_1",), (), ())


@pytest.mark.parametrize("state", ["leaving", "stopping", "cancelled"])
def test_a_job_that_is_to_end_is_stopped_while_its_files_are_brought(state):
    assert decide([known(state)], [report("starting")]).stop == ("train",)


def test_a_running_job_that_runs_needs_nothing():
    repairs = decide([known("running")], [report("running")])

    assert repairs == type(repairs)()


def test_what_keeps_a_running_job_from_going_on_is_noted_once_and_so_is_that_it_is_over():
    lost = report("running", reason="Its node is away.")

    assert decide([known("running")], [lost]).notes == (Note("job_1", "t", "Its node is away."),)
    assert decide([known("running", reason="Its node is away.")], [lost]).notes == ()
    assert decide([known("running", reason="Its node is away.")], [report("running")]).notes == (
        Note("job_1", "t", ""),
    )


def test_what_a_starting_job_waits_for_is_noted_only_if_it_takes_long():
    waits = report("starting", reason="No node is free.")

    assert decide([known("starting")], [waits]).notes == ()
    assert decide([known("starting", lease=EXPIRED)], [waits]).notes == (Note("job_1", "t", "No node is free."),)


@pytest.mark.parametrize("state", ["leaving", "stopping", "cancelled"])
def test_a_job_that_is_to_end_keeps_the_reason_for_that(state):
    assert decide([known(state, reason="Enough.")], [report("running", reason="Its node is away.")]).notes == ()


def test_a_lease_that_ends_soon_is_renewed():
    soon = known("running", lease=NOW + timedelta(seconds=19))

    assert decide([soon], [report("running")]).renew == ("job_1",)


@pytest.mark.parametrize("state", ["starting", "running", "leaving", "stopping"])
def test_a_success_is_recorded_from_every_live_state(state):
    [record] = decide([known(state)], [report("succeeded", exit_code=0, finished_at=NOW)]).records

    assert (record.state, record.exit_code, record.reason_code, record.finished_at) == (
        JobState.SUCCEEDED,
        0,
        None,
        NOW,
    )


def test_a_failure_while_stopping_is_the_cancel_that_was_asked_for():
    job = known("stopping", reason="Alice cancelled the job.")

    [record] = decide([job], [report("failed", exit_code=-15, cause=EndCause.STOPPED)]).records

    assert (record.state, record.reason_code) == (JobState.CANCELLED, ReasonCode.CANCELLED)
    assert record.reason == "Alice cancelled the job."


@pytest.mark.parametrize("reports", [[report("failed", exit_code=-15, cause=EndCause.STOPPED)], []])
def test_a_job_that_is_stopped_for_being_idle_ends_with_that_as_its_reason(reports):
    job = replace(known("stopping", lease=EXPIRED, reason="It was idle for 1 h."), reason_code="idle_limit")

    [record] = decide([job], reports).records

    assert (record.state, record.reason_code, record.reason) == (
        JobState.CANCELLED,
        ReasonCode.IDLE_LIMIT,
        "It was idle for 1 h.",
    )


@pytest.mark.parametrize(("exit_code", "cause"), [(-15, EndCause.STOPPED), (1, EndCause.EXITED)])
def test_a_failure_while_leaving_means_waiting_again(exit_code, cause):
    [record] = decide([known("leaving")], [report("failed", exit_code=exit_code, cause=cause)]).records

    assert record == Record("job_1", "t", JobState.PENDING, "It has stopped and is queued again.")


UNPLACED = report("failed", cause=EndCause.UNSCHEDULABLE, reason="The cluster does not place its pod: no GPU.")


def test_a_job_that_its_cluster_does_not_place_waits_again_until_that_has_happened_three_times():
    once, twice, thrice = (
        decide([replace(known("starting"), unplaced=times)], [UNPLACED]).records for times in range(3)
    )

    message = "The cluster does not place its pod: no GPU. It has not run, and is queued again."
    assert once == (Record("job_1", "t", JobState.PENDING, message, unplaced=1),)
    assert twice == (Record("job_1", "t", JobState.PENDING, message, unplaced=2),)
    assert [(each.state, each.reason_code, each.reason) for each in thrice] == [
        (
            JobState.FAILED,
            ReasonCode.UNSCHEDULABLE,
            "The cluster does not place its pod: no GPU. That happened 3 times in a row.",
        )
    ]


def test_what_is_cancelled_while_its_cluster_does_not_place_it_is_cancelled():
    [record] = decide([known("stopping", reason="Alice cancelled the job.")], [UNPLACED]).records

    assert (record.state, record.reason) == (JobState.CANCELLED, "Alice cancelled the job.")


def test_a_stop_from_outside_cancels_a_running_job():
    [record] = decide([known("running")], [report("failed", exit_code=-15, cause=EndCause.STOPPED)]).records

    assert (record.state, record.reason_code) == (JobState.CANCELLED, ReasonCode.CANCELLED)


@pytest.mark.parametrize("state", ["leaving", "stopping"])
def test_a_job_that_is_being_stopped_and_runs_is_stopped_again(state):
    assert decide([known(state)], [report("running")]).stop == ("train",)


@pytest.mark.parametrize("state", ["starting", "running", "leaving", "stopping"])
def test_a_job_nobody_sees_is_left_alone_while_its_lease_holds(state):
    repairs = decide([known(state)], [])

    assert repairs == type(repairs)()


def test_a_job_that_never_came_up_is_started_again_once_its_lease_is_over():
    assert decide([known("starting", lease=EXPIRED)], []).restart == ("job_1",)


@pytest.mark.parametrize(("state", "end"), [("running", JobState.LOST), ("stopping", JobState.CANCELLED)])
def test_a_job_nobody_sees_is_over_once_its_lease_is(state, end):
    [record] = decide([known(state, lease=EXPIRED)], []).records

    assert (record.state, record.finished_at) == (end, NOW)


def test_a_leaving_job_nobody_sees_waits_again_once_its_lease_is_over():
    [record] = decide([known("leaving", lease=EXPIRED)], []).records

    assert (record.state, record.finished_at) == (JobState.PENDING, None)


@pytest.mark.parametrize("state", sorted(JOB_STATES.final))
def test_an_ended_job_that_runs_is_stopped_and_one_that_ended_forgotten(state):
    assert decide([known(state)], [report("running")]).stop == ("train",)
    assert decide([known(state)], [report("succeeded")]).forget == ("train",)


def test_an_unknown_job_is_stopped_and_then_forgotten():
    assert decide([], [report("running")]).stop == ("train",)
    assert decide([], [report("failed")]).forget == ("train",)


def test_a_report_with_another_token_changes_no_book():
    repairs = decide([known("running", lease=NOW)], [report("succeeded", token="older")])

    assert (repairs.records, repairs.renew, repairs.forget) == ((), (), ("train",))


def test_a_pending_job_is_never_touched():
    repairs = decide([known("pending", lease=None)], [])

    assert repairs == type(repairs)()


@given(
    state=st.sampled_from(JobState),
    lease=st.sampled_from([None, FRESH, EXPIRED]),
    token=st.sampled_from(["t", "older"]),
    reported=st.none() | st.sampled_from(ReportState),
    cause=st.sampled_from(EndCause),
)
def test_every_repair_is_a_legal_step_and_the_end_is_reached(state, lease, token, reported, cause):
    job = known(state, lease=lease)
    reports = [] if reported is None else [report(reported, token=token, cause=cause)]

    repairs = decide([job], reports)

    for record in repairs.records:
        assert record.state in JOB_STATES.arrows[state]
        assert record.token == job.token
    assert len(repairs.records) + len(repairs.restart) <= 1
    assert not set(repairs.stop) & set(repairs.forget)
    if reports and reported not in {ReportState.STARTING, ReportState.RUNNING} and state in JOB_STATES.final:
        assert repairs.forget == ("train",)


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
