"""Quantities are read as people write them and written one way."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bounds, units
from core.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("512Mi", 512 * 2**20), ("1.5 g", 1_500_000_000), ("17", 17), (17, 17), ("1KiB", 1024)],
)
def test_sizes_are_read(text, size):
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "4 elephants", "1e9"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidInput, match="is not a size"):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    "quantity", ["2000PB", "9" * 5000, pytest.param(10**5000, id="5000 digits"), float("inf"), "9" * 20]
)
def test_a_size_that_no_storage_has_is_refused(quantity):
    with pytest.raises(InvalidInput):
        units.parse_bytes(quantity)


@pytest.mark.parametrize(
    "quantity", ["36601d", "9" * 5000, pytest.param(10**5000, id="5000 digits"), float("inf"), float("nan"), 1e300]
)
def test_a_duration_of_more_than_100_years_is_refused(quantity):
    with pytest.raises(InvalidInput):
        units.parse_duration(quantity)


@given(st.text() | st.from_regex(r"\s*[0-9]+(\.[0-9]+)?\s*[a-z]{0,3}", fullmatch=True) | st.integers() | st.floats())
def test_any_quantity_is_read_or_refused(quantity):
    for parse, most in ((units.parse_bytes, bounds.MAX_BYTES), (units.parse_duration, bounds.MAX_SECONDS)):
        with contextlib.suppress(InvalidInput):
            assert 0 <= parse(quantity) <= most


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (250_000_000_000, "250 GB"),
    ],
)
def test_sizes_are_written_with_three_digits(size, text):
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (100 * 2**20, "100 MiB"),
        (1024 * 2**20, "1 GiB"),
        (3 * 2**29, "1.5 GiB"),
        (512 * 2**30, "512 GiB"),
        (500 * 10**9, "465.7 GiB"),
    ],
)
def test_memory_is_shown_in_the_units_in_which_it_was_set(size, text):
    assert units.format_memory(size) == text


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("250ms", 0.25)])
def test_durations_are_read(text, seconds):
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (12, "12 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (7200, "2 h"), (273600, "3 d 4 h")],
)
def test_durations_are_written_with_two_units(seconds, text):
    assert units.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("distance_s", "text"),
    [(3, "just now"), (300, "5 min ago"), (-10800, "in 3 h"), (-86_000, "in 24 h"), (172800, "2 d ago")],
)
def test_moments_are_written_as_distances(distance_s, text):
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    assert units.format_ago(now - timedelta(seconds=distance_s), now=now) == text


@pytest.mark.parametrize(
    ("milli_gpus", "written"), [(0, "0 GPUs"), (250, "0.25 GPU"), (1000, "1 GPU"), (1500, "1.5 GPUs"), (2000, "2 GPUs")]
)
def test_an_amount_of_gpu_is_in_the_singular_up_to_one(milli_gpus, written):
    assert units.count_of_gpus(milli_gpus) == written
