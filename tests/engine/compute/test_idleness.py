"""When a job counts as used, and when an idle one is warned about, looked at and stopped."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.engine.idleness import IdleTimes, Use, Verdict, find_use
from compute.engine.ports import UsageSample

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def samples(*millicores: int) -> list[UsageSample]:
    """Return one sample a second."""
    return [UsageSample(NOON + timedelta(seconds=at), used, 0) for at, used in enumerate(millicores)]


@pytest.mark.parametrize(
    ("limit_min", "notice_min"), [(4, 1), (60, 15), (120, 30), (2880, 30)], ids=["short", "hour", "two hours", "days"]
)
def test_a_job_is_warned_about_in_the_last_quarter_of_its_limit_and_at_most_half_an_hour_before(limit_min, notice_min):
    times = IdleTimes(minutes(limit_min), NOON, None)

    assert times.notice == minutes(notice_min)
    assert times.stops_at - times.warns_at == minutes(notice_min)


@pytest.mark.parametrize(
    ("passed_min", "warned_min", "verdict"),
    [
        (44.9, None, "leave"),
        (45, None, "warn"),
        (500, None, "warn"),
        (59.9, 45, "leave"),
        (60, 45, "stop"),
        (60, 50, "leave"),
        (65, 50, "stop"),
    ],
)
def test_it_is_stopped_at_its_limit_and_never_before_the_whole_notice_has_passed(passed_min, warned_min, verdict):
    warned_at = None if warned_min is None else NOON + minutes(warned_min)

    assert IdleTimes(minutes(60), NOON, warned_at).judge(NOON + minutes(passed_min)) == verdict


def test_looks_are_as_frequent_as_the_limit_asks_for_and_one_is_at_each_deadline():
    def wait(limit_min: float, passed_min: float, warned_min: float | None = None) -> timedelta:
        warned_at = None if warned_min is None else NOON + minutes(warned_min)
        now = NOON + minutes(passed_min)
        return IdleTimes(minutes(limit_min), NOON, warned_at).looks_at(now) - now

    assert wait(1, 0) == timedelta(seconds=15)
    assert wait(60, 0) == minutes(3)
    assert wait(2880, 0) == minutes(5)
    assert wait(60, 44) == minutes(1)
    assert wait(60, 58, warned_min=45) == minutes(2)
    assert wait(60, 70, warned_min=45) == minutes(0)


def test_a_job_that_was_warned_about_is_left_alone_once_it_was_used():
    assert IdleTimes(minutes(60), NOON + minutes(59), None).judge(NOON + minutes(60)) is Verdict.LEAVE


def test_cpu_counts_that_is_used_on_average_over_some_minute():
    idle, burst = [20] * 60, [1000] * 3 + [0] * 57

    assert find_use(samples(*idle, *burst, *idle)) is Use.CPU
    assert find_use(samples(50)) is Use.CPU
    assert find_use(samples(*idle * 5)) is None
    assert find_use([]) is None


def test_one_second_at_the_end_is_no_minute():
    assert find_use(samples(*[0] * 60, 1000)) is None


def gpu_samples(*percents: int | None) -> list[UsageSample]:
    """Return one sample a second of a job that uses no CPU."""
    return [UsageSample(NOON + timedelta(seconds=at), 0, 0, percent) for at, percent in enumerate(percents)]


def test_gpus_count_as_use_from_one_percent_of_a_minute_on_and_unmeasured_ones_do_not():
    assert find_use(gpu_samples(*[0] * 60, *[2] * 30, *[0] * 30)) is Use.GPU
    assert find_use(gpu_samples(*[0] * 60, *[2] * 29, *[0] * 31)) is None
    assert find_use(gpu_samples(None, None, 1)) is Use.GPU
    assert find_use(gpu_samples(None, None)) is None
