"""kill -9 anywhere in caching and clearing: a complete copy or none, every time, and the work goes on."""

import contextlib
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.factories.datasets import read_tree

HERE = Path(__file__).parent
# `python -m tests.soak` asks for more.
KILLS = int(os.environ.get("NEARLINE_SOAK_KILLS", "10"))


class Platform:
    """The other process, seen from here."""

    def __init__(self, home: Path) -> None:
        self._seconds = 0.0
        home.mkdir()
        environment = {**os.environ, "NEARLINE_HOME": str(home), "NEARLINE_LOG_LEVEL": "ERROR"}
        environment.pop("DATABASE_URL", None)  # a platform of its own, on SQLite
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "platform_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,  # so that `select` sees what was answered
        )

    def do(self, deed: str, argument: str = "", *, kill_after_s: float | None = None):
        """Let a worker do something; return what it said, None if it was killed before it could say anything."""
        self._seconds += 20  # longer than a lease lasts
        self._process.stdin.write(f"{self._seconds} {deed} {argument}\n".encode())
        self._process.stdin.flush()
        worker = int(self._process.stdout.readline())
        if kill_after_s is not None:
            ready, _, _ = select.select([self._process.stdout], [], [], kill_after_s)
            if not ready:
                with contextlib.suppress(ProcessLookupError):  # it finished in this very moment, and has answered
                    os.kill(worker, signal.SIGKILL)
        answer = json.loads(self._process.stdout.readline())
        assert not (isinstance(answer, dict) and "raised" in answer), answer
        return answer

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(120)
        self._process.stdout.close()


@pytest.fixture
def platform(tmp_path):
    platform = Platform(tmp_path / "home")
    yield platform
    platform.close()


def make_trees():
    """The two commits, as the other process makes them."""
    first = {f"c{n % 7}/{n:04}.png": bytes([n % 251]) * (500 + n) for n in range(500)} | {
        "big.bin": b"big!" * 6_000_000
    }
    second = {name: content for name, content in first.items() if not name.startswith("c3/")}
    return first, second | {f"c3/{n:04}.new": bytes([n]) * 3_000 for n in range(120)}


def are_enough(kills: dict[str, int]) -> bool:
    """Whether workers were killed often enough, and enough of them while they filled a copy."""
    least = KILLS if "NEARLINE_SOAK_KILLS" in os.environ else 0
    return sum(kills.values()) >= KILLS and kills["hydrate"] >= KILLS // 2 and min(kills.values()) >= least


@pytest.mark.drill
def test_a_copy_is_complete_or_not_there_however_often_workers_are_killed(platform):
    commits = platform.do("prepare")
    trees = dict(zip(commits, make_trees(), strict=True))
    chance = random.Random(20261121)
    kills = {"hydrate": 0, "evict": 0}
    took_s = {"hydrate": 1.0, "evict": 0.2}
    rounds = 0

    def work_and_be_killed(deed, row, most):
        """Be killed at random moments, look after each, then be left in peace to the end."""
        for number in range(most):
            began = time.monotonic()
            killed = platform.do(deed, row, kill_after_s=chance.random() * took_s[deed]) is None
            kills[deed] += killed
            if not killed and number == 0:  # measured anew, as the machine may have been busier before
                took_s[deed] = time.monotonic() - began
            seen = platform.do("show", row)
            folder = Path(seen["folder"])
            if deed == "hydrate" and folder.exists():
                assert read_tree(folder) == trees[folder.name]
            if not killed:
                break
        began = time.monotonic()
        last = platform.do(deed, row)
        if most == 0:
            took_s[deed] = time.monotonic() - began
        return last

    while not are_enough(kills):
        rows = []
        for commit in commits if rounds % 2 == 0 else reversed(commits):
            row = platform.do("request", commit)
            done = work_and_be_killed("hydrate", row, 6 if rounds else 0)
            assert (done["state"], done["error"]) == ("ready", "")
            assert read_tree(Path(done["folder"])) == trees[commit]
            rows.append(row)
        assert platform.do("show", rows[1])["shared"] > 20_000_000
        measured = platform.do("measure")
        assert measured["on_disk"] == measured["charged"], measured
        chance.shuffle(rows)
        for row in rows:
            platform.do("uncache", row)
            done = work_and_be_killed("evict", row, 2 if rounds else 0)
            assert done["state"] == "gone"
            assert not Path(done["folder"]).exists()
        assert platform.do("measure")["on_disk"] == 0
        rounds += 1

    print(f"{kills} kills in {rounds} rounds: every copy complete or not there")  # noqa: T201 (the drill's count)


@pytest.mark.drill
def test_64_threads_that_ask_at_once_cause_one_hydration(platform):
    first, _ = platform.do("prepare")

    told = platform.do("request_64_times", first)

    assert (told["asked"], told["errors"], len(told["ids"])) == (64, [], 1)
    assert (told["holds"], told["hydrations"]) == (64, 1)
    shown = platform.do("show", told["ids"][0])
    size = sum(map(len, make_trees()[0].values()))
    assert shown["state"] == "ready"
    assert size <= shown["moved"] < size + 100_000
    assert sum(platform.do("release")) == 64


@pytest.mark.drill
def test_no_commit_is_lost_however_often_commits_and_collections_are_killed(platform):
    platform.do("prepare")
    chance = random.Random(20261125)
    most = int(os.environ.get("NEARLINE_SOAK_KILLS", "5"))
    kills, told = {"commit": 0, "collect": 0}, 0
    took_s = {"commit": 0.5, "collect": 0.2}
    day_s = 86_400

    for number in itertools.count():
        for deed in ("commit", "collect"):
            for _ in range(min(5, most - kills[deed])):
                kills[deed] += platform.do(deed, str(number), kill_after_s=chance.random() * took_s[deed]) is None
        began = time.monotonic()
        assert platform.do("commit", str(number)) is not None
        took_s["commit"] = time.monotonic() - began
        told += 1
        platform.wait(2 * day_s)  # longer than uploads live
        platform.do("collect", kill_after_s=chance.random() * took_s["collect"])
        platform.wait(8 * day_s)  # longer than the grace of packs that nobody needs
        platform.do("collect")
        if min(kills.values()) >= most:
            break

    read = platform.do("read_all")
    print(f"{kills} kills, {read['commits']} commits, {len(read['faults'])} lost")  # noqa: T201 (the drill's count)
    assert read == {"commits": told + 2, "faults": []}
