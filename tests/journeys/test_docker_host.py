"""The product with a Docker daemon of its machine, from the command line: jobs are containers of the user's image."""

import pytest

from tests.contracts.compute.docker.daemon import USER_IMAGE, Daemon
from tests.journeys.product import Product

FLOW = f"""
flow: digits
steps:
  - name: prepare
    image: {USER_IMAGE}
    command: echo 7 > $NEARLINE_OUTPUT/seed
    compute: [box.small]
  - name: train
    image: {USER_IMAGE}
    command: sh train.sh
    after: [prepare]
    data: [{{dataset: demo/digits@main}}]
    compute: [box.small]
"""
TRAIN = """cat $NEARLINE_INPUT/prepare/seed $NEARLINE_DATA/digits/labels > $NEARLINE_OUTPUT/model
touch $NEARLINE_DATA/digits/labels 2>/dev/null || echo read-only
which python3 || echo trained
"""


@pytest.fixture
def daemon():
    daemon = Daemon()
    yield daemon
    daemon.close()


def test_a_flow_runs_in_containers_that_read_cached_commits_and_outlive_the_platform(daemon, tmp_path):
    product = Product(tmp_path / "home").start()
    try:
        product.cli("compute", "attach", "box", "--docker", daemon.url, "--set", "docker_network=none", cwd=tmp_path)
        shape = {"resource": "box", "name": "small", "cpu_millicores": 100, "memory_bytes": 2**28}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "demo"})
        data, flow = tmp_path / "digits", tmp_path / "flow"
        for folder in (data, flow):
            folder.mkdir()
        (data / "labels").write_text("zero one two\n")
        product.cli("data", "init", "--project", "demo", cwd=data)
        product.cli("data", "sync", cwd=data)
        (flow / "train.sh").write_text(TRAIN)
        (flow / "flow.yaml").write_text(FLOW)

        run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=flow)
        long = {"project": "demo", "template": "box.small", "name": "long", "image": USER_IMAGE, "command": "sleep 600"}
        product.api("POST", "/compute/jobs", long)
        product.wait_for(lambda: job_of(product, "long"), lambda job: job["state"] == "running")
        product.kill()
        product.start()
        said = product.cli("job", "exec", "long", "--", "sh", "-c", "echo $NEARLINE_JOB_NAME", cwd=tmp_path).stdout
        product.cli("job", "stop", "long", cwd=tmp_path)
        stopped = product.wait_for(lambda: job_of(product, "long"), lambda job: job["state"] == "cancelled")

        assert run["state"] == "succeeded"
        (train,) = [job for job in product.api("GET", "/compute/jobs?project=demo")["items"] if "train" in job["name"]]
        path = f"/compute/jobs/{train['name']}/log"
        log = product.wait_for(lambda: product.api("GET", path), lambda log: log["is_complete"])
        assert log["text"] == "read-only\ntrained\n"
        assert said == "long\n"
        assert stopped["reason_code"] == "cancelled"
    finally:
        product.stop()


def job_of(product, name):
    return product.api("GET", f"/compute/jobs/{name}")
