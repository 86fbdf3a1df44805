"""Calls of the API: authentication, timeouts, retries, and problems as exceptions.

Calls that may be repeated without harm are repeated on network trouble and on 429, 502, 503 and 504, after a random
wait that grows (full jitter). Others are repeated only when nothing of the request was done: it never reached the
server, or too many of the same caller waited there.
"""

import json
import re
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from nearline import _problems, errors
from nearline.content.retry import (
    TOO_MANY_REQUESTS,
    Failure,
    RetryPolicy,
    Waiting,
    ignore_waiting,
    read_retry_after_s,
)

# The library's own command line takes half of its time to load, and nothing here uses it.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpx  # noqa: E402

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from nearline._store import Allocate, StoreConnections
    from nearline.content.hashing import Buffer

Json = dict[str, Any]
Query = Mapping[str, str | int | float | bool | list[str] | None]

API = "/api/v1"
_VERSION_HEADER = "nearline-client/0.1"
_CHECK = "Check the address: NEARLINE_URL, or the one given to `nearline login`."
_TIMEOUT = httpx.Timeout(60, connect=10)
_LARGEST_MESSAGE_BYTES = 1 << 20
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=64)
_PAGE = 1000
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_SHORT_RETRY_S, _LONG_RETRY_S = 30.0, 600.0
_REPEATABLE = {"GET", "HEAD", "PUT", "DELETE", "PATCH"}


def api_policy(on_wait: Callable[[Waiting], None] = ignore_waiting) -> RetryPolicy:
    """Return how calls of the API try again; each call says for itself what its failures mean."""
    return RetryPolicy(lambda _: Failure.PERMANENT, max_elapsed_s=_SHORT_RETRY_S, on_wait=on_wait)


class Answer(dict[str, Any]):
    """A JSON object that a server answered. A key that it lacks is refused in words that name the server."""

    url: str

    def __missing__(self, key: str) -> object:
        raise errors.ServerFailure(
            f"{self.url} answered an object without '{key}'. It is not a Nearline server, or one of another version.",
            hint=_CHECK,
            details={"key": key},
        )


