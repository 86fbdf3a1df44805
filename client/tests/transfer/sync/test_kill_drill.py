"""kill -9 at any moment of a sync, and run it again: one commit, every byte right, nothing half visible."""

import itertools
import multiprocessing
import os
import random
import shutil
import signal
import time

import pytest

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder

pytestmark = pytest.mark.drill

# `python -m tests.soak` asks for more.
KILLS = int(os.environ.get("NEARLINE_SOAK_KILLS", "32"))
OURS = {f"ours/{n:03}": random.Random(n).randbytes(4000) for n in range(100)}
THEIRS = {f"theirs/{n:03}": random.Random(-n).randbytes(4000) for n in range(100)}
BASE = {f"base/{n:03}": random.Random(1000 + n).randbytes(500) for n in range(50)}
EDITED = {"base/000": b"edited by us", "base/001": b"edited by us too"}
EXPECTED = {os.fsencode(name): content for name, content in {**BASE, **THEIRS, **OURS, **EDITED}.items()}
del EXPECTED[b"base/049"]


@pytest.fixture
def scene(tmp_path, server):
    """A folder with changes of its own and changes of others to fetch: a sync that has everything to do."""
    ours, theirs = Folder(tmp_path / "ours", server), Folder(tmp_path / "theirs", server)
    ours.write(BASE).sync()
    theirs.sync()
    theirs.write(THEIRS).remove("base/049")
    theirs.sync()
    ours.write(OURS | EDITED, mtime_ns=1_600_000_000_000_000_000)
    return ours


def start_sync(folder, prepare=lambda server: None):
    """Run a sync in a process of its own, as another command would."""

    def run():
        server = FakeServer(folder.server.folder)
        prepare(server)
        Folder(folder.root, server).sync()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def check_end(folder):
    server = FakeServer(folder.server.folder)
    survivor = Folder(folder.root, server)
    survivor.sync()
    assert len(server.commits) == 3
    assert server.tree() == EXPECTED
    assert survivor.files() == EXPECTED
    assert list(survivor.workspace.temporary.iterdir()) == []
    assert survivor.sync().is_up_to_date


def check_nothing_is_half(folder):
    """While a sync is dead in the middle, no visible file is anything but one of its two versions."""
    versions = {os.fsencode(name): {content} for name, content in {**BASE, **OURS, **THEIRS}.items()}
    for name, content in EDITED.items():
        versions[os.fsencode(name)].add(content)
    for path, content in folder.files().items():
        assert content in versions[path]


def test_killed_at_random_moments_it_resumes_until_it_is_done(scene, tmp_path):
    chance = random.Random(20_261_121)
    rehearsal = copy_of(scene, tmp_path / "rehearsal")
    started = time.monotonic()
    start_sync(rehearsal).join()
    duration = time.monotonic() - started
    kills = 0

    for number in itertools.count():
        folder = copy_of(scene, tmp_path / str(number))
        while (process := start_sync(folder)).join(chance.uniform(0, duration)) or process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
            check_nothing_is_half(folder)
        assert process.exitcode == 0
        check_end(folder)
        if kills >= KILLS:
            break


def copy_of(folder, place):
    """A copy of a folder and its server, to begin again from the same state."""
    shutil.copytree(folder.root, place / "ours", symlinks=True)
    shutil.copytree(folder.server.folder, place / "server")
    return Folder(place / "ours", FakeServer(place / "server"))


@pytest.mark.parametrize(
    "step", ["get", "put", "commit", "committed", "complete_packs", "offer_packs", "offer_manifests"]
)
@pytest.mark.parametrize("call", [0, 1, 2])
def test_killed_inside_a_step_it_resumes(scene, step, call):
    def prepare(server):
        server.fail(step, *[None] * call, kill_itself)

    process = start_sync(scene, prepare)
    process.join()
    is_killed = process.exitcode == -signal.SIGKILL

    check_nothing_is_half(scene)
    check_end(scene)
    assert is_killed or call > 0 or step == "get"


def test_a_resumed_sync_sends_again_at_most_what_was_under_way(scene):
    def prepare(server):
        server.fail("put", *[None] * 6, kill_itself)

    start_sync(scene, prepare).join()
    stored = {path.name for path in scene.server.object_path("pack", "").iterdir() if not path.name.endswith(".new")}

    check_end(scene)

    final = {path.name for path in scene.server.object_path("pack", "").iterdir() if not path.name.endswith(".new")}
    orphans = final - {
        blob.pack.hex() for e in scene.server.entries(scene.server.commits[-1]["root"]) for blob in e.blobs
    }
    assert stored <= final
    assert len(orphans) <= 2
