"""kill -9 of controllers that schedule side by side: no capacity is ever given out twice, and the work goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.drill

SCRIPT = Path(__file__).with_name("scheduler_process.py")


@pytest.fixture
def database(tmp_path):
    """Return the environment of a platform with a database of its own."""
    address = os.environ.get("DATABASE_URL", "")
    environment = {**os.environ, "NEARLINE_HOME": str(tmp_path), "NEARLINE_LOG_LEVEL": "ERROR"}
    if not address:
        yield environment
        return
    import psycopg

    name, server_address = "drill_of_controllers", address.rpartition("/")[0]
    with psycopg.connect(f"{server_address}/postgres", autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {name}")
        yield environment | {"DATABASE_URL": f"{server_address}/{name}"}
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_three_controllers_of_which_12_are_killed_never_give_room_out_twice(database):
    done = subprocess.run(
        [sys.executable, SCRIPT], check=False, env=database, capture_output=True, text=True, timeout=3600
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["faults"] == []
    assert told["started"] > 50
    assert (told["placed_late"], told["unexplained"]) == (0, 0)
