"""Pages while no controller runs: what they show is as old as the last one, and they say so."""

from datetime import timedelta

import pytest

from core import clock, leases
from tests.factories.browsers import browser_of
from tests.markup import flat

pytestmark = pytest.mark.django_db
NOTE = "No controller is running."


@pytest.mark.parametrize("address", ["/jobs/", "/activity/"])
def test_what_may_be_old_is_said_to_be_until_a_controller_runs_again(member, address):
    browser = browser_of(member)

    def is_told() -> bool:
        return NOTE in flat(browser.get(address).content.decode())

    with clock.frozen_at(clock.now()) as move:
        assert not is_told()  # none has ever run: the first one is about to
        leases.take_named("leader", holder="one", for_s=20)
        move(clock.now() + timedelta(seconds=49))
        assert not is_told()
        move(clock.now() + timedelta(seconds=1))
        assert is_told()
        leases.take_named("leader", holder="another", for_s=20)
        assert not is_told()


def test_site_admins_are_led_to_what_is_wrong(member, site_admin):
    leases.take_named("leader", holder="one", for_s=-60)

    told = [flat(browser_of(actor).get("/jobs/").content.decode()) for actor in (member, site_admin)]

    assert ["Tell a site admin." in page for page in told] == [True, False]
    assert ["says more." in page for page in told] == [False, True]
