"""A lease has one holder until it expires, is renewed, or is given back."""

from datetime import UTC, datetime, timedelta

from core import clock
from core.models import give_back_lease, take_lease

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_one_of_two_gets_the_lease_and_keeps_it_by_renewing(db):
    with clock.frozen_at(NOON) as move_to:
        assert take_lease("leader", holder="a", for_s=10)
        assert not take_lease("leader", holder="b", for_s=10)
        move_to(NOON + timedelta(seconds=9))
        assert take_lease("leader", holder="a", for_s=10)
        move_to(NOON + timedelta(seconds=18))
        assert not take_lease("leader", holder="b", for_s=10)


def test_an_expired_lease_goes_to_whoever_asks(db):
    with clock.frozen_at(NOON) as move_to:
        take_lease("leader", holder="a", for_s=10)
        move_to(NOON + timedelta(seconds=10))
        assert take_lease("leader", holder="b", for_s=10)
        assert not take_lease("leader", holder="a", for_s=10)


def test_a_lease_that_is_given_back_is_free_at_once_and_only_by_its_holder(db):
    with clock.frozen_at(NOON) as move_to:
        take_lease("leader", holder="a", for_s=10)
        give_back_lease("leader", holder="b")
        assert not take_lease("leader", holder="b", for_s=10)
        give_back_lease("leader", holder="a")
        move_to(NOON + timedelta(milliseconds=1))
        assert take_lease("leader", holder="b", for_s=10)
