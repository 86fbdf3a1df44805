"""What a server stamped is compared with its own clock, as its answers tell it."""

from datetime import UTC, datetime, timedelta

import pytest

from core import clock
from core.server_time import ServerTime

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("date", "lead"),
    [
        ("Sat, 21 Nov 2026 11:50:00 GMT", timedelta(minutes=-10)),
        ("Sat, 21 Nov 2026 12:10:00 GMT", timedelta(minutes=10)),
        ("nonsense", timedelta(0)),
        ("Sat, 21 Nov 2026 11:50:00 -0000", timedelta(0)),
        (None, timedelta(0)),
    ],
)
def test_the_clock_of_a_server_goes_on_from_what_its_last_answer_told(date, lead):
    server_time = ServerTime()
    with clock.frozen_at(NOON) as move_to:
        server_time.note(date)
        move_to(NOON + timedelta(minutes=1))

        assert server_time.now() == NOON + timedelta(minutes=1) + lead
