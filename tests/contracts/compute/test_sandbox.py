"""What a hostile job on this machine can reach: as root, as an ordinary user, and without a sandbox."""

import json
import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import structlog

from compute.adapters.local.shim_spawner import find_refusal

RUN = Path(__file__).with_name("sandbox_run.py")
PACKAGES = str(Path(structlog.__file__).parents[1])
NOBODY = pwd.getpwnam("nobody")

needs_sandbox = pytest.mark.skipif(bool(find_refusal()), reason=f"this kernel makes no sandbox: {find_refusal()}")


def run_probe(folder: Path, *options: str, python: str = sys.executable, **who) -> dict:
    command = [python, "-B", str(RUN), str(folder), *options]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": PACKAGES}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **who)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder():
    """A short path: that of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@needs_sandbox
def test_a_hostile_job_reaches_nothing_of_the_platform_and_what_it_needs_works(folder):
    found = run_probe(folder)

    assert set(found["outcomes"].values()) == {"refused"}, found["outcomes"]
    assert found["works"] == {
        "inputs": "weights",
        "data": True,
        "disks": [],
        "processes": 2,
        "capabilities": "",
        "user": os.getuid(),
    }


@needs_sandbox
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(
    not Path(f"/usr/bin/python3.{sys.version_info.minor}").exists(), reason="the system has no Python of this version"
)
def test_the_same_holds_for_a_platform_of_an_ordinary_user(folder):
    who = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []}
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    if subprocess.run([python, str(RUN), "--help"], env={"PYTHONPATH": PACKAGES}, check=False, **who).returncode:
        pytest.skip("the user nobody cannot read this checkout")

    found = run_probe(folder, python=python, **who)

    assert set(found["outcomes"].values()) == {"refused"}, found["outcomes"]
    assert (found["works"]["user"], found["works"]["inputs"]) == (NOBODY.pw_uid, "weights")


def test_the_probe_succeeds_without_a_sandbox_so_its_failures_mean_something(folder):
    outcomes = run_probe(folder, "unconfined")["outcomes"]

    done = {name for name, outcome in outcomes.items() if outcome == "DONE"}
    assert done >= {
        "read the key",
        "read the database",
        "read the admin's token",
        "read another project's output",
        "find its own records",
        "reach a socket in the home",
        "signal the platform",
        "read the platform's environment",
        "change an input",
        "change a cached commit",
    }
