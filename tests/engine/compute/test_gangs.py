"""What the replicas of a gang are told about each other, and what their reports say about their job."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.engine.gangs import join_reports, launcher_variables, rank_variables, worker_variables, write_hostfile
from compute.engine.ports import EndCause, JobReport, ReplicaReport, ReportState
from compute.engine.reconcile import explain_end
from compute.engine.states import JobState, ReasonCode

HOSTS = ["replica-0.ring", "replica-1.ring"]
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def report(state, *, ended_s=None, **facts):
    finished_at = None if ended_s is None else NOON + timedelta(seconds=ended_s)
    started_at = None if state is ReportState.STARTING else NOON
    return JobReport("ring", "t", state, started_at=started_at, finished_at=finished_at, **facts)


def failed(cause=EndCause.EXITED, *, ended_s, **facts):
    return report(ReportState.FAILED, cause=cause, ended_s=ended_s, **facts)


RUNS, STARTS = report(ReportState.RUNNING), report(ReportState.STARTING)
DONE = report(ReportState.SUCCEEDED, ended_s=9, exit_code=0)


def test_each_replica_is_told_its_rank_and_where_the_first_one_is():
    variables = rank_variables(1, HOSTS, gpus=0, hostfile="/nearline/hostfile")

    assert {name: variables[name] for name in ("RANK", "NODE_RANK", "LOCAL_RANK", "PET_NODE_RANK")} == {
        "RANK": "1",
        "NODE_RANK": "1",
        "LOCAL_RANK": "0",
        "PET_NODE_RANK": "1",
    }
    assert [variables[name] for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NEARLINE_HOSTFILE")] == [
        "2",
        "replica-0.ring",
        "29500",
        "/nearline/hostfile",
    ]


def test_with_several_gpus_a_launcher_starts_as_many_processes_and_sets_their_local_ranks():
    variables = rank_variables(0, HOSTS, gpus=4, hostfile="/nearline/hostfile")

    assert variables["PET_NPROC_PER_NODE"] == "4"
    assert "LOCAL_RANK" not in variables
    assert write_hostfile(HOSTS, gpus=4) == "replica-0.ring slots=4\nreplica-1.ring slots=4\n"


def test_torchrun_is_told_the_bounds_of_an_elastic_gang_and_where_its_replicas_meet_anew():
    variables = rank_variables(1, HOSTS, gpus=1, hostfile="/nearline/hostfile", bounds=(1, 4))

    assert {name: value for name, value in variables.items() if name.startswith("PET_")} == {
        "PET_NNODES": "1:4",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "replica-0.ring:29500",
        "PET_RDZV_ID": "nearline",
        "PET_RDZV_CONF": "is_host=0",
        "PET_LOCAL_ADDR": "replica-1.ring",
        "PET_MAX_RESTARTS": "10",
        "PET_NPROC_PER_NODE": "1",
    }
    assert variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_a_launcher_knows_the_workers_and_is_none_of_them():
    workers = ["worker-0.ring", "worker-1.ring"]

    launcher = launcher_variables(workers, gpus=2, hostfile="/nearline/hostfile")
    last = worker_variables(1, workers, gpus=2, hostfile="/nearline/hostfile")

    assert [launcher[name] for name in ("WORLD_SIZE", "MASTER_ADDR", "NEARLINE_REPLICA", "NEARLINE_REPLICAS")] == [
        "2",
        "worker-0.ring",
        "0",
        "3",
    ]
    assert launcher["OMPI_MCA_orte_default_hostfile"] == "/nearline/hostfile"
    assert not {name for name in launcher if name == "RANK" or name.startswith("PET_")}
    assert [last[name] for name in ("RANK", "WORLD_SIZE", "NEARLINE_REPLICA", "NEARLINE_REPLICAS")] == [
        "1",
        "2",
        "2",
        "3",
    ]


def test_a_gang_fails_as_its_launcher_does():
    stopped = failed(EndCause.STOPPED, exit_code=-15, ended_s=12)

    joined = join_reports([failed(exit_code=3, ended_s=9), stopped, stopped])

    assert (joined.state, joined.replica, joined.exit_code) == (ReportState.FAILED, 0, 3)


def test_an_elastic_gang_runs_while_another_replica_starts():
    joined = join_reports([RUNS, STARTS], is_elastic=True)

    assert (joined.state, [each.state for each in joined.replicas]) == (
        ReportState.RUNNING, [ReportState.RUNNING, ReportState.STARTING]
    )  # fmt: skip
    assert join_reports([STARTS, RUNS], is_elastic=True).state is ReportState.STARTING


def test_a_gang_starts_until_all_replicas_run():
    starting = join_reports([RUNS, report(ReportState.STARTING, reason="The node prepares the pod.")])

    assert (starting.state, starting.started_at) == (ReportState.STARTING, None)
    assert starting.reason == "Replica 1: The node prepares the pod."
    assert join_reports([RUNS, RUNS]).state is ReportState.RUNNING


def test_a_gang_runs_until_the_last_replica_has_ended():
    running = join_reports([DONE, RUNS])

    assert (running.state, running.exit_code, running.finished_at) == (ReportState.RUNNING, None, None)
    assert running.replicas == (ReplicaReport(ReportState.SUCCEEDED), ReplicaReport(ReportState.RUNNING))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(DONE, id="it succeeds as well"),
        pytest.param(failed(EndCause.STOPPED, ended_s=20), id="it is stopped afterwards"),
        pytest.param(failed(exit_code=1, ended_s=9), id="it loses the first one"),
    ],
)
def test_a_gang_has_succeeded_when_replica_0_has(other):
    assert join_reports([DONE, other]).state is ReportState.SUCCEEDED


def test_a_replica_that_fails_before_replica_0_succeeds_fails_the_gang():
    joined = join_reports([DONE, failed(exit_code=3, ended_s=5)])

    assert (joined.state, joined.replica, joined.exit_code) == (ReportState.FAILED, 1, 3)
    assert explain_end(joined) == (
        JobState.FAILED,
        ReasonCode.USER_ERROR,
        "Replica 1: The command exited with code 3.",
    )


@pytest.mark.parametrize(
    ("reports", "rank"),
    [
        pytest.param([failed(EndCause.STOPPED, ended_s=1), failed(ended_s=5)], 1, id="an exit before a stop"),
        pytest.param([failed(ended_s=1), failed(EndCause.NODE_LOST, ended_s=9)], 1, id="a lost node before an exit"),
        pytest.param([failed(ended_s=4), failed(ended_s=3)], 1, id="the first one that failed"),
        pytest.param([failed(ended_s=3), failed(ended_s=3)], 0, id="the lowest rank"),
    ],
)
def test_the_end_of_a_gang_is_explained_by_the_replica_that_caused_it(reports, rank):
    joined = join_reports(reports)

    assert (joined.replica, joined.finished_at) == (rank, max(report.finished_at for report in reports))
