import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError
from prometheus_client import REGISTRY

from core import clock, isolation
from core.errors import PlatformError
from core.models import Failure, Lease

NOW = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db


@pytest.fixture
def move():
    with clock.frozen_at(NOW) as move:
        yield move


def failing(*bad: str, error: Exception | None = None):
    """Return work that notes what it did, and raises for some items."""
    done: list[str] = []

    def work(item: str) -> str:
        if item in bad:
            raise error or OverflowError("int too large to convert, s3cret")
        done.append(item)
        return item.upper()

    return work, done


def test_an_item_that_fails_is_recorded_and_all_others_go_on(move):
    work, done = failing("b")

    results = isolation.for_each("test", ["a", "b", "c"], work)

    assert (results, done) == (["A", "C"], ["a", "c"])
    failure = Failure.objects.get()
    assert (failure.kind, failure.item_id, failure.attempts) == ("test", "b", 1)
    assert failure.error == "an internal error (OverflowError)"
    assert failure.next_try_at == NOW + timedelta(seconds=2)


def test_items_worked_on_side_by_side_are_told_apart_and_answer_in_their_order(move):
    together = threading.Barrier(3, timeout=60)

    def work(item: str) -> str:
        together.wait()
        if item == "b":
            raise OverflowError
        return item.upper()

    with ThreadPoolExecutor(3) as pool:
        results = isolation.for_each("test", ["a", "b", "c"], work, executor=pool)
        assert isolation.for_each("test", ["b"], str.upper, executor=pool) == []
        move(NOW + timedelta(seconds=2))
        assert isolation.for_each("test", ["b"], str.upper, executor=pool) == ["B"]

    assert results == ["A", "C"]
    assert not Failure.objects.exists()


def test_an_error_that_people_can_read_is_recorded_as_it_is(move):
    isolation.for_each("test", ["a"], failing("a", error=PlatformError("The disk is full.\0\ud800"))[0])

    assert Failure.objects.get().error == "The disk is full.?"


def test_the_delay_doubles_up_to_ten_minutes_and_the_item_is_left_alone_meanwhile(move):
    work, done = failing("a")
    delays = []

    for _ in range(12):
        isolation.for_each("test", ["a"], work)
        isolation.for_each("test", ["a"], done.append)
        failure = Failure.objects.get()
        delays.append((failure.next_try_at - clock.now()).total_seconds())
        move(failure.next_try_at)

    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
    assert done == []


def test_an_item_that_succeeds_at_last_is_no_failure_any_more(move):
    isolation.for_each("test", ["a"], failing("a")[0])
    move(NOW + timedelta(seconds=2))

    isolation.for_each("test", ["a"], failing()[0])

    assert not Failure.objects.exists()


def test_who_asks_for_something_new_need_not_wait_for_the_delay(move):
    work, done = failing()
    isolation.for_each("test", ["a", "b"], failing("a", "b")[0])

    isolation.try_now([failure.pk for failure in isolation.find(["test"]) if failure.item_id == "a"])
    isolation.for_each("test", ["a", "b"], work)

    assert done == ["a"]


def test_items_of_other_kinds_are_not_delayed(move):
    work, done = failing()
    isolation.for_each("test", ["a"], failing("a")[0])

    isolation.for_each("other", ["a"], work)

    assert done == ["a"]
    assert Failure.objects.get().kind == "test"


def test_failures_are_counted_by_kind(move):
    def count() -> float:
        return REGISTRY.get_sample_value("nearline_item_failures_total", {"kind": "counted"}) or 0.0

    before = count()
    isolation.for_each("counted", ["a", "b", "c"], failing("a", "c")[0])

    assert count() - before == 2


def test_a_busy_database_is_recorded_for_no_item_and_the_others_go_on(move):
    work, done = failing("a", error=OperationalError("database is locked"))

    with pytest.raises(OperationalError, match="database is locked"):
        isolation.for_each("test", ["a", "b"], work)

    assert done == ["b"]
    assert not Failure.objects.exists()


def test_what_is_to_follow_a_failure_is_done_with_its_record_and_may_fail_itself(move):
    told = []

    def follow(item: str, failure: Failure) -> None:
        told.append((item, failure.attempts))
        raise ValueError("also broken")

    isolation.for_each("test", ["a", "b"], failing("a", "b")[0], on_failure=follow)

    assert told == [("a", 1), ("b", 1)]
    assert {failure.error for failure in Failure.objects.all()} == {"an internal error (ValueError)"}


def test_a_batch_with_a_bad_row_is_done_one_by_one_and_only_that_row_is_recorded(move):
    batches = []

    def write(names) -> int:
        batches.append(list(names))
        if "bad" in names:
            raise ValueError("bad")
        return len(names)

    assert isolation.in_batch("test", ["a", "bad", "c"], write) == [1, 1]
    assert batches == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]
    assert Failure.objects.get().item_id == "bad"

    batches.clear()
    assert isolation.in_batch("test", ["a", "bad", "c"], write) == [2]
    assert batches == [["a", "c"]]


def test_records_of_items_that_are_gone_do_not_stay_for_ever(move):
    isolation.for_each("test", ["gone"], failing("gone")[0])
    move(NOW + timedelta(days=8))

    isolation.for_each("test", ["a"], failing("a")[0])

    assert list(Failure.objects.values_list("item_id", flat=True)) == ["a"]


def test_rows_are_named_by_their_key(move):
    lease = Lease.objects.create(name="leader", lease_token="h", lease_expires_at=NOW)

    isolation.for_each("test", [lease], lambda _: 1 / 0)

    assert Failure.objects.get().item_id == "leader"


def test_rows_that_failed_come_after_all_others_and_not_before_their_delay_is_over(move):
    rows = [Lease.objects.create(name=name) for name in "abcd"]
    work, _ = failing("a", "b")
    isolation.for_each("test", ["a"], work)
    move(NOW + timedelta(seconds=1))
    isolation.for_each("test", ["b"], work)

    taken = []
    for seconds in (1, 2, 3):
        move(NOW + timedelta(seconds=seconds))
        taken.append([row.name for row in isolation.take("test", Lease.objects.order_by("name"), 3)])

    assert taken == [["c", "d"], ["c", "d", "a"], ["c", "d", "a"]]
    assert isolation.take("other", Lease.objects.order_by("name"), 4) == rows


def test_a_delay_that_a_clock_wrote_down_which_was_set_back_since_holds_up_nothing(move):
    rows = [Lease.objects.create(name=name) for name in ("a", "b")]
    move(NOW + timedelta(hours=2))
    isolation.for_each("test", rows[:1], failing(rows[0])[0])
    assert isolation.take("test", Lease.objects.order_by("pk"), 5) == [rows[1]]

    move(NOW)

    assert isolation.take("test", Lease.objects.order_by("pk"), 5) == [rows[1], rows[0]]
    assert isolation.for_each("test", rows, lambda row: row.pk) == ["a", "b"]
    assert not Failure.objects.exists()
