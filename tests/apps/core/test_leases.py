"""A lease has one holder until it expires, is renewed, or is given back."""

from datetime import UTC, datetime, timedelta

import pytest

from core import clock, leases
from core.models import Lease

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_one_of_two_gets_the_lease_and_keeps_it_by_renewing(db):
    with clock.frozen_at(NOON) as move_to:
        assert leases.take_named("leader", holder="a", for_s=10)
        assert not leases.take_named("leader", holder="b", for_s=10)
        move_to(NOON + timedelta(seconds=9))
        assert leases.take_named("leader", holder="a", for_s=10)
        move_to(NOON + timedelta(seconds=18))
        assert not leases.take_named("leader", holder="b", for_s=10)


def test_several_leases_are_taken_and_renewed_together_and_those_of_others_left(db, django_assert_num_queries):
    with clock.frozen_at(NOON) as move_to:
        assert leases.take_all(["leader", "host"], holder="a", for_s=10) == {"leader", "host"}
        move_to(NOON + timedelta(seconds=9))
        with django_assert_num_queries(1):
            assert leases.take_all(["leader", "host"], holder="a", for_s=10) == {"leader", "host"}
        move_to(NOON + timedelta(seconds=18))
        with django_assert_num_queries(2):
            assert leases.take_all(["leader", "host"], holder="b", for_s=10) == set()
        assert leases.take_all(["leader", "another"], holder="b", for_s=10) == {"another"}
        move_to(NOON + timedelta(seconds=19))
        assert leases.take_named("leader", holder="b", for_s=10)
        assert leases.take_all(["leader", "host"], holder="a", for_s=10) == {"host"}


def test_an_expired_lease_goes_to_whoever_asks(db):
    with clock.frozen_at(NOON) as move_to:
        leases.take_named("leader", holder="a", for_s=10)
        move_to(NOON + timedelta(seconds=10))
        assert leases.take_named("leader", holder="b", for_s=10)
        assert not leases.take_named("leader", holder="a", for_s=10)


def test_a_lease_that_is_given_back_is_free_at_once_and_only_by_its_holder(db):
    with clock.frozen_at(NOON) as move_to:
        leases.take_named("leader", holder="a", for_s=10)
        leases.release_named("leader", holder="b")
        assert not leases.take_named("leader", holder="b", for_s=10)
        leases.release_named("leader", holder="a")
        move_to(NOON + timedelta(milliseconds=1))
        assert leases.take_named("leader", holder="b", for_s=10)


def test_a_lease_that_a_clock_took_which_was_days_ahead_holds_nobody_off_for_days(db):
    with clock.frozen_at(NOON + timedelta(days=3)) as move_to:
        leases.take_named("leader", holder="a", for_s=10)
        move_to(NOON)
        assert leases.take_named("leader", holder="b", for_s=10)
        assert not leases.take_named("leader", holder="a", for_s=10)


def test_the_longest_lease_is_held_to_its_end(db):
    with clock.frozen_at(NOON) as move_to:
        leases.take_named("scrub", holder="a", for_s=leases.LONGEST_S)
        assert not leases.take_named("scrub", holder="b", for_s=10)
        move_to(NOON + timedelta(seconds=leases.LONGEST_S))
        assert leases.take_named("scrub", holder="b", for_s=10)


@pytest.fixture
def row(db):
    Lease.objects.create(name="row")
    return Lease.objects.filter(pk="row")


def test_the_lease_of_a_row_goes_to_one_worker_and_by_its_expiry_to_the_next(row):
    with clock.frozen_at(NOON) as move_to:
        first = leases.take(row, for_s=10)
        assert leases.take(row, for_s=10) is None
        move_to(NOON + timedelta(seconds=10))
        second = leases.take(row, for_s=10)

    assert row.get().lease_token == second != first


def test_whoever_lost_a_lease_can_neither_renew_nor_release_it(row):
    with clock.frozen_at(NOON) as move_to:
        late = leases.take(row, for_s=10)
        move_to(NOON + timedelta(seconds=10))
        leases.take(row, for_s=10)

        assert not leases.renew(row, late, for_s=60)
        leases.release(row, late)

    assert row.get().lease_expires_at == NOON + timedelta(seconds=20)


def test_an_expired_lease_that_nobody_took_is_renewed(row):
    with clock.frozen_at(NOON) as move_to:
        token = leases.take(row, for_s=10)
        move_to(NOON + timedelta(seconds=30))

        assert leases.renew(row, token, for_s=10)
        assert row.get().is_leased_at(NOON + timedelta(seconds=39))


def test_a_lease_that_is_released_or_void_is_free_at_once(row):
    with clock.frozen_at(NOON):
        leases.release(row, leases.take(row, for_s=10))
        assert leases.take(row, for_s=10)
        leases.void(row)
        assert leases.take(row, for_s=10)


def test_work_renews_its_lease_once_it_has_taken_a_moment_and_then_at_half_its_time(
    db, monkeypatch, django_assert_num_queries
):
    leases.take_named("work", holder="a", for_s=5)
    seconds = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: seconds[0])
    with leases.kept(Lease.objects.filter(pk="work"), "a", for_s=60):
        for now, statements in ((0.9, 0), (1.0, 1), (30.9, 0), (31.0, 1)):
            seconds[0] = now
            with django_assert_num_queries(statements):
                assert list(leases.keep_for_each("x")) == ["x"]

    seconds[0] = 100.0
    with django_assert_num_queries(0):
        leases.keep()
