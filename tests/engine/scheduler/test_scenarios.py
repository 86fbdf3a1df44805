"""The scheduling scenarios of the reference data: same starts, same plans, same victims, same nodes."""

import json
from pathlib import Path

import pytest

from tests.scenarios.__main__ import SKIPPED_FEATURES
from tests.scenarios.running import run

FILE = Path(__file__).resolve().parents[4] / "shared" / "scenarios" / "scenarios.json"

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the folder with the reference scenarios is not at hand")


def scenarios() -> list[dict]:
    rows = json.loads(FILE.read_text())["scenarios"] if FILE.exists() else []
    return [row for row in rows if row["feature"] not in SKIPPED_FEATURES]


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["id"])
def test_a_scenario_of_the_reference_comes_out_as_written(scenario):
    assert run(scenario).misses == [], scenario["summary"]
