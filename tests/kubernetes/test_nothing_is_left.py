"""A test process that is killed leaves no program, pod, bridge, control group or file of its cluster behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes import manifests
from tests.kubernetes.clean import command_lines
from tests.kubernetes.conftest import running_cluster, running_control_plane
from tests.kubernetes.programs import missing_for_control_plane, missing_for_node

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from tests.kubernetes import test_nothing_is_left
getattr(test_nothing_is_left, sys.argv[1])()
"""


def hold_control_plane() -> None:
    with running_control_plane() as started:
        wait_to_be_killed(started.folder)


def hold_cluster_with_a_pod() -> None:
    with running_cluster() as started:
        pods = f"/api/v1/namespaces/{started.namespace}/pods"
        started.api.create(pods, manifests.pod(manifests.container("sleep", "12345")))
        started.api.wait(f"{pods}/main", lambda pod: pod["status"]["phase"] == "Running")
        wait_to_be_killed(started.folder, started.node.bridge_index)


def wait_to_be_killed(*what: object) -> None:
    sys.stdout.write(f"{' '.join(map(str, what))}\n")
    sys.stdout.flush()
    sys.stdin.read()


def kill_one_that_runs(function: str) -> list[str]:
    """Run a function of this module in a process, kill that, and return what it printed once its cleaner has ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, function], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    printed = process.stdout.readline().split()
    process.kill()
    process.wait()
    process.stdout.read()  # the cleaner holds the other end
    return printed


def programs_of(folder: Path) -> list[str]:
    """The command lines of this machine that name a folder."""
    return [line for _, line in command_lines() if folder.name in line]


@pytest.mark.skipif(bool(missing_for_control_plane()), reason=missing_for_control_plane())
def test_a_killed_test_process_leaves_no_control_plane():
    (name,) = kill_one_that_runs("hold_control_plane")

    folder = Path(name)
    assert folder.name.startswith("nearline-kube-")
    assert not folder.exists()
    assert programs_of(folder) == []


@pytest.mark.skipif(bool(missing_for_node()), reason=missing_for_node())
def test_a_killed_test_process_leaves_no_node_and_no_pod():
    name, bridge_index = kill_one_that_runs("hold_cluster_with_a_pod")

    folder = Path(name)
    assert folder.name.startswith("nearline-kube-")
    assert not folder.exists()
    assert programs_of(folder) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"*/nearline-{folder.name}"))
    assert bridge_index not in {path.read_text().strip() for path in Path("/sys/class/net").glob("*/ifindex")}
