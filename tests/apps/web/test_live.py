"""The live channel, asked as a browser asks it: through the ASGI application, by a signed-in person."""

import asyncio
import json
import queue
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import pytest
from asgiref.sync import SyncToAsync, async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.db import connections

from accounts.models import Membership
from config.asgi import application
from flows.models import Run, RunEvent
from tests.factories.browsers import browser_of
from tests.factories.flows import World
from web import live

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT_S = 300


@pytest.fixture
def run(project, member, tmp_path, null_queue) -> Run:
    text = "flow: one\nsteps:\n  - {name: only, command: 'true'}\n"
    return World(tmp_path).start(member, project, text)


def cookie_of(actor) -> str:
    client = browser_of(actor)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@asynccontextmanager
async def connect(cookie: str, *topics: str):
    """Open a stream; at the end, leave as a browser does that closes the tab."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/live/",
        "query_string": urlencode([("topic", topic) for topic in topics]).encode(),
        "headers": [(b"host", b"localhost"), (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())],
    }
    stream = ApplicationCommunicator(application, scope)
    await stream.send_input({"type": "http.request", "body": b"", "more_body": False})
    try:
        yield stream
    finally:
        await stream.send_input({"type": "http.disconnect"})
        await stream.wait(timeout=LIMIT_S)


async def read_event(stream) -> tuple[str, dict]:
    """Return the next event's name and data, passing over the browser's instructions."""
    while True:
        sent = await stream.receive_output(timeout=LIMIT_S)
        text = sent.get("body", b"").decode()
        if text.startswith("event: "):
            name, data = text.strip().splitlines()
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def happen(run: Run) -> None:
    RunEvent.objects.create(run=run, seq=run.event_seq + 1, kind="test", at=run.created_at)
    Run.objects.filter(pk=run.pk).update(event_seq=run.event_seq + 1)


def test_a_stream_says_where_its_topics_are_and_then_what_changed(run, member):
    cookie = cookie_of(member)

    async def watch():
        async with connect(cookie, f"run:{run.pk}") as stream:
            start = await stream.receive_output(timeout=LIMIT_S)
            first = await read_event(stream)
            await asyncio.to_thread(happen_in_thread, run)
            return start, first, await read_event(stream)

    start, first, second = async_to_sync(watch)()

    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    assert (start["status"], headers["content-type"]) == (200, "text/event-stream")
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
    assert first == ("changed", {"topic": f"run:{run.pk}", "stamp": "1"})
    assert second == ("changed", {"topic": f"run:{run.pk}", "stamp": "2"})


def happen_in_thread(run: Run) -> None:
    try:
        happen(run)
        live.wake()
    finally:
        connections.close_all()


def test_a_page_notes_the_stamp_that_the_stream_tells(run, member):
    assert live.read_stamps([f"run:{run.pk}", "run:none", "jobs"]) == {
        f"run:{run.pk}": "1",
        "run:none": "",
        "jobs": "None",
    }


def test_nobody_hears_of_a_run_of_others_and_the_rest_is_told(run, member, make_actor):
    cookie = cookie_of(make_actor(None))

    async def watch():
        async with connect(cookie, f"run:{run.pk}", "jobs") as stream:
            return [await read_event(stream), await read_event(stream)]

    refused, changed = async_to_sync(watch)()

    assert refused == ("refused", {"topic": f"run:{run.pk}", "code": "flows.run_not_found"})
    assert changed[1]["topic"] == "jobs"


@pytest.mark.parametrize(
    ("topics", "status"), [(["run:none"], 404), (["nothing"], 404), ([], 204), ([f"run:{n}" for n in range(21)], 400)]
)
def test_a_stream_that_has_nothing_to_tell_is_no_stream(member, topics, status):
    cookie = cookie_of(member)

    async def ask():
        async with connect(cookie, *topics) as stream:
            return await stream.receive_output(timeout=LIMIT_S)

    assert async_to_sync(ask)()["status"] == status


def test_a_person_has_so_many_streams_and_takes_none_from_others(run, member, make_actor, monkeypatch):
    monkeypatch.setattr(live, "MOST_STREAMS", 2)
    mine, others = cookie_of(member), cookie_of(make_actor(None))

    async def status(cookie: str):
        async with connect(cookie, "jobs") as stream:
            return (await stream.receive_output(timeout=LIMIT_S))["status"]

    async def ask():
        async with connect(mine, "jobs") as first, connect(mine, "jobs") as second:
            for stream in (first, second):
                await read_event(stream)
            full = await status(mine), await status(others)
        return *full, await status(mine)

    assert async_to_sync(ask)() == (429, 200, 200)


def test_who_left_the_project_hears_no_more_when_the_stream_is_opened_anew(run, member):
    cookie = cookie_of(member)

    async def status():
        async with connect(cookie, f"run:{run.pk}") as stream:
            return (await stream.receive_output(timeout=LIMIT_S))["status"]

    assert async_to_sync(status)() == 200
    Membership.objects.all().delete()
    assert async_to_sync(status)() == 404


def test_a_stream_ends_when_it_is_old(run):
    async def follow():
        return [event async for event in live.follow([f"run:{run.pk}"], {}, max_age_s=0)]

    assert async_to_sync(follow)() == ["retry: 2000\n\n"]


def test_streams_end_when_the_server_is_told_to_stop(run, member):
    cookie = cookie_of(member)

    async def watch():
        async with connect(cookie, f"run:{run.pk}") as stream:
            await read_event(stream)
            live.end_streams()
            last = {"more_body": True}
            while last.get("more_body"):
                last = await stream.receive_output(timeout=LIMIT_S)
            return last

    assert async_to_sync(watch)() == {"type": "http.response.body"}


def test_many_tabs_are_one_look_and_hold_no_thread(run, member, monkeypatch):
    cookie = cookie_of(member)
    looks = queue.SimpleQueue()

    def look(keys):
        looks.put(set(keys))
        return dict.fromkeys(keys, "1")

    monkeypatch.setitem(live._kinds, "counted", live.Kind(lambda *_: None, look))

    async def watch():
        async with connect(cookie, "counted:a") as first, connect(cookie, "counted:a", "counted:b") as second:
            for stream in (first, second, second):
                await read_event(stream)
            held = dict(SyncToAsync.context_to_thread_executor)
            while not looks.empty():
                looks.get()
            live.wake()
            return held, await asyncio.to_thread(looks.get, timeout=LIMIT_S)

    assert async_to_sync(watch)() == ({}, {"a", "b"})


def test_a_look_that_fails_ends_no_stream(run, member, monkeypatch):
    cookie = cookie_of(member)
    answers = iter([RuntimeError("the database is away"), {"a": "1"}])

    def answer(_keys):
        said = next(answers)
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setitem(live._kinds, "shaky", live.Kind(lambda *_: None, answer))

    async def watch():
        async with connect(cookie, "shaky:a") as stream:
            await stream.receive_output(timeout=LIMIT_S)
            live.wake()
            return await read_event(stream)

    assert async_to_sync(watch)() == ("changed", {"topic": "shaky:a", "stamp": "1"})
