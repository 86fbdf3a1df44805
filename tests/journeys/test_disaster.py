"""The database is lost and the store stays: what the admin's guide says brings everything back that it names."""

import os
import subprocess
import uuid

import pytest

from tests.docs.blocks import read_blocks
from tests.journeys.digits import contents, write_digits
from tests.journeys.product import ROOT, Product, is_full, new_product

RECORDS = "from datasets.workers import records; print('due:', records.find_work()[0].count())"
OBJECTS = (
    "from datasets.adapters.opening import open_store; from datasets.models import Store;"
    "print('objects:', *(f'{blob.key}={blob.size_bytes}' for row in Store.objects.all()"
    " for blob in open_store(row).list_blobs('datasets/')))"
)


@pytest.fixture
def product(tmp_path):
    mine = new_product(tmp_path / "home").start()
    yield mine
    mine.stop()


def shell(product: Product, code: str) -> str:
    """Run some lines in the platform, and return the last line that they print."""
    command = ["python", "manage.py", "shell", "-v", "0", "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=product.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def lose_database(product: Product) -> None:
    if not is_full():
        for path in product.home.glob("nearline.sqlite3*"):
            path.unlink()
        return
    import psycopg

    server, name = os.environ["NEARLINE_TEST_POSTGRES"], f"journey_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    for host in (product, product.second):
        host.environment["DATABASE_URL"] = f"{server.rsplit('/', 1)[0]}/{name}"


def run_block_of_the_guide(product: Product, number: int) -> None:
    """Run the commands of one of the blocks that the guide says are run here."""
    blocks = [block for block in read_blocks(ROOT / "docs/guides/admin.md") if "test_disaster.py" in block.value]
    for command in blocks[number].text.splitlines():
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=product.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def state_of(product: Product, reference: str) -> dict:
    """Return what people see of the history of a dataset, and its branches and tags."""
    path = f"/datasets/{reference}"
    return {
        "commits": [product.api("GET", f"{path}/commits?ref={branch}")["items"] for branch in ("main", "dev")],
        "branches": [(row["name"], row["head"]) for row in product.api("GET", f"{path}/branches")["items"]],
        "tags": [(row["name"], row["commit"]) for row in product.api("GET", f"{path}/tags")["items"]],
    }


def test_a_lost_database_comes_back_from_the_store(product, folder, tmp_path):
    write_digits(folder)
    files = contents(folder)
    product.cli("project", "create", "team-a", cwd=folder)
    product.cli("data", "init", "--project", "team-a", "--title", "digits", cwd=folder)
    product.cli("data", "sync", "--message", "first\nof two", cwd=folder)
    product.cli("data", "tag", "v1", cwd=folder)
    product.cli("data", "branch", "dev", cwd=folder)
    (folder / "notes.txt").write_text("on dev")
    product.cli("data", "sync", "--message", "notes ✓", cwd=folder)
    product.wait_for(lambda: shell(product, RECORDS), lambda line: line == "due: 0")
    before = state_of(product, "team-a/digits")
    run_block_of_the_guide(product, 0)
    product.stop()
    objects = shell(product, OBJECTS)
    lose_database(product)

    run_block_of_the_guide(product, 1)
    product.manage("collect_packs", "--now")

    assert shell(product, OBJECTS) == objects
    product.start()
    assert state_of(product, "team-a/digits") == before
    for branch, expected in (("main", files), ("dev", {**files, "notes.txt": b"on dev"})):
        product.cli("data", "clone", f"team-a/digits@{branch}", str(tmp_path / branch), cwd=tmp_path)
        assert contents(tmp_path / branch) == expected
    (folder / "notes.txt").write_text("after the disaster")
    product.cli("data", "sync", "--message", "goes on", cwd=folder)
    newest = product.api("GET", "/datasets/team-a/digits/commits?ref=dev")["items"][0]
    assert (newest["message"], newest["parent"]) == ("goes on", dict(before["branches"])["dev"])
