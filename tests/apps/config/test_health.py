"""Who may read the numbers of the process, and what is told of what it depends on."""

import shutil
from dataclasses import replace

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from structlog.testing import capture_logs

from accounts.models import User
from accounts.services import tokens
from config import dependencies
from core import outages
from tests.factories.browsers import browser_of
from tests.factories.datasets import make_store
from tests.markup import flat

pytestmark = pytest.mark.django_db


def test_the_machine_itself_reads_the_metrics_without_a_token(client):
    answer = client.get("/metrics", REMOTE_ADDR="127.0.0.1")

    assert answer.status_code == 200
    assert b"nearline_task_seconds" in answer.content


@pytest.mark.parametrize("request_of", [{"REMOTE_ADDR": "10.0.0.9"}, {"headers": {"X-Forwarded-For": "127.0.0.1"}}])
def test_somebody_elsewhere_needs_a_token_for_the_metrics(client, member, request_of):
    _, secret = tokens.create_token(actor=member, name="prometheus", expires_at=None)

    refused = client.get("/metrics", **request_of)
    assert (refused.status_code, refused.json()["code"]) == (401, "accounts.not_signed_in")

    headers = {"Authorization": f"Bearer {secret}", **request_of.get("headers", {})}
    assert client.get("/metrics", **{**request_of, "headers": headers}).status_code == 200


def test_a_worthless_token_reads_no_metrics(client):
    answer = client.get("/metrics", REMOTE_ADDR="10.0.0.9", headers={"Authorization": "Bearer nl_guess"})

    assert answer.status_code == 401


@pytest.fixture
def old_schema(client, member, monkeypatch):
    """A database that lacks a column, whose migration is not applied."""
    client.force_login(User.objects.get(pk=member.user_id))
    monkeypatch.setattr(outages, "_ask_again_at", 0.0)
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_arguments: ["the next one"])
    rename("name", "former_name")
    yield
    rename("former_name", "name")


def rename(name: str, to: str) -> None:
    with connection.cursor() as cursor:
        for table in ("core_lease", "compute_job"):
            cursor.execute(f"ALTER TABLE {table} RENAME COLUMN {name} TO {to}")


# PostgreSQL answers nothing more in a transaction in which a statement has failed.
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("old_schema")
def test_while_migrations_are_pending_pages_api_and_readyz_say_what_to_run(client):
    page, route, ready = client.get("/jobs/"), client.get("/api/v1/compute/jobs"), client.get("/readyz")

    assert (page.status_code, route.status_code, ready.status_code) == (503, 503, 503)
    for part in ("not migrated to the version of the server", "python manage.py setup", "core.migrations_pending"):
        assert part in page.content.decode()
    assert route.json()["code"] == "core.migrations_pending"
    assert ready.json()["checks"]["migrations"] == "some are not applied: run `python manage.py setup`"
    assert ready.json()["checks"]["database"] == "ok"


def test_why_the_database_is_away_is_told_to_the_log_and_not_to_everybody(client, monkeypatch):
    monkeypatch.setattr(outages, "_tell_at", {})
    reason = 'connection to server at "10.0.0.5" failed: no password for user "nearline"'

    def refuse(*_arguments):
        raise OperationalError(reason)

    with connection.execute_wrapper(refuse), capture_logs() as logs:
        answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["checks"]["database"]) == (503, "does not answer")
    assert "10.0.0.5" not in answer.content.decode()
    assert [(each["event"], each["error"]) for each in logs] == [("database.unavailable", reason)]


def test_a_query_that_is_wrong_on_a_migrated_database_is_no_pending_migration(monkeypatch):
    monkeypatch.setattr(outages, "_ask_again_at", 0.0)

    with pytest.raises(DatabaseError) as failed, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM core_lease")

    assert outages.find_outage(failed.value) is None


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store, and nothing that was asked before."""
    monkeypatch.setattr(dependencies, "_watches", {})
    monkeypatch.setattr(dependencies, "_ASK_EVERY_S", 0.0)
    return make_store(tmp_path / "store")


def test_a_store_or_a_broker_that_is_away_is_told_and_takes_no_process_out_of_service(
    client, store, tmp_path, settings, site_admin
):
    browser = browser_of(site_admin)
    browser.get("/settings/health/")
    assert client.get("/readyz").json()["checks"]["store"] == "ok"

    shutil.rmtree(tmp_path / "store")
    settings.NEARLINE = replace(settings.NEARLINE, broker_url="redis://127.0.0.1:1/0")
    page = flat(browser.get("/settings/health/").content.decode())
    answer = client.get("/readyz")

    assert answer.status_code == 200
    told = answer.json()["checks"]
    assert (told["store"], told["broker"]) == ("does not answer", "does not answer")
    assert f"folder {tmp_path / 'store'} is not there. Is its disk mounted?" in page
    assert "Redis does not answer: " in page


def test_the_health_of_the_installation_is_for_site_admins(client, member, store):
    assert browser_of(member).get("/settings/health/").status_code == 403
    assert "folder" not in client.get("/readyz").content.decode()
