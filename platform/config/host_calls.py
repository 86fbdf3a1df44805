"""Questions between hosts, carried by Redis: a list of questions for each host, and a list for each answer.

Lists expire, so nothing piles up for a host that is away. A question that was lost is asked again by whoever needs it.
"""

import json
import secrets
import threading
from typing import Any

import redis
import structlog
from django.conf import settings

from config import broker_outages
from core import connections, hosts
from core.hosts import HostAway

log = structlog.get_logger(__name__)

_TIMEOUT_S = 3
_KEPT_S = 10
_LISTEN_S = 1


class RedisHostCalls:
    """Asks by way of the message broker."""

    def __init__(self, broker_url: str) -> None:
        self._redis = redis.Redis.from_url(broker_url, socket_connect_timeout=_TIMEOUT_S, socket_timeout=2 * _KEPT_S)

    def ask(self, host: str, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """Put the question into the host's list, and wait for the answer."""
        reply_to = f"nearline:answer:{secrets.token_hex(16)}"
        try:
            self._put(_list_of(host), {"name": name, "facts": facts, "reply_to": reply_to})
            reply: Any = self._redis.blpop([reply_to], timeout=_TIMEOUT_S)
        except redis.RedisError as error:
            raise HostAway(f"The message broker does not answer: {error}.") from error
        if reply is None:
            raise HostAway(f"The host {hosts.name_of(host)} did not answer within {_TIMEOUT_S} s.")
        answer: dict[str, Any] = json.loads(reply[1])
        return answer

    def serve(self, stop: threading.Event) -> None:
        """Answer the questions to this host until `stop` is set."""
        while not stop.is_set():
            try:
                message: Any = self._redis.blpop([_list_of(hosts.this_host())], timeout=_LISTEN_S)
                if message is not None:
                    self._answer(json.loads(message[1]))
            except redis.RedisError as error:
                broker_outages.tell(error)
                stop.wait(_LISTEN_S)
        connections.close_all()

    def _answer(self, question: dict[str, Any]) -> None:
        connections.keep_usable()
        try:
            self._put(question["reply_to"], hosts.answer(question["name"], question["facts"]))
        except redis.RedisError:
            raise
        except Exception:  # whoever asked is told that nobody answers
            log.exception("host_calls.failed", question=question.get("name"))

    def _put(self, key: str, value: dict[str, Any]) -> None:
        with self._redis.pipeline() as pipe:
            pipe.rpush(key, json.dumps(value))
            pipe.expire(key, _KEPT_S)
            pipe.execute()


def start_answering(stop: threading.Event) -> None:
    """Answer questions to this host on a thread of its own until `stop` is set."""
    if settings.NEARLINE.broker_url:
        calls = RedisHostCalls(settings.NEARLINE.broker_url)
        threading.Thread(target=calls.serve, args=(stop,), name="host-calls", daemon=True).start()


def _list_of(host: str) -> str:
    return f"nearline:host:{host}"
