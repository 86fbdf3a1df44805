"""Eight processes commit to one branch at once, and some are killed: no commit is lost, and each file is right."""

import json
import os
import random
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.journeys.digits import contents
from tests.journeys.product import BIN, Product

WRITERS = 8
# By hand more: `NEARLINE_DRILL_PUTS=20 python -m pytest tests/journeys/test_eight_writers.py`.
PUTS = int(os.environ.get("NEARLINE_DRILL_PUTS", "2"))


@pytest.mark.drill
def test_eight_writers_of_one_branch_lose_no_commit_whoever_is_killed(product, tmp_path):
    project = f"p-{uuid.uuid4().hex[:8]}"
    product.cli("project", "create", project, cwd=tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    product.cli("data", "init", "--project", project, "--title", "shared", cwd=empty)

    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(_write, product, f"{project}/shared", tmp_path / f"w{n}", n) for n in range(WRITERS)]
        told = [writer.result() for writer in writers]

    commits = product.cli_json("data", "commits", f"{project}/shared", "--limit", "1000", cwd=tmp_path)["items"]
    product.cli("data", "clone", f"{project}/shared", "clone", cwd=tmp_path)
    acknowledged = [commit for writer in told for commit in writer["commits"]]
    kills = sum(writer["kills"] for writer in told)
    print(f"{len(acknowledged)} commits told, {kills} processes killed, {len(commits)} in the branch")  # noqa: T201 (-s shows it)
    # A writer that was killed may have committed without having been told; it then has nothing left to commit.
    assert [commit["parent"] for commit in commits] == [*[commit["id"] for commit in commits[1:]], None]
    assert len(set(acknowledged)) == len(acknowledged)
    assert set(acknowledged) <= {commit["id"] for commit in commits}
    assert len(commits) <= len(acknowledged) + kills
    assert contents(tmp_path / "clone") == {
        path.name: path.read_bytes() for n in range(WRITERS) for path in (tmp_path / f"w{n}").iterdir()
    }
    assert [commit["files"] for commit in commits] == list(range(len(commits), 0, -1))
    assert kills >= WRITERS * PUTS // 4


def _write(product: Product, reference: str, folder: Path, number: int) -> dict:
    """Put files one by one, each as a commit; a process that is killed is started again, as a person would."""
    folder.mkdir()
    chance = random.Random(number)
    told: dict = {"commits": [], "kills": 0}
    for put in range(PUTS):
        file = folder / f"{number}-{put}.bin"
        file.write_bytes(chance.randbytes(100_000))
        if put % 2 == number % 2:
            told["kills"] += _put_and_kill(product, reference, file, after_s=chance.uniform(0.3, 3))
        done = product.cli("data", "put", reference, str(file), "--json", cwd=folder)
        commit = json.loads(done.stdout)["commit"]
        told["commits"] += [commit["id"]] if commit else []
    return told


def _put_and_kill(product: Product, reference: str, file: Path, *, after_s: float) -> int:
    """Begin to put a file and kill the process after a while; return 1, or 0 where it had ended by then."""
    process = subprocess.Popen(
        [str(BIN / "nearline"), "data", "put", reference, str(file)],
        env={**product.environment, "NEARLINE_URL": product.url, "NEARLINE_TOKEN": product.token},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return 1
    return 0
