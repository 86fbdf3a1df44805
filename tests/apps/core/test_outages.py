"""What an outage of the database is recognised by."""

import pytest
from django.db import InterfaceError, OperationalError

from core import clock, outages
from core.errors import NotFound
from core.outages import find_outage, log_failure


class _Refusal(Exception):
    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("words of PostgreSQL")
        self.sqlstate = sqlstate


def caused(error: Exception, *, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        caused(OperationalError("connection failed: Connection refused"), by=_Refusal(None)),
        caused(InterfaceError("connection already closed"), by=_Refusal(None)),
        caused(OperationalError("terminating connection due to administrator command"), by=_Refusal("57P01")),
        caused(OperationalError("sorry, too many clients already"), by=_Refusal("53300")),
        caused(ValueError("no page"), by=caused(OperationalError("the connection is lost"), by=_Refusal("08006"))),
    ],
)
def test_a_database_that_does_not_answer_is_one_error_in_whoevers_words(error):
    outage = find_outage(error)

    assert outage is not None
    assert (outage.code, outage.message) == ("core.database_unavailable", "The server's database does not answer.")


def test_a_full_disk_is_an_outage_too():
    outage = find_outage(OperationalError("database or disk is full"))

    assert outage is not None
    assert outage.code == "core.storage_full"


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("database is locked"),
        caused(OperationalError("canceling statement due to lock timeout"), by=_Refusal("55P03")),
        caused(OperationalError("canceling statement due to statement timeout"), by=_Refusal("57014")),
        NotFound("The database does not answer."),
    ],
)
def test_other_errors_are_not_taken_for_an_outage(error):
    assert find_outage(error) is None


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.told = []

    def error(self, event, **facts):
        self.told.append((event, "exc_info" in facts))


@pytest.fixture
def lines(monkeypatch):
    made = Lines()
    monkeypatch.setattr(outages, "log", made)
    monkeypatch.setattr(outages, "_tell_at", {})
    return made


def test_what_goes_on_while_the_database_is_away_tells_it_once_and_without_tracebacks(lines, monkeypatch):
    away = caused(OperationalError("connection failed: Connection refused"), by=_Refusal(None))
    now = 1000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)

    for _ in range(50):
        log_failure(lines, "task.failed", away, task="flows.advance")
        find_outage(away)

    assert lines.told == [("database.unavailable", False)]
    now += 11
    find_outage(away)
    assert len(lines.told) == 2


def test_what_nobody_anticipated_keeps_its_traceback_each_time(lines):
    for _ in range(2):
        log_failure(lines, "task.failed", ValueError("odd"), task="flows.advance")

    assert lines.told == [("task.failed", True)] * 2


def test_a_full_disk_is_told_in_a_line_each_time(lines):
    log_failure(lines, "task.failed", OperationalError("database or disk is full"))

    assert lines.told == [("task.failed", False)]
