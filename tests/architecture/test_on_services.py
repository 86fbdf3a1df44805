"""`make services` passes again what uses the database, the broker or the whole product, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

@pytest.fixture
def django_db_setup(): pass

@pytest.fixture
def project(django_db_setup): pass

def test_computes(): pass
def test_takes_a_row(project): pass
@pytest.mark.django_db
def test_queries(): pass
@pytest.mark.services
def test_sends(): pass
"""


def test_what_uses_no_service_is_left_out_and_counted(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    django_db\n    services\n")
    for suite in ("apps", "journeys"):
        (tmp_path / "tests" / suite).mkdir(parents=True)
        (tmp_path / "tests" / suite / f"test_{suite}.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    plugins = ["-p", "tests.on_services", "-p", "no:cacheprovider"]

    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *plugins, "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    *names, _, count = done.stdout.splitlines()
    assert names == [
        "tests/apps/test_apps.py::test_takes_a_row",
        "tests/apps/test_apps.py::test_queries",
        "tests/apps/test_apps.py::test_sends",
        "tests/journeys/test_journeys.py::test_computes",
        "tests/journeys/test_journeys.py::test_takes_a_row",
        "tests/journeys/test_journeys.py::test_queries",
        "tests/journeys/test_journeys.py::test_sends",
    ]
    assert count.startswith("7/8 tests collected (1 deselected)")
