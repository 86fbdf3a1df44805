"""Jobs ask for slices of GPUs (MIG), which the nodes of a cluster offer by their profiles: real pods on a real kubelet."""

import json
from urllib.error import HTTPError

import pytest

from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.exporter import export_metrics

SLICES = "nvidia.com/mig-1g.10gb"
LOOK = "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 600"


def test_each_job_gets_a_slice_of_its_profile_and_one_that_no_node_offers_is_refused(cluster, agents, tmp_path):
    with (
        cluster.node.gpus("MIG-a", "MIG-b", resource=SLICES),
        attached_product(cluster, tmp_path, agents) as (product, namespace),
    ):
        product.api("POST", "/projects", {"name": "demo"})

        def submit(name, profile):
            wanted = {"project": "demo", "template": "lab-k8s.small", "name": name, "command": LOOK}
            return product.api("POST", "/compute/jobs", {**wanted, "mig_profile": profile})

        def wait_for(name, state):
            return product.wait_for(
                lambda: product.api("GET", f"/compute/jobs/{name}"), lambda job: job["state"] == state
            )

        def log_of(name):
            return product.wait_for(lambda: product.api("GET", f"/compute/jobs/{name}/log"), lambda log: log["text"])[
                "text"
            ]

        (node,) = product.api("GET", "/scheduler/nodes?resource=lab-k8s")["items"]
        assert (node["mig"], node["gpus"]) == ({"1g.10gb": 2}, [])
        for name in ("one", "two", "three"):
            submit(name, "1g.10gb")
        first, second = wait_for("one", "running"), wait_for("two", "running")

        assert {log_of("one"), log_of("two")} == {"MIG-a\n", "MIG-b\n"}
        assert (first["slices"], second["slices"]) == (["1g.10gb"], ["1g.10gb"])
        pods = f"/api/v1/namespaces/{namespace}/pods"
        (pod,) = cluster.api.list(pods, labelSelector=f"nearline.dev/job={first['id']}")
        (main,) = pod["spec"]["containers"]
        assert main["resources"]["limits"][SLICES] == "1"
        metrics = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.37, "DCGM_FI_DEV_FB_USED": 5}
        export_metrics(cluster, namespace, second["id"], metrics, gpu="0", GPU_I_PROFILE="1g.10gb", GPU_I_ID="7")
        waiting = product.wait_for(lambda: product.api("GET", "/compute/jobs/three"), lambda job: job["reason"])
        assert waiting["state"] == "pending"

        product.api("POST", "/compute/jobs/one/cancel")
        wait_for("three", "running")

        with pytest.raises(HTTPError) as refused:
            submit("four", "2g.20gb")
        sentence = "No node of lab-k8s can give a slice 2g.20gb of a GPU to such a job."
        assert json.loads(refused.value.read())["title"] == sentence

        used = product.wait_for(lambda: product.api("GET", "/compute/jobs/two/usage")["items"], bool)
        assert (used[0]["gpu_percent"], used[0]["gpu_memory_used_bytes"]) == (37, 5 * 2**20)
