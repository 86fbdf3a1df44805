import threading
import time

import pytest
from django.db import OperationalError, connection

from compute.adapters import drivers
from compute.models import Resource
from compute.workers import watch
from core import connections
from tests.factories import compute as make


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_job_is_noticed_by_who_watches(home, project):
    resource, driver = make.make_resource(root=home / "scripted")
    [job] = make.submit(project, make.make_template(resource), "train")
    make.start([job])
    stop = threading.Event()
    watcher = threading.Thread(target=watch.watch_forever, args=(stop,))
    watcher.start()
    try:
        driver.finish("train")
        deadline = time.monotonic() + 60
        while make.state_of(job) == "running" and time.monotonic() < deadline:
            stop.wait(0.01)
    finally:
        stop.set()
        watcher.join(60)

    assert make.state_of(job) == "succeeded"
    assert not watcher.is_alive()


class Rounds:
    """A stop that is set after so many rounds."""

    def __init__(self, count: int) -> None:
        self.left = count

    def is_set(self) -> bool:
        return self.left <= 0

    def wait(self, _timeout_s: float) -> None:
        self.left -= 1


@pytest.mark.django_db(transaction=True)
def test_a_resource_is_watched_with_its_new_credentials(home, monkeypatch):
    resource, old = make.make_resource(root=home / "scripted")
    new, asked, stop = type(old)(home / "new", make.NODES), [], threading.Event()

    def wait_for_news(driver, _timeout_s):
        asked.append(driver)
        stop.wait(0.01)
        return False

    def wait_until(holds):
        deadline = time.monotonic() + 60
        while not holds() and time.monotonic() < deadline:
            stop.wait(0.01)

    monkeypatch.setattr(type(old), "wait_for_news", wait_for_news)
    watcher = threading.Thread(target=watch.watch_forever, args=(stop,))
    watcher.start()
    try:
        wait_until(lambda: asked)
        before = [rows.exists() for rows in watch.find_changed()]
        Resource.objects.filter(pk=resource.pk).update(credentials=b"n" * 100)
        drivers.install(Resource.objects.get(pk=resource.pk), new)
        changed = [rows.exists() for rows in watch.find_changed()]
        watch.read_attached()
        wait_until(lambda: not any(rows.exists() for rows in watch.find_changed()))
        wait_until(lambda: asked[-3:] == [new] * 3)
    finally:
        stop.set()
        watcher.join(60)

    assert (before, changed) == ([False, False], [False, True])
    assert asked[-3:] == [new] * 3


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_for_a_moment_does_not_end_the_watching():
    asked = []

    def be_away_at_first(execute, sql, params, many, context):
        if 'FROM "compute_resource"' in sql:
            asked.append(sql)
        if len(asked) == 1:
            raise OperationalError("the database is restarting")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(be_away_at_first):
        watch.watch_forever(Rounds(2))

    assert len(asked) == 2


@pytest.mark.django_db(transaction=True)
def test_a_driver_that_asks_the_database_first_gets_a_usable_connection_after_an_outage(home, project, monkeypatch):
    resource, driver = make.make_resource(root=home / "scripted")
    [job] = make.submit(project, make.make_template(resource), "train")
    make.start([job])
    stop, is_broken = threading.Event(), True
    wait_for_news, keep_usable = type(driver).wait_for_news, connections.keep_usable

    def ask_first(self, timeout_s):
        if is_broken:
            raise OperationalError("the connection is closed")
        return wait_for_news(self, timeout_s)

    def mend():
        nonlocal is_broken
        is_broken = is_broken and not threading.current_thread().name.startswith("watch-")
        keep_usable()

    monkeypatch.setattr(type(driver), "wait_for_news", ask_first)
    monkeypatch.setattr(watch.connections, "keep_usable", mend)
    watcher = threading.Thread(target=watch.watch_forever, args=(stop,))
    watcher.start()
    try:
        driver.finish("train")
        deadline = time.monotonic() + 60
        while make.state_of(job) == "running" and time.monotonic() < deadline:
            stop.wait(0.01)
    finally:
        stop.set()
        watcher.join(60)

    assert make.state_of(job) == "succeeded"
