"""The product with a host that it reaches by SSH, from the command line: jobs run there, and it goes away and comes back."""

import os
import signal
import sys

import pytest

from tests.contracts.compute.ssh.sshd import USER, Sshd
from tests.journeys.product import new_product

FLOW = """
flow: digits
steps:
  - name: prepare
    command: echo 7 > $NEARLINE_OUTPUT/seed
    compute: [gpu-7.small]
  - name: train
    command: sh train.sh
    after: [prepare]
    data: [{dataset: demo/digits@main}]
    compute: [gpu-7.small]
"""
TRAIN = "cat $NEARLINE_INPUT/prepare/seed $NEARLINE_DATA/digits/labels > $NEARLINE_OUTPUT/model; echo trained\n"


READING = """
flow: reading
steps:
  - name: read
    command: cat $NEARLINE_DATA/scans/labels
    data: [{dataset: demo/scans@main}]
    compute: [gpu-7.small]
"""


@pytest.fixture
def sshd(tmp_path):
    sshd = Sshd(tmp_path / "host")
    yield sshd
    sshd.kill()


@pytest.fixture
def attached(sshd, tmp_path):
    """A product with a host attached as `gpu-7`, and a template `gpu-7.small`."""
    product = new_product(tmp_path / "home").start()
    try:
        (tmp_path / "known").write_text(sshd.known_host)
        address = f"{USER}@127.0.0.1:{sshd.port}"
        keys = ["--key", str(sshd.folder / "client"), "--known-host", str(tmp_path / "known")]
        folder = f"host_folder={sshd.folder}/nearline"
        product.cli("compute", "attach", "gpu-7", "--ssh", address, *keys, "--set", folder, cwd=tmp_path)
        shape = {"resource": "gpu-7", "name": "small", "cpu_millicores": 100, "memory_bytes": 2**28}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "demo"})
        yield product
    finally:
        product.stop()


def resource_of(product):
    return {item["name"]: item for item in product.api("GET", "/compute/resources")["items"]}["gpu-7"]


def log_of(product, name):
    return product.api("GET", f"/compute/jobs/{name}/log")


def submit(product, name, command):
    product.api(
        "POST", "/compute/jobs", {"project": "demo", "template": "gpu-7.small", "name": name, "command": command}
    )


def wait_for_job(product, name, *states):
    return product.wait_for(lambda: product.api("GET", f"/compute/jobs/{name}"), lambda job: job["state"] in states)


def test_a_host_is_attached_only_once_its_key_was_confirmed(sshd, tmp_path):
    product = new_product(tmp_path / "home").start()
    try:
        address = f"{USER}@127.0.0.1:{sshd.port}"
        command = ["compute", "attach", "gpu-7", "--ssh", address, "--key", str(sshd.folder / "client")]

        refused = product.cli(*command, cwd=tmp_path, check=False)

        assert refused.returncode == 2
        assert sshd.known_host in refused.stderr
        assert "SHA256:" in refused.stderr
    finally:
        product.stop()


def test_a_flow_runs_on_a_host_and_what_it_leaves_is_readable_while_the_host_is_away(sshd, attached, tmp_path):
    product = attached
    data, flow = tmp_path / "digits", tmp_path / "flow"
    for folder in (data, flow):
        folder.mkdir()
    (data / "labels").write_text("zero one two\n")
    product.cli("data", "init", "--project", "demo", cwd=data)
    product.cli("data", "sync", cwd=data)
    (flow / "train.sh").write_text(TRAIN)
    (flow / "flow.yaml").write_text(FLOW)

    run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=flow)
    jobs = product.api("GET", "/compute/jobs?project=demo")["items"]
    for job in jobs:
        product.wait_for(lambda name=job["name"]: log_of(product, name), lambda log: log["is_stored"])
    sshd.kill()
    lost = product.wait_for(lambda: resource_of(product), lambda resource: resource["state"] == "unreachable")

    assert run["state"] == "succeeded"
    assert "does not answer" in lost["error"]
    assert {job["state"] for job in jobs} == {"succeeded"}
    logs = [log_of(product, job["name"])["text"] for job in jobs]
    assert sorted(logs) == ["", "trained\n"]


def test_a_job_goes_on_while_host_and_platform_are_away_and_is_known_again(sshd, attached, tmp_path):
    product = attached
    submit(product, "long", "while ! [ -e go ]; do sleep 0.1; done; echo went")
    wait_for_job(product, "long", "running")

    sshd.kill()
    product.wait_for(lambda: resource_of(product), lambda resource: resource["state"] == "unreachable")
    unknown = product.api("GET", "/compute/jobs/long")
    product.kill()
    sshd.start()
    product.start()
    (jobs,) = (sshd.folder / "nearline").glob("*/jobs")
    (jobs / "long" / "work" / "go").touch()

    assert unknown["state"] == "running"
    assert wait_for_job(product, "long", "succeeded", "failed", "lost")["state"] == "succeeded"
    log = product.wait_for(lambda: log_of(product, "long"), lambda log: log["is_complete"])
    assert log["text"] == "went\n"
    product.wait_for(lambda: resource_of(product), lambda resource: resource["state"] == "ready")


