"""A run of tests says what it skipped, and in CI nothing is skipped but what is listed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(tmp_path):
    """Return a function that passes a file of tests and returns the exit status and what was printed."""

    def run(text: str, *options: str, ci: str = "") -> tuple[int, str]:
        file = tmp_path / "test_some.py"
        file.write_text(f"import pytest\n{text}")
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}", "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        plugins = ["-p", "tests.skips", "-p", "xdist", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(file)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    return run


TWO = """
def test_passes(): pass
@pytest.mark.parametrize('n', range(3))
@pytest.mark.skipif(True, reason='{}')
def test_is_skipped(n): pass
def test_skips(): pytest.skip('`up` is the embedded product')
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_the_reasons_of_skips_are_told_with_their_counts(run, options):
    status, printed = run(TWO.format("there is no browser"), *options)

    assert status == 0
    assert "    3 there is no browser\n    1 `up` is the embedded product\n" in printed


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_in_ci_a_skip_because_a_part_is_missing_is_a_failure(run, options):
    status, printed = run(TWO.format("there is no browser"), *options, ci="true")

    assert status == 1
    assert "FAILED: in CI nothing is skipped because 'there is no browser' (see tests/skips.py)" in printed


def test_in_ci_a_listed_skip_is_none(run):
    status, printed = run(TWO.format("needs Redis: `make services`"), ci="true")

    assert status == 0
    assert "FAILED" not in printed


def test_a_run_without_skips_says_nothing_of_them(run):
    assert "skipped" not in run("def test_passes(): pass", ci="true")[1]
