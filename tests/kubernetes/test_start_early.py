"""A job of a cluster starts while its data is brought to a volume, and reads all of it."""

import os
import signal
from pathlib import Path

import pytest

from tests.kubernetes.agent_image import LEARNING_IMAGE, write_learning_image
from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.provisioner import STORAGE_CLASS

FILES = 40_000  # bringing them takes some seconds
READ = """
import os
import nearline

names = [f"{number // 1000}/{number}.txt" for number in range(40_000)]
folder = os.path.join(os.environ["NEARLINE_DATA"], "numbers")
missing = [name for name in names if not os.path.exists(f"{folder}/{name}")]
there = sorted({*names} - {*missing})
with nearline.open_data("numbers") as commit:
    print("read", commit.read(there[0]).decode() in there[0], commit.read(missing[-1]).decode() in missing[-1], flush=True)
nearline.data("numbers")
print("there", sum(len(files) for _, _, files in os.walk(folder)), flush=True)
"""


@pytest.fixture
def product(cluster, agents, trident, tmp_path):
    """A product with a cluster attached as `lab-k8s` by a storage class, and a dataset of many small files."""
    cluster.node.import_image(write_learning_image(tmp_path))
    volumes = ["--storage-class", STORAGE_CLASS, "--cache-size", "20GB"]
    with attached_product(cluster, tmp_path, agents, *volumes) as (product, _):
        shape = {"resource": "lab-k8s", "name": "learning", "cpu_millicores": 100, "memory_bytes": 2**29}
        product.api("POST", "/compute/templates", shape)
        product.api("POST", "/projects", {"name": "demo"})
        folder = tmp_path / "numbers"
        for number in range(FILES):
            path = folder / str(number // 1000) / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(number))
        product.cli("data", "init", "--project", "demo", cwd=folder)
        product.cli("data", "sync", cwd=folder)
        yield product


def filling_processes(url: str) -> list[int]:
    """Return the processes on this machine that fill a volume for the platform at this address."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"nearline.pod.copies\0fill" in command and f"NEARLINE_URL={url}\0".encode() in environment:
            pids.append(int(folder.name))
    return pids


def test_a_job_reads_a_volume_that_is_being_filled_and_the_store_for_what_is_not_there(product, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "read.py").write_text(READ)
    options = ("--template", "lab-k8s.learning", "--image", LEARNING_IMAGE, "--code", str(code), "--project", "demo")

    job = product.cli_json(
        "job", "submit", "python read.py", *options, "--data", "demo/numbers@main", "--start-early", cwd=tmp_path
    )
    product.wait_for(lambda: product.api("GET", "/cache/commits")["items"][0]["bytes_done"], bool, limit_s=180)
    pids = filling_processes(product.environment["NEARLINE_PUBLIC_URL"])
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        path = f"/compute/jobs/{job['name']}/log"
        product.wait_for(lambda: product.api("GET", path)["text"], lambda text: "read" in text, limit_s=180)
        (copy,) = product.api("GET", "/cache/commits")["items"]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    log = product.cli("job", "logs", job["name"], "--follow", cwd=tmp_path).stdout

    assert copy["state"] == "hydrating"
    assert copy["files_done"] < FILES
    lines = [line for line in log.splitlines() if not line.startswith("[nearline]")]
    assert lines == ["read True True", f"there {FILES}"]
