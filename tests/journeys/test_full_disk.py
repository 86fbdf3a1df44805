"""A disk that fills up under the running product, and is freed again."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys.product import BIN, Product, is_full, new_product

SENTENCE = "The server's disk is full, so nothing can be saved."


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 64 MB: the home folder of the product, in full that of its first host."""
    folder = tmp_path / "home"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def product(small_disk) -> Iterator[Product]:
    running = new_product(small_disk).start()
    yield running
    running.stop()


def ask(product: Product, path: str, body: object = None, *, url: str = "") -> tuple[int, dict]:
    headers = {"Authorization": f"Bearer {product.token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request((url or product.url) + path, data, headers), timeout=120
        ) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def ask_host(host: Product, path: str, body: object = None) -> tuple[int, dict]:
    """Ask the web process of this host: a balancer would ask the one whose turn it is."""
    return ask(host, path, body, url=f"http://127.0.0.1:{host.port}")


def nearline(product: Product, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token}
    return subprocess.run(
        [BIN / "nearline", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(disk).free == 0
    return filler


@pytest.mark.skipif(is_full(), reason="the full installation keeps its rows elsewhere")
def test_a_full_disk_is_told_everywhere_and_reads_go_on_until_it_is_freed(product, small_disk, tmp_path):
    assert ask(product, "/api/v1/projects", {"name": "demo"})[0] == 201
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.bin").write_bytes(bytes(range(256)) * 4096)
    filler = fill(small_disk)

    # The database takes a while to fill the pages that it has: then nothing can be saved.
    answers = [ask(product, "/api/v1/projects", {"name": f"p{n}"}) for n in range(300)]
    assert {status for status, _ in answers} <= {201, 507}
    assert (answers[-1][0], answers[-1][1]["title"]) == (507, SENTENCE)

    status, told = ask(product, "/readyz")
    assert (status, told["checks"]["storage"]) == (503, SENTENCE)
    assert ask(product, "/healthz")[0] == 200
    assert ask(product, "/api/v1/me")[1]["name"] == "admin"
    assert ask(product, "/api/v1/projects")[0] == 200

    refused = nearline(product, "project", "create", "another")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"✗ {SENTENCE}\nhint: Ask an admin to free space")

    filler.unlink()
    assert ask(product, "/api/v1/projects", {"name": "after"})[0] == 201
    assert ask(product, "/readyz")[0] == 200


@pytest.mark.skipif(not is_full(), reason="the embedded product has one host")
def test_a_full_disk_of_one_host_stops_its_cache_and_nothing_else(product, small_disk, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.bin").write_bytes(bytes(range(256)) * 4096)
    product.cli("project", "create", "demo", cwd=folder)
    product.cli("data", "init", "--project", "demo", cwd=folder)
    product.cli("data", "sync", cwd=folder)
    filler = fill(small_disk)

    (status, told), (other_status, _) = (ask_host(host, "/readyz") for host in (product, product.second))
    assert (status, told["checks"]["storage"], other_status) == (503, SENTENCE, 200)
    assert [ask(product, "/api/v1/projects", {"name": f"p{n}"})[0] for n in range(4)] == [201] * 4

    # The host itself refuses at once; the other one does not know of its disk.
    assert ask_host(product.second, "/api/v1/datasets/demo/data/commits/latest/cache", {})[0] == 202
    (copy,) = product.wait_for(
        lambda: ask(product, "/api/v1/cache/commits")[1]["items"],
        lambda copies: copies[0]["state"] in {"ready", "failed"},
    )
    assert (copy["state"], copy["error_code"]) == ("failed", "datasets.cache_site_full")

    filler.unlink()
    cached = product.cli_json("data", "cache", "demo/data", "--wait", cwd=folder)
    assert (cached["state"], cached["files_done"]) == ("ready", 1)
    assert ask_host(product, "/readyz")[0] == 200
