"""What every test shares: no network beyond loopback, people with roles, and a world with one of everything."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.core.cache import cache
from django.db import connection
from pytest_socket import socket_allow_hosts

from accounts.models import Membership, Project, User
from accounts.permissions import Actor, Role
from accounts.selectors import actor_of
from core import clock, tasks
from datasets.workers.cache_leases import Heartbeat
from tests.architecture import world
from tests.architecture.world import World
from tests.factories.scheduler import NOON
from tests.transactions import watching_questions


@pytest.fixture(autouse=True)
def _loopback_only() -> None:
    socket_allow_hosts(["127.0.0.1", "localhost", "::1"], allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _nothing_read_recently() -> None:
    tasks.read_anew()


@pytest.fixture(autouse=True)
def _no_heartbeat_beside_the_transaction_of_a_test(request) -> Iterator[None]:
    """Only a test that commits has rows that the thread of a heartbeat sees; in others it would find its lease lost."""
    database = request.node.get_closest_marker("django_db")
    commits = database is not None and database.kwargs.get("transaction", False)
    with pytest.MonkeyPatch.context() as patch:
        if not commits and not {"transactional_db", "live_server"} & set(request.fixturenames):
            patch.setattr(Heartbeat, "_beat", lambda self: None)
        yield


@pytest.fixture(autouse=True)
def asked_within_transactions() -> Iterator[list[str]]:
    """Fail where a resource was asked within a transaction."""
    with watching_questions() as found:
        yield found
    assert found == [], found[0]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker) -> Iterator[None]:
    """End the sessions that threads of tests left open: PostgreSQL drops no database while one is there."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                others = "datname = current_database() AND pid <> pg_backend_pid()"
                cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


@pytest.fixture
def project(db) -> Project:
    return Project.objects.create(name="team-a")


@pytest.fixture
def make_actor(project):
    """Return a function that makes a person with a role in `project` (None: a stranger to it)."""

    def make(role: Role | None = Role.MEMBER, *, name: str = "", is_site_admin: bool = False) -> Actor:
        username = name or (str(role) if role else "stranger")
        user = User.objects.create_user(username, password=None, is_superuser=is_site_admin)
        if role is not None:
            Membership.objects.create(project=project, user=user, role=role)
        return actor_of(user)

    return make


@pytest.fixture
def member(make_actor) -> Actor:
    return make_actor(Role.MEMBER)


@pytest.fixture
def viewer(make_actor) -> Actor:
    return make_actor(Role.VIEWER)


@pytest.fixture
def site_admin(make_actor) -> Actor:
    return make_actor(None, name="root", is_site_admin=True)


@pytest.fixture
def move():
    """Let the clock stand at noon, and return what sets it."""
    with clock.frozen_at(NOON) as set_clock:
        yield set_clock


@pytest.fixture
def on_host(settings):
    """Return a context in which this process is one of another host."""

    @contextmanager
    def become(host: str) -> Iterator[None]:
        before = settings.NEARLINE
        settings.NEARLINE = replace(before, host_id=host)
        yield
        settings.NEARLINE = before

    return become


@pytest.fixture
def null_queue() -> Iterator[None]:
    """Nobody works in the background, also where a test runs with a queue of messages."""
    before = tasks.install(tasks.NullQueue())
    yield
    tasks.install(before)


@pytest.fixture
def everything(db, tmp_path, null_queue) -> Iterator[World]:
    """One or two of each thing that routes and pages are about, and nobody who works on it in the background."""
    cache.clear()
    yield world.build(tmp_path)
    cache.clear()
