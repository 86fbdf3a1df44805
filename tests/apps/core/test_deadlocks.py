"""A use case that met a deadlock is repeated, a few times; other errors are not."""

import pytest
from django.db import OperationalError

from core.deadlocks import repeated_after_deadlock

pytestmark = pytest.mark.django_db(transaction=True)


class Ended(Exception):
    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


def make(failures: int, sqlstate: str = "40P01"):
    tries: list[str] = []

    @repeated_after_deadlock
    def work(name: str) -> str:
        tries.append(name)
        if len(tries) <= failures:
            raise OperationalError("deadlock detected") from Ended(sqlstate)
        return name.upper()

    return work, tries


def test_it_is_repeated_until_it_ends_well():
    work, tries = make(2)

    assert (work("a"), tries) == ("A", ["a", "a", "a"])


@pytest.mark.parametrize(("failures", "sqlstate", "count"), [(3, "40P01", 3), (1, "57014", 1)])
def test_what_does_not_end_or_is_no_deadlock_is_raised(failures, sqlstate, count):
    work, tries = make(failures, sqlstate)

    with pytest.raises(OperationalError):
        work("a")
    assert len(tries) == count
