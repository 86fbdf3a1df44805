"""The one way to a cluster's API server: JSON in, JSON out, over the official client's connections.

Every call has a timeout. A cluster that does not answer is asked less and less often, so that it slows nobody else.
The official client is imported when the first call is made: it takes half a second, which the command line must not.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError

from compute.adapters.kubernetes.kubeconfig import Kubeconfig
from compute.errors import ResourceUnreachable

Json = dict[str, Any]

_CONNECT_S, _READ_S = 3.0, 10.0
# Whatever a watch has missed is found by the list that follows it.
_WATCH_S = 90
_PAGE = 500
_MANAGER = "nearline"
_CONFLICT, _GONE, _NOT_FOUND, _UNAUTHORISED, _TOO_MANY, _FAULT = 409, 410, 404, 401, 429, 500
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_NO_ANSWER = (HTTPError, OSError)
_FIRST_PAUSE_S, _MOST_PAUSE_S, _FAILURES = 1.0, 60.0, 2


class Refusal(Exception):
    """The cluster answered that it will not do this; asking again does not help. `reason` is the API's own word."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Expired(Exception):
    """What a watch should go on from is forgotten: list anew."""


@dataclass(frozen=True)
class Listed:
    """The objects of a list, and the version from which a watch goes on."""

    items: list[Json]
    version: str