class Http:
    """A connection to one server as one caller. Safe to share between threads.

    The caller is named by a token, or by the name and password `basic`, which are good for making a token only.
    A server that has never answered is given up after `max_first_attempts`: its address may be wrong.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        basic: tuple[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        store: "StoreConnections | None" = None,
        policy: RetryPolicy | None = None,
        max_first_attempts: int = 2,
    ) -> None:
        self.url = url
        self.policy = policy or api_policy()
        if token and not (token.isascii() and token.isprintable()):
            raise errors.InvalidRequest(
                "The access token holds a line break or another character that no token has.",
                hint="Copy it again, to NEARLINE_TOKEN or for `nearline login`.",
            )
        self._token = token
        self._max_first_attempts = max_first_attempts
        self._has_answered = False
        if store is not None:
            self._store = store
        address = _read_address(url)
        self._client = httpx.Client(
            transport=transport,
            # Reading the certificates that are trusted takes a while; without TLS none is.
            verify=address.scheme == "https" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            auth=basic,
            timeout=_TIMEOUT,
            limits=_LIMITS,
            headers={"User-Agent": _VERSION_HEADER},
            # A proxy that is set for the outside world must not swallow calls to this machine.
            trust_env=address.hostname not in _LOOPBACK,
        )

    def with_long_retries(self, limit_s: float | None = None) -> Self:
        """Return the same connection for work that is worth waiting for minutes, `limit_s` at most."""
        longer = copy(self)
        most_s = _LONG_RETRY_S if limit_s is None else min(limit_s, _LONG_RETRY_S)
        longer.policy = replace(self.policy, max_elapsed_s=most_s, max_throttled_s=most_s)
        return longer

    def anew(self) -> Self:
        """Return a connection of its own to the same server as the same caller, as another process needs it."""
        return type(self)(self.url, self._token, policy=self.policy)

    def pickled(self) -> tuple[str, str | None]:
        """Return address and token as they are pickled: the token only for a process that this one starts."""
        from multiprocessing.context import get_spawning_popen  # noqa: PLC0415 (slow to load, and few pickle)

        return self.url, None if get_spawning_popen() is None else self._token

    def close(self) -> None:
        """Drop the open connections."""
        self._client.close()
        if "_store" in self.__dict__:
            self._store.close()

    def get(self, path: str, /, **query: Any) -> Json:
        """Return the JSON that the API answers."""
        return self._json(self._call("GET", path, query=query))

    def post(
        self,
        path: str,
        body: object = None,
        /,
        *,
        may_repeat: bool = False,
        answer_s: float | None = None,
        **query: Any,
    ) -> Json:
        """Send JSON and return the answer. `may_repeat` says that sending it twice does no harm.

        `answer_s`: an answer may take so long; None: as long as any.
        """
        request = self._request("POST", API + path, body=body or {}, query=query, answer_s=answer_s)
        return self._json(self._send(request, may_repeat=may_repeat))

    def post_bytes(self, path: str, data: bytes, /, **query: Any) -> Json:
        """Send bytes as they are and return the answer; sending them twice does no harm."""
        request = self._request("POST", API + path, query=query, content=data)
        return self._json(self._send(request, may_repeat=True))

    def patch(self, path: str, body: object) -> Json:
        """Change some fields and return the answer."""
        return self._json(self._call("PATCH", path, body=body))

    def put(self, path: str, body: object) -> Json:
        """Put something in its place and return the answer."""
        return self._json(self._call("PUT", path, body=body))

    def delete(self, path: str, /, **query: Any) -> Json:
        """Remove what lies at the path and return what is said about it, if anything."""
        return self._json(self._call("DELETE", path, query=query))

    def list_items(self, path: str, /, *, limit: int | None = None, **query: Any) -> Iterator[Json]:
        """Yield the items of every page, at most `limit` of them."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            page = self.get(path, **query, cursor=cursor, limit=_PAGE if left is None else min(left, _PAGE))
            items = page.get("items")
            if not isinstance(items, list):
                raise errors.ServerFailure(f"{self.url} answered no list of items.", hint=_CHECK)
            items = items[:left]
            yield from items
            cursor = page.get("next_cursor")
            left = None if left is None else left - len(items)
            if cursor is None:
                return

    @contextmanager
    def stream(self, path: str, /, *, body: object = None, **query: Any) -> Iterator[Iterator[bytes]]:
        """Open a body as pieces of bytes; a break in the middle raises Unavailable. JSON is sent once."""
        request = self._request("GET" if body is None else "POST", API + path, query=query, body=body)
        response = self._send(request, may_repeat=body is None, is_stream=True)
        try:
            yield _pieces(response)
        finally:
            response.close()

    def connect(self, path: str, ticket: str) -> "ClientConnection":
        """Open a WebSocket of the server with a ticket, not with the caller's own token."""
        from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415 (few commands connect)
        from websockets.sync.client import connect  # noqa: PLC0415

        try:
            opening = connect(
                self.url.replace("http", "ws", 1) + path,
                ssl=httpx.create_ssl_context() if self.url.startswith("https:") else None,
                additional_headers={"Authorization": f"Bearer {ticket}"},
                user_agent_header=_VERSION_HEADER,
                compression=None,
                open_timeout=_TIMEOUT.read,  # a busy server may be as slow here as with any other answer
                proxy=None if _read_address(self.url).hostname in _LOOPBACK else True,
                # What a job is slow to take, the server is slow to read; its answers to pings come behind that.
                ping_timeout=None,
                max_size=_LARGEST_MESSAGE_BYTES,
            )
            # The library wants it entered; whoever gets it closes it.
            return ExitStack().enter_context(opening)
        except InvalidStatus as error:
            raise errors.Unavailable(
                f"{self.url} answered {error.response.status_code} where a WebSocket was asked for.",
                hint="A proxy before the server has to let WebSockets through; ask its admin.",
            ) from error
        except (OSError, InvalidHandshake) as error:
            raise errors.Unavailable(f"Cannot connect to {self.url}: {error}.") from error

    def send_signed(self, method: str, url: str, headers: Mapping[str, str], *parts: "Buffer") -> None:
        """Make one attempt at storing a body, given in parts, as `StoreConnections.send` does."""
        self._store.send(method, self._absolute(url), headers, *parts)

    def receive_signed(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        allocate: "Allocate",
        *,
        byte_range: tuple[int, int] | None = None,
    ) -> memoryview:
        """Make one attempt at reading from a store, as `StoreConnections.receive` does."""
        return self._store.receive(method, self._absolute(url), headers, allocate, byte_range=byte_range)

    @cached_property
    def _store(self) -> "StoreConnections":
        from nearline._store import StoreConnections  # noqa: PLC0415 (only transfers need it)

        return StoreConnections()

    def _absolute(self, url: str) -> str:
        # A folder store is served by the server itself.
        return self.url + url if url.startswith("/") else url

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Query | None = None,
        may_repeat: bool = False,
    ) -> httpx.Response:
        request = self._request(method, API + path, body=body, query=query)
        return self._send(request, may_repeat=may_repeat or method in _REPEATABLE)

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content: bytes | None = None,
        query: Query | None = None,
        answer_s: float | None = None,
    ) -> httpx.Request:
        given = {key: value for key, value in (query or {}).items() if value is not None}
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        timeout = httpx.USE_CLIENT_DEFAULT if answer_s is None else httpx.Timeout(answer_s, connect=_TIMEOUT.connect)
        try:
            return self._client.build_request(
                method,
                self.url + path + _query_text(given),
                headers=headers,
                content=content if body is None else json.dumps(body).encode(),
                timeout=timeout,
            )
        except httpx.InvalidURL as error:
            raise errors.InvalidRequest(
                f"A request to {self.url[:100]} has no possible address: {error}.",
                hint="Use shorter names. " + _CHECK,
            ) from error

    def _send(self, request: httpx.Request, *, may_repeat: bool, is_stream: bool = False) -> httpx.Response:
        failures = 0

        def classify(error: Exception) -> Failure:
            nonlocal failures
            failures += 1
            if not isinstance(error, errors.Unavailable):
                return Failure.PERMANENT
            if error.code == TOO_MANY_REQUESTS:
                return Failure.THROTTLED
            # Where nothing was sent, even what must not happen twice may be tried again.
            is_unsent = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
            is_unknown = not self._has_answered and failures >= self._max_first_attempts
            return Failure.UNAVAILABLE if (may_repeat or is_unsent) and not is_unknown else Failure.PERMANENT

        return replace(self.policy, classify=classify).repeat(lambda: self._attempt(request, is_stream=is_stream))

    def _attempt(self, request: httpx.Request, *, is_stream: bool) -> httpx.Response:
        try:
            response = self._client.send(request, stream=is_stream)
            self._has_answered = True
            if response.is_success:
                return response
            response.read()
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        raise self._problem_of(response)

    def _problem_of(self, response: httpx.Response) -> errors.NearlineError:
        status = response.status_code
        problem = _problems.read(status, response.content)
        if problem is None and status in _problems.PASSING:
            problem = errors.Unavailable(
                f"{self.url} answered {status}: what stands behind it is away or busy.",
                hint="Try again later. Those who run the server find the reason in its log.",
            )
        if isinstance(problem, errors.Unavailable):
            problem.retry_after_s = read_retry_after_s(response.headers.get("Retry-After"))
        return problem or errors.ServerFailure(
            f"{self.url} answered {status} in a form that Nearline does not use.",
            hint=_CHECK,
            details={"status": status},
        )

    def _json(self, response: httpx.Response) -> Json:
        if not response.content:
            return self._answer({})
        try:
            answer = json.loads(response.content, object_hook=self._answer)
        except (ValueError, RecursionError) as error:
            raise errors.ServerFailure(f"{self.url} answered something that is not JSON.", hint=_CHECK) from error
        if not isinstance(answer, Answer):
            raise errors.ServerFailure(f"{self.url} answered JSON that Nearline does not use.", hint=_CHECK)
        return answer

    def _answer(self, content: Json) -> Answer:
        answer = Answer(content)
        answer.url = self.url
        return answer


