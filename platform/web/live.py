"""News for pages: topics that they subscribe to, and one server-sent stream a tab that says which of them changed.

A topic is `kind` or `kind:key`, with a stamp that is another one once it has changed. Each app adds its kinds when it
starts, and says who may hear of each. Nothing but "it changed" is ever told: the page asks for its region again, and so
sees what its reader may see.

However many tabs are open, a process asks for each topic once a second, in one short call on a shared thread; a signal
in the same process makes it look at once. An open stream holds neither a thread nor a database connection. It ends
after ten minutes and the browser connects anew, so that permissions are looked at again.
"""

import asyncio
import json
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import FrameType
from weakref import WeakKeyDictionary

import structlog
from asgiref.sync import SyncToAsync, sync_to_async
from django.db import close_old_connections, connections
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_GET

from accounts.permissions import Actor
from accounts.web.requests import PageRequest
from core.errors import InvalidInput, NotFound, PlatformError, TooManyRequests
from core.outages import log_failure

log = structlog.get_logger(__name__)

MOST_TOPICS = 20
MOST_STREAMS = 100
"""The most streams of a person that a process holds: many tabs, and far from all of its connections."""
RETRY_MS = 2000
KEEP_ALIVE_S = 15.0
MAX_AGE_S = 600.0
LOOK_EVERY_S = 1.0
LOOK_GAP_S = 0.25
"""However often somebody wakes it, it does not look more often than this."""

Check = Callable[[Actor, str], object]
Stamps = Callable[[Collection[str]], Mapping[str, str]]


class UnknownTopic(NotFound):
    """No app tells anything under this name."""

    code = "web.unknown_topic"


@dataclass(frozen=True)
class Kind:
    """What topics of one kind share.

    `check` raises the error that the page of that key would raise. `stamps` answers for all keys at once with one
    cheap query, as it is asked once a second while anybody watches; a key that it leaves out has changed into nothing.
    """

    check: Check
    stamps: Stamps


_kinds: dict[str, Kind] = {}


def add_kind(name: str, *, check: Check, stamps: Stamps) -> None:
    """Make topics of a kind known."""
    _kinds[name] = Kind(check, stamps)


def check(actor: Actor, topic: str) -> None:
    """Raise UnknownTopic, or the app's own error, unless the actor may follow the topic."""
    kind, _, key = topic.partition(":")
    if kind not in _kinds:
        raise UnknownTopic(f"There is no topic '{topic}'.")
    _kinds[kind].check(actor, key)


def read_stamps(topics: Collection[str]) -> dict[str, str]:
    """Return the stamps of checked topics, with one query for each kind among them."""
    keys: dict[str, set[str]] = {}
    for topic in topics:
        kind, _, key = topic.partition(":")
        keys.setdefault(kind, set()).add(key)
    stamps = {kind: _kinds[kind].stamps(keys_of_kind) for kind, keys_of_kind in keys.items()}
    return {topic: stamps[topic.partition(":")[0]].get(topic.partition(":")[2], "") for topic in topics}


class Watcher:
    """One stream of a person: the stamps that it has told, and those that it has yet to tell."""

    def __init__(self, topics: Collection[str], person: str = "") -> None:
        self.topics = frozenset(topics)
        self.person = person
        self._sent: dict[str, str] = {}
        self._news: dict[str, str] = {}
        self._has_news = asyncio.Event()

    def hear(self, stamps: Mapping[str, str]) -> None:
        """Note what is new among these stamps."""
        new = {topic: stamps[topic] for topic in self.topics if self._sent.get(topic) != stamps[topic]}
        if new:
            self._sent |= new
            self._news |= new
            self._has_news.set()

    def interrupt(self) -> None:
        """Let the wait end without news."""
        self._has_news.set()

    async def wait(self, timeout_s: float) -> Mapping[str, str]:
        """Return the newest stamps that are not told yet; none when the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._has_news.wait()
        except TimeoutError:
            return {}
        news, self._news = self._news, {}
        self._has_news.clear()
        return news


class Hub:
    """Looks at the topics of all streams of one event loop, as long as there are any."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watchers: set[Watcher] = set()
        self._looking: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self.is_closed = False

    def require_place(self, person: str) -> None:
        """Raise TooManyRequests where a person has as many streams as one may have."""
        if sum(watcher.person == person for watcher in self._watchers) >= MOST_STREAMS:
            raise TooManyRequests(f"{MOST_STREAMS} pages of yours listen for changes already.")

    def join(self, topics: Collection[str], person: str = "") -> Watcher:
        """Watch topics from now on; all of them are news at first."""
        watcher = Watcher(topics, person)
        self._watchers.add(watcher)
        self._woken.set()
        if self._looking is None or self._looking.done():
            self._looking = self._loop.create_task(self._look())
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Stop watching."""
        self._watchers.discard(watcher)

    def wake(self) -> None:
        """Look soon. May be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """End every stream, as the server is about to stop. May be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_streams)

    def _end_streams(self) -> None:
        self.is_closed = True
        self._woken.set()
        for watcher in self._watchers:
            watcher.interrupt()

    async def _look(self) -> None:
        while self._watchers and not self.is_closed:
            self._woken.clear()
            topics = frozenset().union(*(watcher.topics for watcher in self._watchers))
            try:
                stamps = await asyncio.to_thread(_read_stamps, topics)
            except Exception as error:  # noqa: BLE001 (the pages stay as they are until it can be read again)
                log_failure(log, "live.look_failed", error)
            else:
                for watcher in self._watchers:
                    if watcher.topics <= topics:
                        watcher.hear(stamps)
            await asyncio.sleep(LOOK_GAP_S)
            try:
                async with asyncio.timeout(LOOK_EVERY_S - LOOK_GAP_S):
                    await self._woken.wait()
            except TimeoutError:
                pass


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    _end_streams_with_process()
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


def wake(**_news: object) -> None:
    """Look at once, as something changed in this process. A receiver for the apps' signals."""
    for each in list(_hubs.values()):
        each.wake()


