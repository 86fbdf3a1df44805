"""Redis and the stores: whether they answer.

Each is asked on a thread of its own, at most every ten seconds, so that nobody waits for one that is away.
"""

import threading
from collections.abc import Callable

import redis
from django.conf import settings

from core import clock
from datasets.selectors import store_health

_ASK_EVERY_S = 10.0
_TIMEOUT_S = 3


class _Watch:
    """What one of them answered last: what is wrong, empty where nothing is; None before the first answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._thread = threading.Thread()
        self._ask_at = 0.0
        self._fault: str | None = None

    def find_fault(self, ask: Callable[[], str], *, wait_s: float) -> str | None:
        """Return the last answer; ask for a new one when it is time, and wait for that a little."""
        with self._guard:
            if not self._thread.is_alive() and clock.monotonic() >= self._ask_at:
                self._thread = threading.Thread(target=self._run, args=(ask,), name="dependencies", daemon=True)
                self._thread.start()
            thread = self._thread
        if wait_s and thread.is_alive():
            thread.join(wait_s)
        return self._fault

    def _run(self, ask: Callable[[], str]) -> None:
        self._fault = ask()
        self._ask_at = clock.monotonic() + _ASK_EVERY_S


_watches: dict[str, _Watch] = {}
_guard = threading.Lock()


def find_faults(*, wait_s: float = 0.0) -> dict[str, str | None]:
    """Return what is wrong with the broker and each store, by name; empty: nothing, None: it has not answered yet.

    Raises DatabaseError where nobody can say which stores there are.
    """
    questions = {f"store {name}": ask for name, ask in store_health.list_questions().items()}
    if settings.NEARLINE.broker_url:
        questions["broker"] = _ask_broker
    with _guard:
        watches = {name: _watches.setdefault(name, _Watch()) for name in questions}
    return {name: watches[name].find_fault(ask, wait_s=wait_s) for name, ask in sorted(questions.items())}


def _ask_broker() -> str:
    try:
        with redis.Redis.from_url(
            settings.NEARLINE.broker_url, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S
        ) as broker:
            broker.ping()
    except redis.RedisError as error:
        return f"Redis does not answer: {error}"
    return ""
