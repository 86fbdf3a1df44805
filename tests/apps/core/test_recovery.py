"""Leases of a dead process are void where it is known to be dead, and hold where another process may live."""

from dataclasses import replace

import pytest

from config import recovery
from core.models import take_lease


@pytest.mark.parametrize(
    ("database_url", "is_free"), [("", True), ("postgresql://elsewhere/nearline", False)], ids=["at home", "elsewhere"]
)
def test_only_the_home_folders_lock_proves_that_nobody_holds_a_lease(db, settings, database_url, is_free):
    settings.NEARLINE = replace(settings.NEARLINE, database_url=database_url)
    take_lease("leader", holder="killed", for_s=60)

    recovery.void_leases()

    assert take_lease("leader", holder="next", for_s=60) is is_free
