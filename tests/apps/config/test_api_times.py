"""How the API writes times: always in UTC, always with milliseconds, so that every reader takes them by one format."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from config.api import api

WHOLE_SECOND = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (WHOLE_SECOND, "2026-11-22T10:00:00.000Z"),
        (WHOLE_SECOND.replace(microsecond=1_000), "2026-11-22T10:00:00.001Z"),
        (WHOLE_SECOND.replace(microsecond=999_999), "2026-11-22T10:00:00.999Z"),
        (WHOLE_SECOND.astimezone(timezone(timedelta(hours=2))), "2026-11-22T10:00:00.000Z"),
    ],
)
def test_a_time_has_its_milliseconds_even_when_they_are_zero(moment, written):
    assert api.renderer.render(None, {"at": moment}, response_status=200) == f'{{"at": "{written}"}}'
