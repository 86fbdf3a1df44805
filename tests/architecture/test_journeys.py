"""In full every journey is passed on two hosts, but for those that say why not."""

import re
from pathlib import Path

from tests.journeys.product import OF_ONE_MACHINE

JOURNEYS = Path(__file__).resolve().parents[1] / "journeys"


def test_journeys_start_a_product_of_one_host_only_where_a_reason_is_given():
    of_one = {path.name for path in JOURNEYS.glob("test_*.py") if re.search(r"\bProduct\(", path.read_text())}

    assert of_one == set(OF_ONE_MACHINE)
