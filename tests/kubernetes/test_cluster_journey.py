"""The product with an attached cluster, from the command line: jobs run in real pods, and what they leave stays."""

import pytest

from tests.kubernetes.attached_product import attached_product

FLOW = """
flow: digits
steps:
  - name: prepare
    command: echo 7 > $NEARLINE_OUTPUT/seed
    compute: [lab-k8s.small]
  - name: train
    command: sh train.sh
    after: [prepare]
    compute: [lab-k8s.small]
"""


@pytest.fixture
def attached(cluster, agents, tmp_path):
    """A product with a cluster attached as `lab-k8s`, and a template `lab-k8s.small`."""
    with attached_product(cluster, tmp_path, agents) as (product, _):
        yield product


def ended_job(product, name):
    def read():
        return product.api("GET", f"/compute/jobs/{name}")

    return product.wait_for(read, lambda job: job["state"] not in {"pending", "starting", "running", "stopping"})


def test_jobs_and_flows_run_in_pods_and_what_they_leave_is_readable_without_the_cluster(cluster, attached, tmp_path):
    product = attached
    product.api("POST", "/projects", {"name": "demo"})
    submission = {"project": "demo", "template": "lab-k8s.small", "name": "by-hand"}
    product.api("POST", "/compute/jobs", {**submission, "command": "echo hello; echo 42 > $NEARLINE_OUTPUT/answer"})

    job = ended_job(product, "by-hand")

    assert (job["state"], job["reason"], job["node"]) == ("succeeded", "", cluster.node.name)
    stored = product.wait_for(lambda: product.api("GET", "/compute/jobs/by-hand/log"), lambda log: log["is_stored"])
    assert stored["text"] == "hello\n"

    (tmp_path / "flow").mkdir()
    (tmp_path / "flow/train.sh").write_text("cat $NEARLINE_INPUT/prepare/seed > $NEARLINE_OUTPUT/model; echo trained\n")
    (tmp_path / "flow/flow.yaml").write_text(FLOW)
    run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=tmp_path / "flow")

    assert run["state"] == "succeeded"

    cluster.kill_api_server()
    try:
        lost = product.wait_for(
            lambda: {item["name"]: item for item in product.api("GET", "/compute/resources")["items"]}["lab-k8s"],
            lambda resource: resource["state"] == "unreachable",
        )
        assert "does not answer" in lost["error"]
        assert product.api("GET", "/compute/jobs/by-hand/log")["text"] == "hello\n"
        assert product.api("GET", "/compute/jobs/by-hand")["state"] == "succeeded"
    finally:
        cluster.start_api_server()
