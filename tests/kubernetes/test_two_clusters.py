"""Two clusters with a real node each: a job that reads a commit moves with it to where it starts much sooner."""

import contextlib
import hashlib
import secrets

import pytest

from tests.folders import open_folder
from tests.kubernetes.agent_image import AGENT_IMAGE, write_agent_image
from tests.kubernetes.attached_product import attach, reachable_product
from tests.kubernetes.conftest import running_cluster
from tests.kubernetes.network import forwarded
from tests.kubernetes.provisioner import STORAGE_CLASS, Provisioner

CONTENT = secrets.token_bytes(20_000_000)
"""Enough to tell how fast commits come to a site: to the far one none has come."""
READ = "sha256sum $NEARLINE_DATA/scans/scans.bin"
OPTIONS = ("--project", "demo", "--gpus", "1", "--cpu", "0.1", "--memory", "64MiB")


class TwoClusters:
    """The product with the clusters `near` and `far` of one GPU each: that of `near`, where a commit is, is held."""

    def __init__(self, product, folder, clusters, namespaces, provisioners) -> None:
        self.product, self.folder = product, folder
        self.clusters, self.namespaces, self.provisioners = clusters, namespaces, provisioners
        product.api("POST", "/projects", {"name": "demo"})
        data = folder / "scans"
        data.mkdir()
        (data / "scans.bin").write_bytes(CONTENT)
        product.cli("data", "init", "--project", "demo", cwd=data)
        product.cli("data", "sync", cwd=data)
        product.cli("data", "cache", "demo/scans@main", "--site", "near", "--wait", cwd=data)
        self.submit("exec sleep 3600", "holder", "--resource", "near", "--timeout", "1h")
        self.wait_for("holder", lambda job: job["state"] == "running")

    def submit(self, command: str, name: str, *options: str) -> None:
        self.product.cli("job", "submit", command, "--name", name, *OPTIONS, *options, cwd=self.folder)

    def submit_reader(self, name: str) -> None:
        pools = ("--pool", "near", "--pool", "far")
        self.submit(READ, name, *pools, "--data", "demo/scans@main", "--timeout", "10m")

    def job(self, name: str) -> dict:
        return self.product.api("GET", f"/compute/jobs/{name}")

    def wait_for(self, name: str, holds) -> dict:
        return self.product.wait_for(lambda: self.job(name), holds)

    def copies_coming_to_far(self) -> list[dict]:
        copies = self.product.api("GET", "/cache/commits")["items"]
        return [copy for copy in copies if copy["site"] == "far" and copy["state"] not in {"evicting", "gone"}]

    def claims_on(self, name: str) -> list[str]:
        path = f"/api/v1/namespaces/{self.namespaces[name]}/persistentvolumeclaims"
        return [claim["metadata"]["name"] for claim in self.clusters[name].api.list(path)]


@pytest.fixture(scope="module")
def two(cluster, agents, trident):
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(open_folder())
        far = opened.enter_context(running_cluster())
        far.node.import_image(write_agent_image(folder))
        provisioner = Provisioner(far.api, folder / "volumes", retry_s=0.2)
        provisioner.start()
        opened.callback(provisioner.stop)
        clusters = {"near": cluster, "far": far}
        for each in clusters.values():
            opened.enter_context(each.node.gpus("GPU-1"))
        product = opened.enter_context(reachable_product(cluster, folder / "home"))
        port = opened.enter_context(forwarded(far.node.address, product.port))
        volumes = ("--storage-class", STORAGE_CLASS, "--cache-size", "20GB")
        at_far = ("--set", f"platform_url=http://{far.node.address}:{port}")
        namespaces = {
            name: attach(product, each, folder, name, AGENT_IMAGE, *volumes, *(at_far if each is far else ()))
            for name, each in clusters.items()
        }
        yield TwoClusters(product, folder, clusters, namespaces, {"near": trident, "far": provisioner})


def test_what_is_brought_for_a_job_that_moved_goes_with_it_when_it_is_stopped(two):
    two.provisioners["far"].stop()  # so that nothing comes before the job is stopped
    two.submit_reader("stopped")
    moved = two.wait_for("stopped", lambda job: job["resource"] == "far")
    two.product.wait_for(lambda: two.claims_on("far"), bool)
    two.product.kill()
    two.product.start()

    two.product.cli("job", "stop", "stopped", cwd=two.folder)
    two.product.wait_for(two.copies_coming_to_far, lambda copies: not copies)

    two.provisioners["far"].resume()
    two.product.wait_for(lambda: two.claims_on("far"), lambda claims: not claims)
    assert two.job("stopped")["state"] == "cancelled"
    assert [event["message"].partition(", where")[0] for event in moved["events"]] == [
        "Waits for near.1-gpu-0.1-cpu-64-MiB.",
        "Moved from near to far",
    ]


def test_a_job_that_moves_while_the_platform_is_killed_reads_its_commit_on_the_other_cluster(two):
    two.submit_reader("moves")
    two.wait_for("moves", lambda job: job["resource"] == "far")
    two.product.kill()
    two.product.start()

    ended = two.wait_for("moves", lambda job: job["state"] in {"succeeded", "failed", "lost"})

    assert (ended["state"], ended["reason"], ended["resource"]) == ("succeeded", "", "far")
    log = two.product.wait_for(lambda: two.product.api("GET", "/compute/jobs/moves/log"), lambda log: log["is_stored"])
    assert log["text"].split()[0] == hashlib.sha256(CONTENT).hexdigest()
    assert two.job("holder")["state"] == "running"
    # Nothing holds what nobody reads any more.
    two.product.wait_for(
        lambda: two.product.cli(
            "data", "uncache", "demo/scans@main", "--site", "far", "--yes", cwd=two.folder, check=False
        ),
        lambda done: done.returncode == 0,
    )
    two.product.wait_for(lambda: two.claims_on("far"), lambda claims: not claims)
