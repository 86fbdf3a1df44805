"""A job of a cluster may start while its data is brought to a volume or a folder of one, and reads all of it."""

import pytest

from tests.kubernetes.agent_image import LEARNING_IMAGE, write_learning_image
from tests.kubernetes.attached_product import attached_product
from tests.kubernetes.provisioner import STORAGE_CLASS

FILES = 5_000
READ = """
import os
import nearline

with nearline.open_data("numbers") as commit:
    print("read", *(commit.read(f"{number // 1000}/{number}.txt").decode() for number in (0, 4_999)), flush=True)
print("there", sum(len(files) for _, _, files in os.walk(nearline.data("numbers"))), flush=True)
"""


@pytest.fixture(params=["claim", "pool"])
def product(cluster, agents, trident, tmp_path, request):
    """A product with a cluster attached as `lab-k8s` by a storage class, and a dataset of many small files."""
    cluster.node.import_image(write_learning_image(tmp_path))
    volumes = ["--storage-class", STORAGE_CLASS, "--cache-size", "20GB"]
    volumes += ["--set", "cache_sharing=pool"] if request.param == "pool" else []
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


def test_a_job_that_starts_early_reads_its_volume_and_the_store_and_finds_all_files_in_the_end(product, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "read.py").write_text(READ)
    options = ("--template", "lab-k8s.learning", "--image", LEARNING_IMAGE, "--code", str(code), "--project", "demo")

    job = product.cli_json(
        "job", "submit", "python read.py", *options, "--data", "demo/numbers@main", "--start-early", cwd=tmp_path
    )
    log = product.cli("job", "logs", job["name"], "--follow", cwd=tmp_path).stdout

    lines = [line for line in log.splitlines() if not line.startswith("[nearline]")]
    assert lines == [f"read 0 {FILES - 1}", f"there {FILES}"]