def test_a_commit_is_cached_on_a_host_while_the_platform_is_killed_read_by_a_step_there_and_evicted(
    sshd, attached, tmp_path
):
    product = attached
    data, flow, cache = tmp_path / "scans", tmp_path / "flow", sshd.folder / "cache"
    for folder in (data, flow):
        folder.mkdir()
    (data / "labels").write_text("zero one two\n")
    for number in range(8):
        (data / f"{number}.bin").write_bytes(os.urandom(8_000_000))
    (flow / "flow.yaml").write_text(READING)
    product.cli("data", "init", "--project", "demo", cwd=data)
    product.cli("data", "sync", cwd=data)

    settings = ["--set", "resource=gpu-7", "--set", f"root={cache}"]
    product.cli("cache", "add", "near-gpu-7", "--kind", "ssh", *settings, cwd=data)
    product.cli("compute", "sites", "gpu-7", "near-gpu-7", cwd=data)
    product.cli("data", "cache", "demo/scans", "--site", "near-gpu-7", cwd=data)
    pids = product.wait_for(lambda: [path.read_text() for path in cache.glob(".work/*-fill/pid")], any)
    os.kill(int(pids[0]), signal.SIGSTOP)
    product.kill()
    assert list(cache.glob("cc_*/READY")) == []
    os.kill(int(pids[0]), signal.SIGCONT)
    product.start()
    copy = product.wait_for(lambda: copy_of(product), lambda copy: copy["state"] in {"ready", "failed"})
    run = product.cli_json("flow", "run", "flow.yaml", "--project", "demo", "--wait", cwd=flow)
    (job,) = product.api("GET", "/compute/jobs?project=demo")["items"]
    log = product.wait_for(lambda: log_of(product, job["name"]), lambda log: log["is_complete"])

    assert (copy["state"], copy["files_done"], copy["site"]) == ("ready", 9, "near-gpu-7")
    assert {path.name for path in (cache / copy["id"] / "files").iterdir()} == {
        path.name for path in data.iterdir()
    } - {".nearline"}
    assert (run["state"], log["text"]) == ("succeeded", "zero one two\n")
    assert list((sshd.folder / "nearline").glob("*/trees/*")) == []
    product.wait_for(lambda: copy_of(product), lambda copy: not copy["users"])
    product.cli("data", "uncache", "demo/scans", "--site", "near-gpu-7", "--yes", cwd=data)
    product.wait_for(lambda: list(cache.glob("cc_*")), lambda copies: not copies)


READ_EARLY = """
import nearline

with nearline.open_data("scans") as commit:
    for path, content in commit.stream(shuffle=1):
        print("read", path, len(content))
folder = nearline.data("scans")
print("there", *sorted(f"{path.name}={path.stat().st_size}" for path in folder.iterdir()))
"""


def test_a_job_on_a_host_starts_before_its_copy_is_complete_and_reads_all_of_it(sshd, attached, tmp_path):
    product = attached
    data, code, cache = tmp_path / "scans", tmp_path / "code", sshd.folder / "cache"
    for folder in (data, code):
        folder.mkdir()
    sizes = {f"{number}.bin": 3_000_000 + number for number in range(8)}
    for name, size in sizes.items():
        (data / name).write_bytes(os.urandom(size))
    (code / "read.py").write_text(READ_EARLY)
    product.cli("data", "init", "--project", "demo", cwd=data)
    product.cli("data", "sync", cwd=data)
    settings = ["--set", "resource=gpu-7", "--set", f"root={cache}"]
    product.cli("cache", "add", "near-gpu-7", "--kind", "ssh", *settings, cwd=data)
    product.cli("compute", "sites", "gpu-7", "near-gpu-7", cwd=data)

    options = ["--template", "gpu-7.small", "--project", "demo", "--code", str(code), "--data", "demo/scans@main"]
    job = product.cli_json("job", "submit", f"{sys.executable} read.py", *options, "--start-early", cwd=tmp_path)
    log = product.cli("job", "logs", job["name"], "--follow", cwd=tmp_path).stdout

    lines = [line for line in log.splitlines() if not line.startswith("[nearline]")]
    assert sorted(lines[:-1]) == [f"read {name} {size}" for name, size in sorted(sizes.items())]
    assert lines[-1] == "there " + " ".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def copy_of(product):
    (copy,) = product.api("GET", "/cache/commits?site=near-gpu-7")["items"]
    return copy
