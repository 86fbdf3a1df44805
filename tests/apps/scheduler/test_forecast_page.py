"""The page of forecasts: of what jobs were told, how much held, and by how much the rest was off."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from scheduler.models import Forecast, Pool

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def page(client, viewer):
    client.force_login(User.objects.get(pk=viewer.user_id))
    return lambda query="": " ".join(client.get(f"/forecasts/{query}").content.decode().split())


def add_forecasts(*waits_s: int, pool: str = "default") -> None:
    """Store forecasts that told 100 s, in nine of ten cases 200 s, and the waits that there were."""
    pool_id = Pool.objects.get_or_create(name=pool)[0].pk
    Forecast.objects.bulk_create(
        Forecast(
            name=f"{pool}-{number}",
            pool_id=pool_id,
            made_at=NOON,
            likely_at=NOON + timedelta(seconds=100),
            late_at=NOON + timedelta(seconds=200),
            raw_likely_s=100.0,
            raw_late_s=200.0,
            latest_at=NOON,
            started_at=NOON + timedelta(seconds=wait_s),
        )
        for number, wait_s in enumerate(waits_s)
    )


def test_without_forecasts_it_says_what_will_be_there(page):
    assert "No forecasts yet" in page()


def test_it_says_how_much_of_what_was_told_held(page):
    add_forecasts(*[50] * 5, *[150] * 4, 300)

    shown = page()

    assert '<span class="sub">as it should</span> 50 %' in shown
    assert '<span class="sub">as it should</span> 90 %' in shown
    assert "Jobs of default that had started" in shown


def test_each_pool_counts_its_own_newest_500_and_many_are_read_by_as_many_statements_as_one(page):
    add_forecasts(*[50] * 500, *[300] * 500)
    with CaptureQueriesContext(connection) as of_one:
        page()

    for name in ("a", "b", "c"):
        add_forecasts(*[50] * 4, pool=name)
    with CaptureQueriesContext(connection) as of_many:
        shown = page()

    assert len(of_many) == len(of_one)
    counts = re.findall(r'<td>(\w+) ?</td> <td class="num">(\d+)</td>', shown)
    assert counts == [("default", "500"), ("a", "4"), ("b", "4"), ("c", "4")]


def test_its_chart_marks_what_should_have_started_by_the_time_that_was_told(page):
    add_forecasts(50, 150)

    chart = json.loads(page().split('type="application/json">')[1].split("</script>")[0])

    aims = {line["label"]: line["values"] for line in chart["series"] if line["label"].endswith("should be")}
    at = {
        name: {x: value for x, value in zip(chart["x"], values, strict=True) if value} for name, values in aims.items()
    }
    assert at == {"P50 should be": {1.0: 50.0}, "P90 should be": {1.0: 90.0}}


def test_it_says_what_would_have_held_without_correction(page):
    add_forecasts(*[50] * 5, *[150] * 4, 300)
    Forecast.objects.update(raw_likely_s=40.0, raw_late_s=60.0)

    assert '<td class="num"> 0 %, 50 % </td>' in page()


def test_it_says_where_there_are_too_few_to_correct_by(page):
    add_forecasts(50, 50, 150)

    assert '<span class="sub">too few to correct by</span> 67 %, 100 %' in page()


@pytest.mark.parametrize(
    ("wait_s", "verdict"), [(10, "jobs start earlier than told"), (500, "jobs start later than told")]
)
def test_it_says_in_which_direction_forecasts_are_off(page, wait_s, verdict):
    add_forecasts(*[wait_s] * 10)

    assert page().count(verdict) == 2


def test_it_tells_by_the_wait_that_was_promised_and_who_was_promised_none(page):
    add_forecasts(*[50] * 5, *[150] * 4, 300)
    Forecast.objects.bulk_create(
        Forecast(name=f"untold-{number}", pool=Pool.objects.get(), latest_at=NOON, started_at=NOON)
        for number in range(3)
    )

    rows = page().partition("Promised wait")[2]

    told = rows.partition("1 min to 10 min")[2].partition("</tr>")[0]
    assert '<td class="num">10</td>' in told
    assert ("50 %" in told, "90 %" in told, "50 s" in told) == (True, True, True)
    assert '<td class="num">0</td>' in rows.partition("under 1 min")[2].partition("</tr>")[0]
    assert '<td class="num">3</td>' in rows.partition("no history yet")[2].partition("</tr>")[0]


def test_a_range_counts_the_jobs_that_started_within_it(page, move):
    add_forecasts(50, 150)
    move(NOON + timedelta(hours=1, seconds=100))

    shown = page("?range=1h")

    assert '<td class="num">1</td>' in shown.partition("P90 held")[2].partition("</tr> </tbody>")[0]
    assert "Jobs that started in the last 1 hour count." in shown
    assert "forecasts.csv?range=1h" in shown


def test_a_range_without_a_start_can_be_left(page, move):
    add_forecasts(50)
    move(NOON + timedelta(days=2))

    shown = page("?range=1d")

    assert ("No forecasts in this range of time" in shown, 'name="range"' in shown) == (True, True)


def test_its_file_has_each_forecast_without_the_name_of_its_job(page, client):
    add_forecasts(150)
    Forecast.objects.update(wait_class="by_right")

    lines = client.get("/forecasts/forecasts.csv").content.decode().splitlines()

    assert lines == [
        "pool,has_simulated,started_at,wait_class,p50_s,p90_s,waited_s,p50_held,p90_held",
        "default,false,2026-11-01T12:02:30+00:00,by_right,100.0,200.0,150.0,false,true",
    ]