class Breaker:
    """Lets calls pass until some in a row were not answered, then only one after each pause, which grows."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._guard = threading.Lock()
        self._failures = 0
        self._closed_until = 0.0
        self._error = ""

    def enter(self) -> None:
        """Raise ResourceUnreachable instead of letting a call wait for a cluster that did not answer just now."""
        with self._guard:
            if self._failures < _FAILURES:
                return
            if self._now() < self._closed_until:
                raise ResourceUnreachable(self._error)
            self._closed_until = self._now() + _CONNECT_S + _READ_S  # one tries; the others wait for its result

    def succeed(self) -> None:
        """Note an answer."""
        with self._guard:
            self._failures = 0

    def fail(self, error: str) -> None:
        """Note that there was none."""
        with self._guard:
            self._failures += 1
            self._error = error
            pause = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** max(0, min(self._failures, 30) - _FAILURES))
            self._closed_until = self._now() + pause


class Gateway:
    """Speaks with one cluster. Used from many threads at once. Every method may raise ResourceUnreachable."""

    def __init__(self, config: Kubeconfig, breaker: Breaker | None = None) -> None:
        self._config = config
        self._breaker = breaker or Breaker()
        self._guard = threading.Lock()
        self._pool: PoolManager | None = None
        self.calls = 0

    def get(self, path: str, **query: str) -> Json | None:
        """Return an object; None when there is none. Raises Refusal."""
        try:
            return self._call("GET", path, query=query)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Json, **query: str) -> Json | None:
        """Create an object and return it; None when one of that name exists. Raises Refusal."""
        try:
            return self._call("POST", path, body=body, query={"fieldManager": _MANAGER, **query})
        except Refusal as error:
            if error.status == _CONFLICT and error.reason == "AlreadyExists":
                return None
            raise

    def apply(self, path: str, body: Json) -> Json:
        """Let an object have these fields, whether or not it exists (server-side apply). Raises Refusal."""
        query = {"fieldManager": _MANAGER, "force": "true"}
        return self._call("PATCH", path, body=body, query=query, content_type=_APPLY)

    def patch(self, path: str, body: Json) -> Json | None:
        """Merge fields into an object and return it; None when there is none. Raises Refusal."""
        try:
            return self._call("PATCH", path, body=body, query={"fieldManager": _MANAGER}, content_type=_MERGE)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def delete(self, path: str, *, uid: str = "", grace_s: int | None = None) -> None:
        """Delete an object, if it is still the one with this uid. One that is gone is success. Raises Refusal."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self._call("DELETE", path, body=body)
        except Refusal as error:
            if error.status not in {_NOT_FOUND, _CONFLICT}:
                raise

    def list(self, path: str, **query: str) -> Listed:
        """Return all objects, a page at a time. Raises Refusal."""
        for is_last_try in (False, True):
            try:
                return self._list(path, query)
            except Refusal as error:  # a page that was asked for too late
                if error.status != _GONE or is_last_try:
                    raise
        raise AssertionError

    def _list(self, path: str, query: Mapping[str, str]) -> Listed:
        items: list[Json] = []
        token = ""
        while True:
            page = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
            answer = self._call("GET", path, query={**query, **page})
            items += answer.get("items") or []
            meta = answer.get("metadata") or {}
            token = meta.get("continue") or ""
            if not token:
                return Listed(items, meta.get("resourceVersion", ""))

    def watch(self, path: str, version: str, **query: str) -> Iterator[tuple[str, Json]]:
        """Yield what changes after a version (`ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`), for a minute or two.

        Raises Expired when the cluster does not know the version any more, and Refusal.
        """
        seconds = _WATCH_S + random.randrange(30)  # noqa: S311 (so that clusters do not end all watches at once)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), **query}
        query["resourceVersion"] = version
        try:
            response = self._send("GET", path, query, None, "application/json", read_s=seconds + 10.0, is_stream=True)
        except Refusal as error:
            if error.status == _GONE:
                raise Expired from error
            raise
        try:
            for line in _lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    if status.get("code") == _GONE:
                        raise Expired
                    raise Refusal(status.get("code", 0), status.get("reason", ""), status.get("message", ""))
                yield event["type"], event["object"]
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def stream(self, path: str, read_s: float = _READ_S, **query: str) -> Iterator[bytes]:
        """Yield the bytes of a log as they come. A node that does not answer says nothing of the cluster's health.

        Raises Refusal.
        """
        response = self._send("GET", path, query, None, "application/json", read_s=read_s, is_stream=True)
        try:
            yield from response.stream(1 << 16)
        except _NO_ANSWER as error:
            raise ResourceUnreachable(f"The log cannot be read further: {_in_words(error)}") from error
        finally:
            response.close()

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        answer = self._send(method, path, query or {}, body, content_type, read_s=_READ_S)
        try:
            value: Json = json.loads(answer.data)
        except ValueError as error:
            raise ResourceUnreachable(f"{self._config.server} answered something that is no JSON.") from error
        return value

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Json | None,
        content_type: str,
        *,
        read_s: float,
        is_stream: bool = False,
    ) -> BaseHTTPResponse:
        self._breaker.enter()
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": _MANAGER}
        if self._config.token:
            headers["Authorization"] = f"Bearer {self._config.token}"
        url = f"{self._config.server}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            pool = self._open()
            self.calls += 1
            response = pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=Timeout(connect=_CONNECT_S, read=read_s),
                preload_content=not is_stream,
                retries=False,
                redirect=False,
            )
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error
        if response.status >= _FAULT or response.status in {_TOO_MANY, _UNAUTHORISED}:
            _, message = _explain(response)
            message = f"{self._config.server} answered {response.status}: {message}"
            raise ResourceUnreachable(message) if path.endswith("/log") else self._fail(message)
        self._breaker.succeed()
        if response.status >= 300:  # noqa: PLR2004 (all others are no success)
            reason, message = _explain(response)
            raise Refusal(response.status, reason, message)
        return response

    def _unreachable(self, error: Exception) -> ResourceUnreachable:
        cause = getattr(error, "reason", None) or error
        return self._fail(f"{self._config.server} does not answer: {_in_words(cause)}")

    def _fail(self, message: str) -> ResourceUnreachable:
        self._breaker.fail(message)
        return ResourceUnreachable(message)

    def _open(self) -> PoolManager:
        with self._guard:
            if self._pool is None:
                # Half a second, which the command line and a start without clusters are spared.
                from kubernetes.config import new_client_from_config_dict  # noqa: PLC0415

                client = new_client_from_config_dict(self._config.to_client_config(), persist_config=False)
                self._pool = client.rest_client.pool_manager
                self._pool.connection_pool_kw["maxsize"] = 16
            return self._pool


def _in_words(error: object) -> str:
    """Return what went wrong, without the library's own objects."""
    text = str(error)
    return text.rpartition(">: ")[2] or type(error).__name__


def _explain(response: BaseHTTPResponse) -> tuple[str, str]:
    text = response.data[: 1 << 16].decode(errors="replace")
    try:
        status = json.loads(text)
        return str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        return "", text[:300].strip()


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for piece in response.stream(1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