def end_streams() -> None:
    """End every stream of this process."""
    for each in list(_hubs.values()):
        each.close()


@cache
def _end_streams_with_process() -> None:
    """End the streams as soon as the process is told to stop: its server waits for all that it still answers."""
    if threading.current_thread() is not threading.main_thread():
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, frame: FrameType | None) -> None:
        end_streams()
        before = handlers[signal.Signals(number)]
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, before or signal.SIG_DFL)
            signal.raise_signal(number)

    for number in handlers:
        signal.signal(number, stop)


@require_GET
async def live_page(request: PageRequest) -> HttpResponseBase:
    """Stream the changes of the topics that the address names; 204, which browsers take as the end, for none.

    A topic that its reader may not hear of is refused by an event of its own; the error itself is the answer when no
    topic is left.
    """
    topics = sorted(set(request.GET.getlist("topic")))
    if len(topics) > MOST_TOPICS:
        raise InvalidInput(f"A page may listen to {MOST_TOPICS} topics at most.")
    if not topics:
        return HttpResponse(status=204)
    hub().require_place(request.actor.name)
    refused = await sync_to_async(_find_refused)(request.actor, topics)
    if len(refused) == len(topics):
        raise refused[topics[0]]
    return StreamingHttpResponse(
        follow([topic for topic in topics if topic not in refused], refused, person=request.actor.name),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def follow(
    topics: Collection[str], refused: Mapping[str, PlatformError], *, person: str = "", max_age_s: float = MAX_AGE_S
) -> AsyncGenerator[str]:
    """Yield the events of one stream until it is too old, or the server stops."""
    await _let_go_of_thread()
    shared = hub()
    watcher = shared.join(topics, person)
    ends_at = asyncio.get_running_loop().time() + max_age_s
    try:
        yield f"retry: {RETRY_MS}\n\n"
        for topic, error in refused.items():
            yield _event("refused", {"topic": topic, "code": error.code})
        while not shared.is_closed and (left := ends_at - asyncio.get_running_loop().time()) > 0:
            news = await watcher.wait(min(KEEP_ALIVE_S, left))
            for topic, stamp in news.items():
                yield _event("changed", {"topic": topic, "stamp": stamp})
            if not news and not shared.is_closed:
                yield _event("alive", {})
    finally:
        shared.leave(watcher)


def _event(name: str, data: Mapping[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _find_refused(actor: Actor, topics: Collection[str]) -> dict[str, PlatformError]:
    refused = {}
    for topic in topics:
        try:
            check(actor, topic)
        except PlatformError as error:
            refused[topic] = error
    return refused


def _read_stamps(topics: Collection[str]) -> dict[str, str]:
    close_old_connections()
    try:
        return read_stamps(topics)
    finally:
        close_old_connections()


async def _let_go_of_thread() -> None:
    """Give back the thread, and its connection, that Django keeps for each request until the last byte is sent.

    Should the request need one once more at its end, it gets a new one by itself.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(context, None) if context else None
    if executor is not None:
        await asyncio.get_running_loop().run_in_executor(executor, connections.close_all)
        executor.shutdown(wait=False)
