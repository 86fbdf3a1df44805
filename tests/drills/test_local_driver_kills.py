"""kill -9 of the platform while it starts jobs on this machine: every job runs exactly once, and none is lost."""

import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from compute.engine.ports import ReportState
from tests.contracts.compute.test_local import LocalPlace

ROOT = Path(__file__).resolve().parents[2]
JOBS, KILLS = 60, 12

# A platform that starts all jobs, from the first one on, whatever an earlier one has started already.
PLATFORM = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "platform")!r}]
from pathlib import Path
from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.views import Views
from tests.contracts.compute_driver import make_launch
jobs, counter = Path(sys.argv[1]), Path(sys.argv[2])
views = Views(hidden=[jobs], writable=[counter.parent])
driver = LocalDriver(jobs, None if find_refusal() else views)
for number in range({JOBS}):
    print(number, flush=True)
    command = f'echo "$NEARLINE_JOB_NAME" >> {{counter}}; sleep 0.0{{number % 7}}'
    driver.start(make_launch(f"job-{{number}}", command))
    driver.list_jobs()
"""


def start_platform(jobs: Path, counter: Path) -> subprocess.Popen:
    counter.parent.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-c", PLATFORM, str(jobs), str(counter)], stdout=subprocess.PIPE, cwd=ROOT)


def kill_somewhere(platform: subprocess.Popen, chance: random.Random, reach: int) -> int:
    """Kill -9 at a random job and a random fraction of a millisecond into its start; return that job's number."""
    last = chance.randrange(reach)
    for line in platform.stdout:
        if int(line) == last:
            break
    select.select([], [], [], chance.random() * 0.004)
    os.kill(platform.pid, signal.SIGKILL)
    platform.wait()
    platform.stdout.close()
    return last


@pytest.mark.drill
def test_every_job_runs_exactly_once_however_often_the_platform_is_killed(tmp_path):
    jobs, counter, chance = tmp_path / "jobs", tmp_path / "counts" / "counter", random.Random(20261121)

    for kill in range(KILLS):
        kill_somewhere(start_platform(jobs, counter), chance, reach=1 + (kill + 1) * JOBS // KILLS - 1)
    with start_platform(jobs, counter) as last:
        last.communicate(timeout=1800)

    place = LocalPlace(jobs)
    names = [f"job-{number}" for number in range(JOBS)]
    reports = {name: place.wait_for_end(name) for name in names}
    assert last.returncode == 0
    assert {report.state for report in reports.values()} == {ReportState.SUCCEEDED}
    assert {report.token for report in reports.values()} == {f"token-of-{name}" for name in names}
    assert Counter(counter.read_text().split()) == dict.fromkeys(names, 1)


@pytest.mark.drill
def test_jobs_run_on_while_the_platform_is_dead_and_are_adopted(tmp_path):
    jobs, counter = tmp_path / "jobs", tmp_path / "counts" / "counter"
    with start_platform(jobs, counter) as platform:
        for line in platform.stdout:
            if int(line) == JOBS // 2:
                break
        os.kill(platform.pid, signal.SIGKILL)

    place = LocalPlace(jobs)
    names = [f"job-{number}" for number in range(JOBS // 2)]

    assert {place.wait_for_end(name).state for name in names} == {ReportState.SUCCEEDED}
    ran = Counter(counter.read_text().split())
    assert {name: ran[name] for name in names} == dict.fromkeys(names, 1)
    assert ran[f"job-{JOBS // 2}"] <= 1  # the one at whose start the platform was killed
