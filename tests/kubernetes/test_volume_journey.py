"""The product with an attached cluster and a storage class, from the command line: a commit is cached on a claim, a
flow reads it in a pod of this namespace or of another one, and what nobody uses leaves the cluster."""

import secrets
from pathlib import Path

import pytest

from tests.kubernetes.attached_product import attach, attached_product
from tests.kubernetes.provisioner import STORAGE_CLASS

FLOW = """
flow: count
steps:
  - name: train
    command: |
      cat $NEARLINE_DATA/pictures/label.txt
      if touch $NEARLINE_DATA/pictures/mine 2>&1; then echo writable; else echo read-only; fi
      cp $NEARLINE_DATA/pictures/label.txt $NEARLINE_OUTPUT/seen.txt
    data: [{dataset: demo/pictures@main, cached: true}]
    compute: [RESOURCE.small]
"""


@pytest.fixture
def attached(cluster, agents, trident, tmp_path):
    """A product with a cluster attached as `lab-k8s` by a storage class, and a dataset of one commit in `work/`."""
    volumes = ["--storage-class", STORAGE_CLASS, "--cache-size", "20GB"]
    with attached_product(cluster, tmp_path, agents, *volumes) as (product, namespace):
        product.api("POST", "/projects", {"name": "demo"})
        yield Attached(product, cluster, namespace, tmp_path / "work")


class Attached:
    """The product, and where its claims are."""

    def __init__(self, product, cluster, namespace, work: Path) -> None:
        self.product, self.cluster, self.namespace, self.work = product, cluster, namespace, work
        self.pictures = work / "pictures"
        self.pictures.mkdir(parents=True)
        (self.work / "flow").mkdir()
        for number in range(20):
            (self.pictures / f"{number}.bin").write_bytes(secrets.token_bytes(50_000))
        product.cli("data", "init", "--project", "demo", cwd=self.pictures)

    def commit(self, label: str) -> None:
        (self.pictures / "label.txt").write_text(f"{label}\n")
        self.product.cli("data", "sync", cwd=self.pictures)

    def request_cache(self) -> str:
        """Click, and return the id of the cached commit."""
        answer = self.product.api("POST", "/datasets/demo/pictures/commits/main/cache", {"site": "lab-k8s"})
        return answer["id"]

    def copy(self, id_: str) -> dict:
        return self.product.api("GET", f"/cache/commits/{id_}")

    def wait_until(self, id_: str, *states: str) -> dict:
        return self.product.wait_for(lambda: self.copy(id_), lambda copy: copy["state"] in states, limit_s=600)

    def run(self, resource: str = "lab-k8s") -> dict:
        (self.work / "flow/flow.yaml").write_text(FLOW.replace("RESOURCE", resource))
        return self.product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=self.work / "flow")

    def objects(self, kind: str) -> list[str]:
        group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        items = self.cluster.api.list(f"{group}/namespaces/{self.namespace}/{kind}")
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("nl-cc-")]


def test_a_commit_is_cached_on_a_claim_read_by_pods_and_evicted(attached, trident, agents):
    attached.commit("first")
    product = attached.product

    first = attached.wait_until(attached.request_cache(), "ready", "failed")
    run = attached.run()

    assert (first["state"], first["error"]) == ("ready", None)
    assert run["state"] == "succeeded"
    job = product.api("GET", "/compute/jobs")["items"][0]
    log = product.wait_for(lambda: product.api("GET", f"/compute/jobs/{job['name']}/log"), lambda log: log["is_stored"])
    assert log["text"].splitlines()[0] == "first"
    assert log["text"].splitlines()[-1] == "read-only"

    attached.commit("second")
    second = attached.wait_until(attached.request_cache(), "ready", "failed")

    assert (second["state"], second["error"]) == ("ready", None)
    assert second["bytes_shared"] >= 1_000_000
    assert second["bytes_moved"] < 100_000
    team = attach(product, attached.cluster, attached.work, "team-b", agents)
    product.cli("compute", "sites", "team-b", "lab-k8s", cwd=attached.work)
    assert attached.run("team-b")["state"] == "succeeded"
    assert len(attached.objects("persistentvolumeclaims")) == 2

    product.api("PATCH", "/cache/sites/lab-k8s", {"idle_days": 1e-6})

    # The cluster counts ended pods as users of a claim; those of jobs stay for an hour, unless they are in the way.
    for copy in (first, second):
        attached.wait_until(copy["id"], "gone")
    assert attached.objects("persistentvolumeclaims") == []
    assert attached.objects("jobs") == []
    assert attached.cluster.api.list(f"/api/v1/namespaces/{team}/persistentvolumeclaims") == []
    volumes = attached.cluster.api.list("/api/v1/persistentvolumes")
    assert [item for item in volumes if item["spec"]["claimRef"]["namespace"] == attached.namespace] == []


@pytest.mark.parametrize("moment", ["asked", "claimed", "filling", "filled"])
def test_a_kill_of_the_platform_while_a_copy_is_filled_ends_with_a_complete_copy(attached, moment):
    attached.commit("first")
    product = attached.product

    copy_id = attached.request_cache()
    if moment == "claimed":
        product.wait_for(lambda: attached.objects("persistentvolumeclaims"), bool)
    if moment == "filling":
        product.wait_for(lambda: attached.objects("pods") or attached.copy(copy_id)["state"] == "ready", bool)
    if moment == "filled":
        attached.wait_until(copy_id, "ready")
    product.kill()
    product.start()

    copy = attached.wait_until(copy_id, "ready", "failed")
    assert (copy["state"], copy["error"]) == ("ready", None)
    assert (copy["files_done"], copy["bytes_done"]) == (copy["files_total"], copy["bytes_total"])
    assert len(attached.objects("persistentvolumeclaims")) == 1
    assert attached.run()["state"] == "succeeded"
    product.wait_for(lambda: attached.objects("jobs"), lambda names: names == [])


def test_a_kill_of_the_platform_while_a_copy_leaves_ends_with_nothing_left(attached):
    attached.commit("first")
    copy_id = attached.request_cache()
    attached.wait_until(copy_id, "ready")

    attached.product.api("DELETE", "/datasets/demo/pictures/commits/main/cache?site=lab-k8s")
    attached.product.kill()
    attached.product.start()

    attached.wait_until(copy_id, "gone")
    assert attached.objects("persistentvolumeclaims") == []