def _read_address(url: str) -> SplitResult:
    try:
        # The name of a host has to fit what asks for its address, too.
        httpx.URL(url).host.encode("idna")
        return urlsplit(url)
    except (ValueError, httpx.InvalidURL) as error:
        reason = str(error).rstrip(".")
        raise errors.InvalidRequest(f"'{url}' is no address of a server: {reason}.", hint=_CHECK) from error


def quoted(*parts: str) -> str:
    """Join names into a path; whatever they hold cannot reach another route.

    Raises NotFound for names that a proxy would take for steps in the path.
    """
    if strange := [part for part in parts if part in {"", ".", ".."}]:
        what = f"Nothing is called '{strange[0]}'." if strange[0] else "A name is empty."
        raise errors.NotFound(what, hint="Check the name.")
    return "".join("/" + quote(part, safe="", errors="surrogateescape") for part in parts)


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_bytes()
    except httpx.TransportError as error:
        raise errors.Unavailable(f"The connection broke in the middle of a file: {error}.") from error


def _query_text(query: Query) -> str:
    # File names need not be text: what Python holds as surrogates leaves as the bytes that it stands for.
    given = {key: str(value).lower() if isinstance(value, bool) else value for key, value in query.items()}
    return "?" + urlencode(given, doseq=True, errors="surrogateescape", quote_via=quote) if given else ""


def _unreachable(url: str, error: httpx.TransportError) -> errors.Unavailable:
    reason = re.sub(r"\[Errno -?\d+\] ", "", str(error)).rstrip(".") or type(error).__name__
    return errors.Unavailable(
        f"Cannot reach {url}: {reason}.", hint="Check that the server runs and that the address is right."
    )
