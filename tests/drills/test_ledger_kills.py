"""kill -9 of the platform at random moments: what the scheduler has placed is what runs, and nothing else."""

import json
import os
import subprocess
import sys

import pytest

KILLS = 4
"""100 by hand: `python -m tests.drills.ledger`."""


@pytest.mark.drill
def test_after_each_kill_what_is_placed_is_what_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.drills.ledger", "--kills", str(KILLS)],
        check=False,
        env={**os.environ, "NEARLINE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=3600,
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["kills"], told["faults"]) == (KILLS, [])
    assert told["processes"] + told["simulated"] > 0
