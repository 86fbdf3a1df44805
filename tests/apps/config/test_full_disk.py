"""A database that can grow no more: writes say why in one sentence, and reads go on."""

from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client

from accounts.models import ApiToken, AuditEntry
from accounts.services import tokens
from core import clock
from tests.factories.api import call
from tests.factories.browsers import browser_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite can be told how large it may become"),
]

SENTENCE = "The server&#x27;s disk is full, so nothing can be saved."


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


@pytest.fixture
def bearer(member) -> dict[str, str]:
    """The header of a token whose last use is to be noted by the next one."""
    token, secret = tokens.create_token(actor=member, name="kept", expires_at=None)
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=clock.now() - timedelta(days=1))
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def _full(browser, bearer):
    """Let no page be added to the database, and fill those that are free."""
    with connection.cursor() as cursor:
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OperationalError, match="database or disk is full"):
            _write_for_ever()
        yield
        cursor.execute("PRAGMA max_page_count = 1073741823")


def _write_for_ever() -> None:
    while True:
        AuditEntry.objects.create(target_name="x" * 300, facts={"x": "x" * 2000})


@pytest.mark.usefixtures("_full")
def test_a_program_is_told_that_the_disk_is_full(bearer):
    names = [f"{number:03}" * 30 for number in range(100)]
    answers = [call(None, "POST", "/tokens", {"name": name}, **bearer) for name in names]

    refused = answers[-1]
    assert (refused.status, refused.body["code"]) == (507, "core.storage_full")
    assert refused.body["title"] == "The server's disk is full, so nothing can be saved."
    assert refused.body["hint"] == "Ask an admin to free space on the server; until then everything can be read."


@pytest.mark.usefixtures("_full")
def test_a_person_is_told_the_same_sentence_on_a_page(browser):
    answers = [browser.post("/settings/tokens/", {"name": f"{n:03}" * 30, "days": "30"}) for n in range(100)]

    assert answers[-1].status_code == 507
    assert SENTENCE in answers[-1].content.decode()
    assert "core.storage_full" in answers[-1].content.decode()


@pytest.mark.usefixtures("_full")
def test_reads_go_on(browser, bearer):
    assert call(None, "GET", "/me", **bearer).body["name"] == "member"
    assert browser.get("/settings/tokens/").status_code == 200
    assert browser.get("/datasets/?project=team-a").status_code == 200
