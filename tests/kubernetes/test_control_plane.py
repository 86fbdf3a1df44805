"""The control plane with simulated nodes behaves as a cluster does, as far as a client of the API sees."""

import json
import secrets
import subprocess

import pytest

from tests.kubernetes import manifests
from tests.kubernetes.kwok import add_node, gpu_node
from tests.kubernetes.programs import TOOLS


@pytest.fixture
def gpu_nodes(control_plane):
    """Two simulated nodes with eight GPUs each, there for one test."""
    names = [f"gpu-{secrets.token_hex(3)}" for _ in range(2)]
    for name in names:
        add_node(control_plane, gpu_node(name))
    yield names
    for name in names:
        control_plane.api.delete(f"/api/v1/nodes/{name}")


def simulated(*, gpus: int = 0, **environment: str) -> dict:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    variables = [{"name": name, "value": value} for name, value in environment.items()]
    return manifests.pod(manifests.container(env=variables, resources={"limits": limits}))


def pod_of(control_plane, namespace: str) -> dict:
    (pod,) = control_plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return pod


def test_the_server_is_of_the_version_that_was_built(control_plane):
    built = (TOOLS / "kube-apiserver").readlink().name.removeprefix("kube-apiserver-")

    assert control_plane.api.get("/version")["gitVersion"] == built


def test_kubectl_works_in_the_namespace_of_the_tests(control_plane):
    shown = json.loads(control_plane.kubectl("get", "serviceaccounts", "--output=json"))

    assert [item["metadata"]["name"] for item in shown["items"]] == ["default"]
    assert shown["items"][0]["metadata"]["namespace"] == control_plane.namespace


def test_a_job_that_asks_for_gpus_completes_on_a_simulated_node(control_plane, namespace, gpu_nodes):
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    control_plane.api.create(jobs, manifests.job(simulated(gpus=2)))

    finished = control_plane.api.wait(f"{jobs}/main", manifests.end_of)

    assert manifests.end_of(finished) == "Complete"
    pod = pod_of(control_plane, namespace)
    assert pod["spec"]["nodeName"] in gpu_nodes
    assert manifests.terminated(pod)["exitCode"] == 0


def test_a_simulated_job_ends_as_its_environment_says(control_plane, namespace, gpu_nodes):
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    control_plane.api.create(jobs, manifests.job(simulated(SIMULATED_END="OOMKilled", SIMULATED_EXIT_CODE="137")))

    finished = control_plane.api.wait(f"{jobs}/main", manifests.end_of)

    assert manifests.end_of(finished) == "Failed"
    terminated = manifests.terminated(pod_of(control_plane, namespace))
    assert (terminated["reason"], terminated["exitCode"]) == ("OOMKilled", 137)


def test_a_simulated_pod_runs_as_long_as_its_environment_says(control_plane, namespace, gpu_nodes):
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    control_plane.api.create(jobs, manifests.job(simulated(SIMULATED_RUN_TIME="2s")))

    finished = control_plane.api.wait(f"{jobs}/main", manifests.end_of)

    assert manifests.end_of(finished) == "Complete"
    terminated = manifests.terminated(pod_of(control_plane, namespace))
    assert terminated["finishedAt"] > terminated["startedAt"]


def test_a_simulated_pod_that_never_ends_runs_until_it_is_deleted(control_plane, namespace, gpu_nodes):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.api.create(pods, simulated(SIMULATED_END="never"))
    control_plane.api.wait(f"{pods}/main", lambda pod: pod["status"]["phase"] == "Running")

    control_plane.api.delete(f"{pods}/main")

    control_plane.api.wait_until_gone(f"{pods}/main")


def test_a_simulated_image_cannot_be_pulled(control_plane, namespace, gpu_nodes):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.api.create(pods, simulated(SIMULATED_WAIT="ImagePullBackOff"))

    waiting = control_plane.api.wait(f"{pods}/main", lambda pod: pod["status"].get("containerStatuses"))

    assert waiting["status"]["phase"] == "Pending"
    assert waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"


def test_a_job_that_no_node_can_hold_stays_unschedulable(control_plane, namespace, gpu_nodes):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.api.create(pods, simulated(gpus=9))

    # Before the scheduler has heard that the nodes are ready it gives another reason.
    pending = control_plane.api.wait(f"{pods}/main", lambda pod: "Insufficient nvidia.com/gpu" in why_pending(pod))

    (condition,) = pending["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


def why_pending(pod: dict) -> str:
    return "".join(condition.get("message", "") for condition in pod["status"].get("conditions") or ())


def test_a_lost_node_is_marked_unreachable(control_plane, gpu_nodes):
    path = f"/api/v1/nodes/{gpu_nodes[0]}"
    control_plane.api.patch(path, {"metadata": {"annotations": {"nearline.test/state": "lost"}}})

    # It has several taints, which come one by one.
    control_plane.api.wait(path, lambda node: ("node.kubernetes.io/unreachable", "NoSchedule") in taints_of(node))


def taints_of(node: dict) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ()}


def test_a_service_account_without_a_role_is_refused(control_plane, namespace, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(control_plane.kubeconfig_of("default", namespace=namespace))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        control_plane.kubectl(f"--kubeconfig={kubeconfig}", "get", "pods", f"--namespace={namespace}")

    user = f"system:serviceaccount:{namespace}:default"
    assert f'pods is forbidden: User "{user}" cannot list resource "pods"' in refused.value.stderr
