"""What is reported about a job whose pod says this or that."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from compute.adapters.kubernetes import fields, states
from compute.adapters.kubernetes.states import Verdict
from compute.engine.ports import EndCause, JobReport, ReportState
from compute.engine.reconcile import explain_end
from compute.engine.states import JobState, ReasonCode

CREATED, STARTED, FINISHED = "2026-11-21T12:00:00Z", "2026-11-21T12:00:10Z", "2026-11-21T12:01:00Z"
NOW = datetime(2026, 11, 21, 13, tzinfo=UTC)
KEPT = {"name": "keep", "state": {"terminated": {"exitCode": 0, "message": json.dumps({"root": "r1"})}}}
RUNS = {"name": "main", "state": {"running": {"startedAt": STARTED}}}


def ended(code=0, **facts):
    state = {"exitCode": code, "startedAt": STARTED, "finishedAt": FINISHED, **facts}
    return {"name": "main", "state": {"terminated": state}}


def waits(reason, message=""):
    return {"name": "main", "image": "lab/train:1", "state": {"waiting": {"reason": reason, "message": message}}}


def condition(kind, status="True", reason="", message="", at=STARTED):
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def make_pod(phase="Running", main=None, *, init=(), conditions=(), verdict=None, meta=None, node="node-1", **status):
    annotations = {"nearline.dev/name": "train~2", "nearline.dev/token": "t"}
    if verdict is not None:
        annotations["nearline.dev/verdict"] = verdict.to_json()
    pod = {
        "metadata": {
            "name": "nl-train",
            "uid": "u",
            "creationTimestamp": CREATED,
            "annotations": annotations,
            **(meta or {}),
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "initContainerStatuses": list(init),
            "containerStatuses": [main] if main else [],
            "conditions": list(conditions),
            **status,
        },
    }
    return fields.trim(pod, fields.OURS)


DELETED = {"deletionTimestamp": FINISHED}


def test_a_pod_whose_command_runs_is_a_running_job():
    report = states.report_of(make_pod(main=RUNS))

    started_at = datetime(2026, 11, 21, 12, 0, 10, tzinfo=UTC)
    assert report == JobReport("train~2", "t", ReportState.RUNNING, started_at=started_at)


def test_a_pod_whose_command_ended_runs_until_its_output_is_sent():
    assert states.report_of(make_pod(main=ended())).state is ReportState.RUNNING


def test_a_job_has_succeeded_when_its_output_is_stored():
    report = states.report_of(make_pod("Succeeded", ended(), init=[KEPT]))

    assert (report.state, report.exit_code, report.cause) == (ReportState.SUCCEEDED, 0, EndCause.EXITED)
    assert report.finished_at - report.started_at == timedelta(seconds=50)


def test_a_pod_that_somebody_else_deletes_runs_until_it_has_ended_and_says_so():
    report = states.report_of(make_pod(main=RUNS, meta=DELETED))
    stopped_by_us = states.report_of(make_pod(main=RUNS, meta=DELETED, verdict=Verdict(EndCause.STOPPED)))

    assert (report.state, report.reason) == (
        ReportState.RUNNING,
        "Its pod was deleted on the cluster, not by Nearline, and ends now.",
    )
    assert (stopped_by_us.state, stopped_by_us.reason) == (ReportState.RUNNING, "")


def test_a_deleted_pod_on_a_node_that_does_not_answer_runs():
    assert states.report_of(make_pod(main=RUNS, meta=DELETED)).state is ReportState.RUNNING


LOST = condition("Ready", "False")
FORCED = {"deletionTimestamp": FINISHED, "deletionGracePeriodSeconds": 0}


def test_a_pod_whose_node_does_not_answer_runs_as_far_as_anybody_knows_and_says_so():
    report = states.report_of(make_pod(main=RUNS, conditions=[LOST]))

    assert report.state is ReportState.RUNNING
    assert report.reason == (
        "The node node-1 does not answer the cluster. The job may still run there, so it is started again only when "
        "the cluster has given the node up, or its pod was removed by force."
    )


def test_a_pod_that_is_removed_by_force_from_a_node_that_answers_runs_until_the_node_says_otherwise():
    report = states.report_of(make_pod(main=RUNS, conditions=[condition("Ready")], meta=FORCED))

    assert report.state is ReportState.RUNNING


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod("Pending", node=None), "The cluster has yet to place its pod."),
        (make_pod("Pending", waits("ContainerCreating")), "The node prepares the pod."),
        (
            make_pod("Pending", waits("PodInitializing"), init=[{"name": "bring", "state": {"running": {}}}]),
            "Code and inputs are brought to the pod.",
        ),
        (
            make_pod("Pending", waits("ImagePullBackOff", "Back-off pulling image")),
            "ImagePullBackOff: Back-off pulling image.",
        ),
        (
            make_pod("Pending", conditions=[condition("PodScheduled", "False", "Unschedulable", "0/1 nodes fit")]),
            "The cluster does not place its pod yet: 0/1 nodes fit.",
        ),
    ],
)
def test_a_pod_that_has_not_begun_says_what_it_waits_for(pod, reason):
    assert states.report_of(pod) == JobReport("train~2", "t", ReportState.STARTING, reason=reason)


DISRUPTED = "DisruptionTarget"
ENDS = {
    "the command fails": (make_pod("Failed", ended(3), init=[KEPT]), EndCause.EXITED, "user_error", ""),
    "the image has no shell": (
        make_pod("Failed", ended(128, reason="StartError", message="exec: sh: not found"), init=[KEPT]),
        EndCause.EXITED,
        "user_error",
        "The command cannot be started in its image: exec: sh: not found.",
    ),
    "out of memory": (
        make_pod("Failed", ended(137, reason="OOMKilled"), init=[KEPT]),
        EndCause.OUT_OF_MEMORY,
        "out_of_memory",
        "",
    ),
    "stopped": (
        make_pod("Failed", ended(143), verdict=Verdict(EndCause.STOPPED), meta=DELETED),
        EndCause.STOPPED,
        "cancelled",
        "",
    ),
    "stopped before it came to a node": (
        make_pod("Pending", verdict=Verdict(EndCause.STOPPED), meta=DELETED, node=""),
        EndCause.STOPPED,
        "cancelled",
        "",
    ),
    "over its timeout": (
        make_pod("Failed", ended(137), verdict=Verdict(EndCause.TIMEOUT), meta=DELETED),
        EndCause.TIMEOUT,
        "timeout",
        "",
    ),
    "no image": (
        make_pod("Failed", verdict=Verdict(EndCause.IMAGE_UNAVAILABLE, "No such image."), meta=DELETED),
        EndCause.IMAGE_UNAVAILABLE,
        "image_unavailable",
        "No such image.",
    ),
    "evicted by its node": (
        make_pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
        EndCause.EVICTED,
        "evicted",
        "The node node-1 evicted it: The node was low on resource: memory.",
    ),
    "drained": (
        make_pod("Failed", ended(143), conditions=[condition(DISRUPTED, reason="EvictionByEvictionAPI", message="x")]),
        EndCause.EVICTED,
        "evicted",
        "It was evicted from node-1, as when the node is drained. x.",
    ),
    "preempted": (
        make_pod(
            "Failed",
            ended(137),
            meta=DELETED,
            conditions=[condition(DISRUPTED, reason="PreemptionByScheduler", message="preempting to admit")],
        ),
        EndCause.PREEMPTED,
        "preempted",
        "A pod of a higher priority took its place on node-1. preempting to admit.",
    ),
    "its node left the cluster": (
        make_pod(
            "Failed",
            RUNS,
            meta=DELETED,
            conditions=[condition(DISRUPTED, reason="DeletionByPodGC", message="PodGC: node no longer exists")],
        ),
        EndCause.NODE_LOST,
        "node_lost",
        "The node node-1 left the cluster. PodGC: node no longer exists.",
    ),
    "removed by force from a node that does not answer": (
        make_pod(main=RUNS, conditions=[LOST], meta=FORCED),
        EndCause.NODE_LOST,
        "node_lost",
        "The node node-1 did not answer any more, and the pod was removed by force.",
    ),
    "deleted by hand": (
        make_pod("Failed", ended(143), meta=DELETED),
        EndCause.DELETED,
        "deleted",
        "Its pod was deleted on the cluster, not by Nearline.",
    ),
    "its output is not stored": (
        make_pod(
            "Succeeded",
            ended(),
            init=[{"name": "keep", "state": {"terminated": {"exitCode": 1, "message": "The platform refuses (401)"}}}],
        ),
        EndCause.OUTPUT_LOST,
        "output_lost",
        "The command succeeded, but its output was not stored: The platform refuses (401).",
    ),
    "its inputs are not brought": (
        make_pod(
            "Failed",
            init=[{"name": "bring", "state": {"terminated": {"exitCode": 1, "message": "No such tree."}}}],
        ),
        EndCause.NOT_STARTED,
        "infrastructure",
        "Its code and inputs could not be brought: No such tree.",
    ),
    "its node refuses it": (
        make_pod("Failed", reason="UnexpectedAdmissionError", message="Pod was rejected"),
        EndCause.NOT_STARTED,
        "infrastructure",
        "Its node did not start it: Pod was rejected.",
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_each_way_to_end_has_its_own_cause_code_and_sentence(case):
    pod, cause, code, reason = ENDS[case]

    report = states.report_of(pod)
    state, reason_code, sentence = explain_end(report)

    assert (report.state, report.cause, report.reason) == (ReportState.FAILED, cause, reason)
    assert report.started_at is None or report.started_at <= report.finished_at
    assert (reason_code, bool(sentence)) == (ReasonCode(code), True)
    assert state is {"cancelled": JobState.CANCELLED, "node_lost": JobState.LOST}.get(code, JobState.FAILED)


NEVER_BEGAN = {
    "no image": make_pod("Failed", waits("ImagePullBackOff"), conditions=[condition("Ready", "False", at=FINISHED)]),
    "no such program": make_pod("Failed", ended(128, reason="StartError", startedAt="1970-01-01T00:00:00Z")),
}


@pytest.mark.parametrize("case", NEVER_BEGAN)
def test_a_job_whose_command_never_began_has_not_run(case):
    assert states.report_of(NEVER_BEGAN[case]).started_at is None


def test_a_job_that_had_stored_its_output_when_it_was_stopped_has_succeeded():
    pod = make_pod("Succeeded", ended(), init=[KEPT], verdict=Verdict(EndCause.STOPPED), meta=DELETED)

    assert states.report_of(pod).state is ReportState.SUCCEEDED


@pytest.mark.parametrize(
    ("keep", "root"),
    [
        (KEPT, "r1"),
        ({"name": "keep", "state": {"terminated": {"exitCode": 0, "message": '{"root": ""}'}}}, ""),
        ({"name": "keep", "state": {"terminated": {"exitCode": 0, "message": "killed"}}}, None),
        ({"name": "keep", "state": {"terminated": {"exitCode": 137, "message": '{"root": "r1"}'}}}, None),
        ({"name": "keep", "state": {"running": {}}}, None),
    ],
)
def test_the_root_of_an_output_is_what_the_agent_says_at_its_end(keep, root):
    assert states.kept_root(make_pod(init=[keep])) == root


TIMED = {"annotations": {"nearline.dev/name": "train", "nearline.dev/token": "t", "nearline.dev/timeout": "60"}}


def test_a_pod_that_is_ended_by_us_has_the_grace_period_of_its_job():
    annotations = {"annotations": {"nearline.dev/name": "train", "nearline.dev/grace-period": "45"}}

    assert states.grace_period_of(make_pod(main=RUNS, meta=annotations)) == 45
    assert states.grace_period_of(make_pod(main=RUNS)) == 10


LATE = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
JUST_NOW = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available", at="2026-11-21T12:59:00Z")
PLACED = condition("PodScheduled", at="2026-11-21T12:59:00Z")
INITIALIZED = condition("Initialized", at="2026-11-21T12:59:00Z")


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        (make_pod(main=RUNS, meta=TIMED), Verdict(EndCause.TIMEOUT)),
        # Its node is an hour late: it was made just now.
        (make_pod(main=RUNS, meta={**TIMED, "creationTimestamp": "2026-11-21T12:59:30Z"}), None),
        (make_pod(main=RUNS), None),
        (make_pod(main=ended(), meta=TIMED), None),
        (
            make_pod("Pending", conditions=[LATE], node=""),
            Verdict(EndCause.UNSCHEDULABLE, "The cluster does not place its pod: 0/1 nodes are available."),
        ),
        (make_pod("Pending", conditions=[JUST_NOW], node=""), None),
        (
            make_pod("Pending", waits("ErrImageNeverPull", "not present"), conditions=[PLACED]),
            Verdict(EndCause.IMAGE_UNAVAILABLE, "The image lab/train:1 cannot be pulled: not present."),
        ),
        (make_pod("Pending", waits("ImagePullBackOff", "Back-off"), conditions=[PLACED]), None),
        (
            make_pod("Pending", waits("ImagePullBackOff", "Back-off"), conditions=[condition("PodScheduled")]),
            Verdict(EndCause.IMAGE_UNAVAILABLE, "The image lab/train:1 cannot be pulled: Back-off."),
        ),
        (
            make_pod("Pending", waits("CreateContainerConfigError", "bad"), conditions=[condition("PodScheduled")]),
            Verdict(EndCause.NOT_STARTED, "Its container cannot be made: bad."),
        ),
        (
            make_pod(
                "Pending",
                init=[{**waits("CrashLoopBackOff", "back-off restarting keep"), "name": "keep"}],
                conditions=[condition("PodScheduled")],
            ),
            Verdict(EndCause.NOT_STARTED, "Its container cannot be made: back-off restarting keep."),
        ),
        # What brings its data took an hour; its image has been asked for since.
        (make_pod("Pending", waits("ErrImagePull", "503"), conditions=[condition("PodScheduled"), INITIALIZED]), None),
        (make_pod("Pending", waits("ErrImageNeverPull"), conditions=[PLACED], meta=DELETED), None),
        (make_pod("Failed", ended(1), meta=TIMED), None),
    ],
)
def test_a_pod_that_cannot_go_on_is_given_up(pod, verdict):
    assert states.judge(pod, NOW) == verdict


def test_a_deleted_pod_whose_command_says_nothing_ended_when_it_was_deleted_and_not_when_its_grace_is_over():
    meta = {"deletionTimestamp": "2026-11-21T12:01:30Z", "deletionGracePeriodSeconds": 30}

    report = states.report_of(make_pod("Failed", conditions=[condition("PodScheduled")], meta=meta))

    assert report.finished_at == datetime.fromisoformat(FINISHED)


def replica(rank, pod, count=3):
    pod["metadata"]["name"] = f"nl-train-{rank}"
    pod["metadata"]["annotations"] |= {"nearline.dev/replica": str(rank), "nearline.dev/replicas": str(count)}
    return pod


STARTS = {"phase": "Pending", "main": waits("PodInitializing")}


def judged(pods, now=NOW):
    return {states.rank_of(pod): verdict for pod, verdict in states.judge_run(pods, now)}


def test_a_gang_whose_pods_are_not_all_made_is_not_there_yet_and_is_given_up_in_the_end():
    pods = [replica(rank, make_pod(**STARTS)) for rank in (0, 1)]

    assert states.report_of_run(pods) is None
    assert judged(pods, datetime.fromisoformat(CREATED) + timedelta(seconds=90)) == {}
    verdict = Verdict(EndCause.NOT_STARTED, "Not all pods of the gang could be made.")
    assert judged(pods) == {0: verdict, 1: verdict}


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(make_pod("Failed", ended(1)), id="failed"),
        pytest.param(make_pod(main=RUNS, meta=DELETED), id="being deleted"),
    ],
)
def test_a_replica_that_is_lost_ends_the_others(lost):
    pods = [replica(0, make_pod(main=RUNS)), replica(1, lost), replica(2, make_pod(**STARTS))]

    stop = Verdict(EndCause.STOPPED, "Replica 1 has ended.")
    assert judged(pods) == {0: stop, 2: stop}
    assert states.report_of_run(pods).state is not ReportState.FAILED


def test_a_pod_of_a_gang_that_is_gone_has_failed():
    pods = [replica(rank, make_pod(main=RUNS)) for rank in (0, 2)]

    assert set(judged(pods)) == {0, 2}
    assert states.report_of_run(pods).replicas[1].reason == "Its pod was removed by force."


def test_pods_behind_the_last_replica_of_an_elastic_gang_begin_and_end_while_the_others_go_on():
    pods = [
        replica(3, make_pod(**STARTS), 2),
        replica(2, make_pod(main=RUNS, meta=DELETED), 3),
        replica(1, make_pod(**STARTS), 2),
        replica(0, make_pod(main=RUNS), 2),
    ]
    for pod in pods:
        pod["metadata"]["annotations"]["nearline.dev/most-replicas"] = "4"

    report = states.report_of_run(pods)
    assert (judged(pods), report.state) == ({}, ReportState.RUNNING)
    assert [each.state for each in report.replicas] == [ReportState.RUNNING, ReportState.STARTING]


def test_once_replica_0_has_succeeded_the_others_have_a_moment_to_end():
    done = make_pod("Succeeded", ended(), init=[KEPT])
    pods = [replica(0, done), replica(1, make_pod("Succeeded", ended())), replica(2, make_pod(main=RUNS))]
    end = datetime.fromisoformat(FINISHED)

    assert judged(pods, end + timedelta(seconds=9)) == {}
    assert judged(pods, end + timedelta(seconds=10)) == {2: Verdict(EndCause.STOPPED, "Replica 0 has ended.")}


def test_of_a_pod_only_what_is_read_is_kept_and_equal_texts_once():
    pod = {**make_pod(main={**RUNS, "containerID": "x"}), "spec": {"volumes": [], "nodeName": "a", "containers": []}}

    first, second = (fields.trim(json.loads(json.dumps(pod)), fields.OURS) for _ in range(2))

    assert first["spec"] == {"nodeName": "a", "containers": []}
    assert first["status"]["containerStatuses"] == [RUNS]
    assert first["status"]["phase"] is second["status"]["phase"]


@pytest.mark.parametrize(
    ("pod", "is_settled"),
    [
        (make_pod(main=RUNS), True),
        (make_pod("Succeeded", ended(), init=[KEPT]), True),
        (make_pod(main=RUNS, init=[waits("CrashLoopBackOff")]), False),
        (make_pod("Pending", waits("ContainerCreating")), False),
        (make_pod(main=RUNS, meta={"annotations": {"nearline.dev/timeout": "60"}}), False),
        (make_pod(main=RUNS, meta={"annotations": {"nearline.dev/replicas": "2"}}), False),
    ],
)
def test_a_run_is_settled_where_no_time_limit_and_no_timeout_can_end(pod, is_settled):
    assert states.is_settled([pod]) is is_settled
