"""A node that vanishes, or only seems to: its job is given up once nothing of it can run any more, and not before."""

import pytest

from compute.engine.ports import EndCause, ReportState
from compute.engine.reconcile import explain_end
from compute.engine.states import JobState, ReasonCode
from tests.kubernetes.agent_image import write_agent_image
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.place import open_place
from tests.kubernetes.programs import missing_for_node

pytestmark = pytest.mark.skipif(bool(missing_for_node()), reason=missing_for_node())


@pytest.fixture(scope="module")
def broken_cluster(tmp_path_factory):
    """A cluster that gives a node up sooner than most; the tests of this module take its node away."""
    with running_cluster(node_grace_s=20) as cluster:
        cluster.node.import_image(write_agent_image(tmp_path_factory.mktemp("image")))
        yield cluster


@pytest.fixture
def place(broken_cluster, tmp_path):
    with open_place(broken_cluster, tmp_path) as place:
        yield place


def wait_until_lost(place):
    """Wait until the cluster says that the pod of `train` is not ready, as its node does not answer."""

    def is_not_ready(pod):
        conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
        return conditions["Ready"] == "False"

    place.cluster.api.wait(place.path("train"), is_not_ready)


def is_lost(reason):
    return "does not answer the cluster. The job may still run there" in reason


def test_a_job_behind_a_broken_network_is_neither_given_up_nor_started_again(place):
    launch = place.start_endless("train")
    before = place.wait_for_reason("train", lambda reason: not reason)

    place.cluster.node.kill_kubelet()
    wait_until_lost(place)
    lost = place.wait_for_reason("train", is_lost)
    place.driver.start(launch)

    assert before.state is ReportState.RUNNING
    assert (lost.state, lost.started_at) == (ReportState.RUNNING, before.started_at)
    assert len(place.cluster.api.list(f"/api/v1/namespaces/{place.namespace}/pods")) == 1

    place.cluster.node.start_kubelet()
    assert place.wait_for_reason("train", lambda reason: not reason) == before


def test_a_job_whose_node_lost_its_power_has_ended_once_the_cluster_gives_the_node_up(place):
    place.start_endless("train")
    place.wait_for("train", ReportState.RUNNING)

    place.cluster.node.kill()
    wait_until_lost(place)
    assert place.wait_for_reason("train", is_lost).state is ReportState.RUNNING

    taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    place.cluster.kubectl("taint", "node", place.cluster.node.name, taint)
    report = place.wait_for_end("train")

    assert (report.state, report.cause) == (ReportState.FAILED, EndCause.NODE_LOST)
    assert explain_end(report)[:2] == (JobState.LOST, ReasonCode.NODE_LOST)
