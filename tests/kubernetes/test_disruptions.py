"""What a real control plane does to pods of others: it evicts them, its scheduler preempts them, its nodes are cordoned."""

import secrets
from dataclasses import replace

import pytest

from compute.engine.ports import ReportState
from compute.engine.reconcile import explain_end
from compute.engine.states import JobState, ReasonCode
from tests.kubernetes import manifests
from tests.kubernetes.kwok import add_node, gpu_node
from tests.kubernetes.place import open_place


@pytest.fixture
def place(cluster, agents, tmp_path):
    with open_place(cluster, tmp_path) as place:
        yield place


@pytest.fixture
def node(cluster):
    """A simulated node of 64 cores."""
    name = f"simulated-{secrets.token_hex(4)}"
    add_node(cluster, gpu_node(name))
    yield name
    cluster.api.delete(f"/api/v1/nodes/{name}")


def make_endless(place, name, node, cpu_millicores=40_000):
    launch = place.make(name, "true", env={"SIMULATED_END": "never"})
    return replace(launch, node_name=node, cpu_millicores=cpu_millicores)


def test_a_pod_that_is_evicted_says_so(place):
    place.start_endless("train")
    place.wait_for("train", ReportState.RUNNING)

    path = place.path("train")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": path.rpartition("/")[2]}}
    place.cluster.api.create(f"{path}/eviction", {**eviction, "deleteOptions": {"gracePeriodSeconds": 1}})
    report = place.wait_for_end("train")

    assert explain_end(report) == (
        JobState.FAILED,
        ReasonCode.EVICTED,
        f"It was evicted from {place.cluster.node.name}, as when the node is drained. Eviction API: evicting.",
    )


def test_a_pod_that_the_scheduler_preempts_says_so(place, node):
    place.start(make_endless(place, "train", node))
    place.wait_for("train", ReportState.RUNNING)

    api, urgent = place.cluster.api, f"urgent-{secrets.token_hex(4)}"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.create(classes, {"metadata": {"name": urgent}, "value": 1000})
    namespace = place.cluster.create_namespace(urgent)
    greedy = manifests.container("true", resources={"requests": {"cpu": "40"}})
    where = {"priorityClassName": urgent, "nodeSelector": {"kubernetes.io/hostname": node}}
    api.create(f"/api/v1/namespaces/{namespace}/pods", manifests.pod(greedy, **where))
    report = place.wait_for_end("train")
    api.delete(f"{classes}/{urgent}")

    sentence = (
        f"A pod of a higher priority took its place on {node}. default-scheduler: preempting to accommodate a higher "
        "priority pod."
    )
    assert explain_end(report) == (JobState.FAILED, ReasonCode.PREEMPTED, sentence)


def test_a_cordoned_node_takes_no_jobs_and_its_own_go_on(place, node):
    place.start(make_endless(place, "before", node, 1000))
    place.wait_for("before", ReportState.RUNNING)

    place.cluster.kubectl("cordon", node)
    ready = {fact.name: fact.is_ready for fact in place.driver.probe()}
    place.start(make_endless(place, "after", node, 1000))
    waiting = place.wait_for_reason("after", lambda reason: "unschedulable" in reason)

    assert ready[node] is False
    assert waiting.state is ReportState.STARTING
    assert waiting.reason.startswith("The cluster does not place its pod yet: 0/")
    assert place.report("before").state is ReportState.RUNNING

    place.cluster.kubectl("uncordon", node)
    place.wait_for("after", ReportState.RUNNING)
