"""How soon the process of a job runs on a cluster, beside `kubectl create` of a Job of the same pod on the same machine.

In turn, `BENCH_ROUNDS` times: by the product; by kubectl the very pod that the product made, with what is ours in it; and by kubectl
the same container alone, as somebody writes it who has no product. Counted is from the moment when it is asked for (the
API call of the product, the command of kubectl, whose own seconds are told) until the user's process reads the clock.
The cluster is one of this machine, as `make kubernetes` runs it.
"""

import json
import os
import time
from contextlib import ExitStack
from itertools import count

from benchmarks.product import Product, median
from tests.folders import open_folder
from tests.kubernetes import agent_image
from tests.kubernetes.attached_product import attach, reachable_product
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.programs import missing_for_node

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "9"))
_COMMAND = "cut -d' ' -f1 /proc/uptime"
_LIMIT_S = 120
_NUMBERS = count()


def main() -> None:
    """Print the median seconds of each way, and what the product takes more."""
    if reason := missing_for_node():
        print(reason)
        return
    with ExitStack() as stack:
        base = stack.enter_context(open_folder())
        cluster = stack.enter_context(running_cluster())
        cluster.node.import_image(agent_image.write_agent_image(base / "agent"))
        product = stack.enter_context(reachable_product(cluster, base / "home"))
        namespace = attach(product, cluster, base, "cluster", agent_image.AGENT_IMAGE)
        shape = {"resource": "cluster", "name": "core", "cpu_millicores": 500, "memory_bytes": 2**28}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "bench"})
        ways = {"the product": [], "kubectl, the same pod": [], "kubectl, its container alone": []}
        created = []
        spec = _start_job(product, cluster, namespace)[1]  # the first one warms all of them
        alone = {key: value for key, value in spec.items() if key not in {"initContainers", "volumes"}}
        alone["containers"] = [{**spec["containers"][0], "volumeMounts": []}]
        print(f"\n{ROUNDS} rounds, load {os.getloadavg()[0]:.1f}\n", flush=True)
        for _ in range(ROUNDS):
            ways["the product"].append(_start_job(product, cluster, namespace)[0])
            for way, pod in (("kubectl, the same pod", spec), ("kubectl, its container alone", alone)):
                took_s, created_s = _start_by_kubectl(cluster, namespace, pod)
                ways[way].append(took_s)
                created.append(created_s)
    ours = median(ways["the product"])
    print("| | until the process runs, s | least, most | the product's more |\n| --- | --- | --- | --- |")
    for way, seconds in ways.items():
        more = ours - median(seconds)
        print(f"| {way} | {median(seconds):.2f} | {min(seconds):.2f}, {max(seconds):.2f} | {more:+.2f} |")
    print(f"\nkubectl itself took {median(created):.2f} s of its")


def _start_job(product: Product, cluster: Cluster, namespace: str) -> tuple[float, dict]:
    """Start a job; return the seconds until its process ran, and the spec of its pod."""
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    asked = {"project": "bench", "command": _COMMAND, "template": "cluster.core"}
    name = product.api("POST", "/compute/jobs", asked)["name"]
    job = product.wait_for(
        lambda: product.api("GET", f"/compute/jobs/{name}"),
        lambda job: job["state"] in {"succeeded", "failed"},
        limit_s=_LIMIT_S,
    )
    if job["state"] == "failed":
        raise SystemExit(str(job))
    took_s = float(product.api("GET", f"/compute/jobs/{name}/log")["text"].split()[0]) - began
    pods = cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
    (pod,) = (pod for pod in pods if pod["metadata"].get("annotations", {}).get("nearline.dev/name") == name)
    return took_s, {key: value for key, value in pod["spec"].items() if key != "nodeName"}


def _start_by_kubectl(cluster: Cluster, namespace: str, spec: dict) -> tuple[float, float]:
    """Create a Job of such a pod; return the seconds until its process ran, and those of kubectl itself."""
    name = f"by-hand-{next(_NUMBERS)}"
    template = {"spec": spec}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    job["spec"] = {"backoffLimit": 0, "template": template}
    manifest = json.dumps(job)
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    cluster.kubectl("-n", namespace, "create", "-f", "-", manifest=manifest)
    created = time.clock_gettime(time.CLOCK_BOOTTIME)
    main = spec["containers"][0]["name"]
    deadline = time.monotonic() + _LIMIT_S
    while True:
        pods = cluster.api.list(f"/api/v1/namespaces/{namespace}/pods")
        mine = [pod for pod in pods if pod["metadata"].get("labels", {}).get("job-name") == name]
        states = [each["state"] for pod in mine for each in pod["status"].get("containerStatuses", [])]
        if any("terminated" in state for state in states):
            break
        if time.monotonic() > deadline:
            raise SystemExit(str(mine))
        time.sleep(0.1)
    log = cluster.kubectl("-n", namespace, "logs", mine[0]["metadata"]["name"], "-c", main)
    cluster.kubectl("-n", namespace, "delete", "job", name, "--wait=true", "--grace-period=1")
    return float(log.split()[0]) - began, created - began


if __name__ == "__main__":
    main()
