"""kill -9 of the platform in the middle of a run of 100 steps: every step succeeds exactly once."""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.drill

SCRIPT = Path(__file__).with_name("flow_process.py")
STEPS = 100
KILLS = 4
LAST = 9
LIMIT_S = 1800


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(home, tmp_path) -> dict[str, str]:
    variables = {**os.environ, "NEARLINE_HOME": str(home), "NEARLINE_LOG_LEVEL": "ERROR"}
    variables["NEARLINE_JOB_WRITABLE_PATHS"] = str(tmp_path)  # where its jobs count how often they ran
    variables.pop("DATABASE_URL", None)
    variables.pop("BROKER_URL", None)
    return variables


@pytest.fixture
def flow_file(tmp_path) -> Path:
    """A flow of 100 steps: a chain of ten, each followed by nine that wait for it alone. Each step says that it ran.

    The last link waits for the file `go`, so the run cannot end before it is there.
    """
    counted, go = tmp_path / "counted", tmp_path / "go"
    command = f"echo $NEARLINE_STEP-$NEARLINE_STEP_INDEX >> {counted}"
    lines = ["flow: drill", "steps:"]
    for link in range(10):
        after = f"[link{link - 1}]" if link else "[]"
        waits = f"until [ -e {go} ]; do sleep 0.1; done; " if link == LAST else ""
        lines.append(
            f"  - {{name: link{link}, command: '{waits}{command}', after: {after}, compute: this-machine.tiny}}"
        )
        lines.append(
            f"  - {{name: fan{link}, command: '{command}', after: [link{link}], compute: this-machine.tiny,"
            f" grid: {{n: {list(range(9))}}}}}"
        )
    path = tmp_path / "flow.yaml"
    path.write_text("\n".join(lines))
    return path


def test_a_platform_killed_again_and_again_runs_every_step_exactly_once(home, environment, flow_file, tmp_path):
    run_id = call(environment, "start", str(flow_file)).strip()
    deadline = time.monotonic() + LIMIT_S

    for kill in range(1, KILLS + 1):
        serve_until(home, environment, run_id, deadline, succeeded=kill * STEPS // (KILLS + 1))
    assert state_of(home) == "running"
    (tmp_path / "go").touch()
    serve_until(home, environment, run_id, deadline, succeeded=STEPS + 1)

    counted = Counter((tmp_path / "counted").read_text().split())
    assert state_of(home) == "succeeded"
    assert len(counted) == STEPS
    assert set(counted.values()) == {1}
    assert ask(home, "SELECT count(*), sum(state = 'succeeded') FROM flows_step") == (STEPS, STEPS)
    assert ask(home, "SELECT count(*) FROM flows_attempt WHERE state = 'succeeded'") == (STEPS,)
    events = ask(home, "SELECT count(*), max(seq), count(DISTINCT seq) FROM flows_runevent")
    assert len(set(events)) == 1


def call(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve_until(home: Path, environment: dict[str, str], run_id: str, deadline: float, *, succeeded: int) -> None:
    """Let a platform work until so many steps have succeeded, or until it ends by itself; then kill it."""
    process = subprocess.Popen([sys.executable, SCRIPT, "serve", run_id], env=environment)
    try:
        while process.poll() is None and done(home) < succeeded:
            assert time.monotonic() < deadline, "the run did not get on"
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()


def done(home: Path) -> int:
    (count,) = ask(home, "SELECT count(*) FROM flows_step WHERE state = 'succeeded'")
    return count


def state_of(home: Path) -> str:
    (state,) = ask(home, "SELECT state FROM flows_run")
    return "running" if state == "pending" else state


def ask(home: Path, query: str) -> tuple:
    database = sqlite3.connect(f"file:{home / 'nearline.sqlite3'}?mode=ro", uri=True, timeout=120)
    try:
        return database.execute(query).fetchone()
    finally:
        database.close()
