"""Jobs share a GPU of a cluster: real pods on a real kubelet, whose device plugin gives a GPU that is none."""

import pytest

from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.exporter import export_metrics

SHARE = "echo $NVIDIA_VISIBLE_DEVICES $NEARLINE_GPU_FRACTION $NEARLINE_GPU_CAP $NEARLINE_GPU_LIMIT; exec sleep 600"
RESERVATIONS = "nearline.dev/reserves=gpu"


@pytest.fixture
def attached(cluster, agents, tmp_path):
    with cluster.node.gpus("GPU-7"), attached_product(cluster, tmp_path, agents) as (product, namespace):
        shape = {"resource": "lab-k8s", "name": "half", "cpu_millicores": 50, "memory_bytes": 2**26, "gpu_milli": 500}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "demo"})
        yield product, namespace


def test_two_jobs_share_a_gpu_a_third_one_waits_for_its_part_and_the_last_one_gives_it_back(cluster, attached):
    product, namespace = attached
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def submit(name, command=SHARE, template="half", **more):
        wanted = {"project": "demo", "template": f"lab-k8s.{template}", "name": name, "command": command}
        product.api("POST", "/compute/jobs", wanted | more)

    def wait_for(name, *states):
        return product.wait_for(lambda: product.api("GET", f"/compute/jobs/{name}"), lambda job: job["state"] in states)

    def log_of(name):
        read = product.wait_for(lambda: product.api("GET", f"/compute/jobs/{name}/log"), lambda log: log["text"])
        return read["text"]

    def reservations():
        return [pod["metadata"]["uid"] for pod in cluster.api.list(pods, labelSelector=RESERVATIONS)]

    submit("one")
    submit("two", gpu_limit_milli=800)
    submit("three", "true")
    first, second = wait_for("one", "running"), wait_for("two", "running")

    assert (first["gpus"], second["gpus"]) == ([[0, 500]], [[0, 500]])
    assert (log_of("one"), log_of("two")) == ("GPU-7 0.5 uncapped\n", "GPU-7 0.5 uncapped 0.8\n")
    assert (second["gpu_cap"], second["gpu_limit_milli"]) == ("uncapped", 800)
    waiting = product.wait_for(lambda: product.api("GET", "/compute/jobs/three"), lambda job: job["outlook"])
    assert waiting["state"] == "pending"
    assert waiting["outlook"]["text"].startswith(
        "This job is beyond the share of its project (demo holds 1 GPU and would hold 1.5 with this job, but its "
        "fair share is 1 and its quota 0) and waits for 0.5 GPUs"
    )
    (reserved,) = reservations()

    product.kill()
    selector = f"nearline.dev/job={first['id']}"
    cluster.kubectl("-n", namespace, "delete", "pod", "--selector", selector, "--wait=false", "--grace-period=1")
    product.start()
    wait_for("one", "failed")
    wait_for("three", "succeeded")

    assert reservations() == [reserved]

    product.api("POST", "/compute/jobs/two/cancel")
    wait_for("two", "cancelled")
    product.wait_for(reservations, lambda left: left == [])
    shape = {"resource": "lab-k8s", "name": "whole", "cpu_millicores": 50, "memory_bytes": 2**26, "gpu_milli": 1000}
    product.api("POST", "/compute/templates", shape)
    submit("whole", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 600", "whole")
    whole = wait_for("whole", "running")

    assert (log_of("whole"), whole["gpu_cap"]) == ("GPU-7\n", "")
    assert product.api("GET", "/compute/jobs/whole/usage")["items"] == []

    metrics = {"DCGM_FI_DEV_GPU_UTIL": 37, "DCGM_FI_DEV_FB_USED": 5}
    export_metrics(cluster, namespace, whole["id"], metrics, gpu="0", UUID="GPU-7")
    used = product.wait_for(lambda: product.api("GET", "/compute/jobs/whole/usage")["items"], bool)
    assert {name: used[0][name] for name in ("cpu_millicores", "gpu_percent", "gpu_memory_used_bytes")} == {
        "cpu_millicores": None,
        "gpu_percent": 37,
        "gpu_memory_used_bytes": 5 * 2**20,
    }

    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    cluster.api.create(quotas, quota)
    cluster.api.wait(f"{quotas}/none", lambda found: found.get("status", {}).get("hard"))  # it bounds nothing before
    product.api("POST", "/compute/jobs/whole/cancel")
    submit("four", "true")
    refused = wait_for("four", "failed")
    assert (refused["reason_code"], refused["reason"][:59]) == (
        "quota_exceeded",
        'The GPU that it shares could not be reserved. pods "nl-gpu-',
    )
    assert "exceeded quota: none" in refused["reason"]
