"""The one way to a cluster's API server: JSON in, JSON out, over the official client's connections.

Every call has a timeout. A cluster that does not answer is asked less and less often, so that it slows nobody else; an
attended gateway asks by a thread of its own, and whoever calls meanwhile is told at once.
The official client is imported when the first call is made: it takes half a second, which the command line must not.
"""

import asyncio
import json
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError
from urllib3.exceptions import TimeoutError as PoolTimeoutError

from core.breaker import Breaker
from core.errors import in_words
from core.kubernetes.errors import ClusterUnreachable, KubeconfigRefused
from core.kubernetes.kubeconfig import Kubeconfig
from core.server_time import ServerTime

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

Json = dict[str, Any]

_CONNECT_S, _READ_S, _LIST_S = 3.0, 5.0, 15.0
_WATCH_S = 90
_PAGE = 500
_MANAGER = "nearline"
_CONFLICT, _GONE, _NOT_FOUND, _UNAUTHORISED, _TOO_MANY, _FAULT = 409, 410, 404, 401, 429, 500
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
# What the API server asks a node or a pod for.
_BEHIND_A_NODE = ("/log", "/proxy/metrics")
_NO_ANSWER = (HTTPError, OSError)
_ATTEND_EVERY_S, _UNUSED_S = 0.25, 120.0


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


def _as_it_is(item: Json) -> Json:
    return item


class Gateway:
    """Speaks with one cluster. Used from many threads at once. Every method may raise ClusterUnreachable.

    One that `is_attended` lets no caller wait for a cluster that is known not to answer. `answer_s` is how long one
    waits for an answer; a page of a list may take longer.
    """

    def __init__(
        self,
        config: Kubeconfig,
        breaker: Breaker | None = None,
        *,
        is_attended: bool = False,
        answer_s: float = _READ_S,
    ) -> None:
        self._config = config
        self._breaker = breaker or Breaker(ClusterUnreachable, longest_s=_CONNECT_S + _READ_S)
        self._guard = threading.Lock()
        self._pool: PoolManager | None = None
        self._configuration: Any = None
        self._is_attended = is_attended
        self._answer_s = answer_s
        self._attendant: threading.Thread | None = None
        self._used_at = time.monotonic()
        self.time = ServerTime()
        self.calls = 0

    @property
    def outages(self) -> int:
        """How often the cluster was found not to answer: another number says that what was known may be old."""
        return self._breaker.outages

    def check(self) -> None:
        """Raise ClusterUnreachable if the cluster did not answer when it was last asked. Asks nothing."""
        self._breaker.enter(may_try=False)

    def get(self, path: str, **query: str) -> Json | None:
        """Return an object; None when there is none. Raises Refusal."""
        try:
            return self._call("GET", path, query=query)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def create(self, path: str, body: Json, **query: str) -> Json | None:
        """Create an object and return it; None when one of that name exists. Raises Refusal.

        Any other conflict is the cluster's own, as where it counts several pods in one quota at once. It raises
        ClusterUnreachable, for who asks again may succeed.
        """
        try:
            return self._call("POST", path, body=body, query={"fieldManager": _MANAGER, **query})
        except Refusal as error:
            if error.status != _CONFLICT:
                raise
            if error.reason == "AlreadyExists":
                return None
            raise ClusterUnreachable(f"{self._config.server} answered {error.status}: {error.message}") from error

    def patch(self, path: str, body: Json, *, is_strategic: bool = False) -> Json | None:
        """Merge fields into an object and return it; None when there is none. Raises Refusal.

        One that `is_strategic` merges lists too, as the kind of the object says.
        """
        content_type = _STRATEGIC if is_strategic else _MERGE
        try:
            return self._call("PATCH", path, body=body, query={"fieldManager": _MANAGER}, content_type=content_type)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def delete(self, path: str, *, uid: str = "", grace_s: int | None = None) -> bool:
        """Delete an object, if it is still the one with this uid; say whether it was there. Raises Refusal."""
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
            return False
        return True

    def list(self, path: str, *, keep: Callable[[Json], Json] = _as_it_is, **query: str) -> Listed:
        """Return all objects, or what `keep` returns of each, a page at a time. Raises Refusal."""
        for is_last_try in (False, True):
            try:
                return self._list(path, query, keep=keep)
            except Refusal as error:  # a page that was asked for too late
                if error.status != _GONE or is_last_try:
                    raise
        raise AssertionError

    def list_metadata(self, path: str, selector: str) -> Sequence[Json]:
        """Return the metadata of all objects that fit a selector of labels, without their content. Raises Refusal."""
        page = self._list(path, {"labelSelector": selector}, accept=_METADATA)
        return [item["metadata"] for item in page.items]

    def _list(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        accept: str = _JSON,
        keep: Callable[[Json], Json] = _as_it_is,
    ) -> Listed:
        items: list[Json] = []
        token = ""
        while True:
            page = {"limit": str(_PAGE)} | ({"continue": token} if token else {})
            answer = self._call("GET", path, query={**query, **page}, read_s=_LIST_S, accept=accept, read=_reader(keep))
            page_items, meta = answer.get("items") or [], answer.get("metadata") or {}
            if not (isinstance(meta, dict) and isinstance(page_items, list)):
                raise ClusterUnreachable(f"{self._config.server} answered a list that is none of Kubernetes.")
            items += page_items
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
                yield event["type"], _without_managers(event["object"])
        except _NO_ANSWER as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def stream(self, path: str, read_s: float = _READ_S, **query: str) -> Iterator[bytes]:
        """Yield the bytes of a log, or of what a pod serves, as they come. Raises Refusal.

        A node that does not answer says nothing of the cluster's health.
        """
        response = self._send("GET", path, query, None, "application/json", read_s=read_s, is_stream=True)
        try:
            yield from response.stream(1 << 16)
        except _NO_ANSWER as error:
            raise ClusterUnreachable(f"The node's answer cannot be read further: {_in_words(error)}") from error
        finally:
            response.close()

    def connect(self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]) -> Any:
        """Open a WebSocket of the API and return it. A node that does not answer says nothing of the cluster's health.

        No redirect is followed, as by no other call: it could lead into our own network. Raises Refusal.
        """
        from websocket import WebSocketBadStatusException, WebSocketException, create_connection  # noqa: PLC0415

        self._enter()
        self._open()
        client = self._configuration
        options = {"ca_certs": client.ssl_ca_cert, "certfile": client.cert_file, "keyfile": client.key_file}
        options["server_hostname"] = client.tls_server_name
        try:
            token = self._config.read_token()
            self.calls += 1
            return create_connection(
                f"{self._config.server}{path}?{urlencode(query)}".replace("http", "ws", 1),
                timeout=self._answer_s,
                sslopt={key: value for key, value in options.items() if value},
                header=[f"Authorization: Bearer {token}"] if token else [],
                subprotocols=protocols,
                redirect_limit=0,
            )
        except WebSocketBadStatusException as error:
            raise Refusal(error.status_code, "", _message_of(error.resp_body or b"") or str(error)) from error
        except (WebSocketException, OSError) as error:
            raise ClusterUnreachable(f"{self._config.server} opens no connection: {_in_words(error)}") from error

    async def open_stream(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> "ClientConnection":
        """Open a WebSocket of the API for an event loop. A node that does not answer says nothing of the cluster.

        No redirect is followed. Raises Refusal.
        """
        from websockets.exceptions import InvalidHandshake, InvalidStatus  # noqa: PLC0415 (like the official client)
        from websockets.typing import Subprotocol  # noqa: PLC0415

        from core.kubernetes.direct_websocket import ConnectDirectly  # noqa: PLC0415

        context, token = await asyncio.to_thread(self._prepare_stream)
        try:
            return await ConnectDirectly(
                f"{self._config.server}{path}?{urlencode(query)}".replace("http", "ws", 1),
                ssl=context,
                server_hostname=self._configuration.tls_server_name or None,
                subprotocols=list(map(Subprotocol, protocols)),
                additional_headers={"Authorization": f"Bearer {token}"} if token else {},
                open_timeout=self._answer_s,
                compression=None,
                # A container may be slow to take what it is sent; what answers pings comes behind that.
                ping_timeout=None,
            )
        except InvalidStatus as error:
            message = _message_of(bytes(error.response.body or b"")) or str(error)
            raise Refusal(error.response.status_code, "", message) from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise ClusterUnreachable(f"{self._config.server} opens no connection: {_in_words(error)}") from error

    def _prepare_stream(self) -> tuple[ssl.SSLContext | None, str]:
        """Return what a WebSocket is encrypted with, and the token of the account."""
        self._enter()
        self._open()
        self.calls += 1
        client = self._configuration
        if not self._config.server.startswith("https:"):
            return None, self._config.read_token()
        context = ssl.create_default_context(cafile=client.ssl_ca_cert)
        if client.cert_file:
            context.load_cert_chain(client.cert_file, client.key_file)
        return context, self._config.read_token()

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        read_s: float = 0,
        read: Callable[[Json], Json] | None = None,
    ) -> Json:
        answer = self._send(
            method, path, query or {}, body, content_type, accept=accept, read_s=read_s or self._answer_s
        )
        try:
            value = json.loads(answer.data, object_hook=read)
        except (ValueError, RecursionError) as error:
            raise ClusterUnreachable(f"{self._config.server} answered something that is no JSON.") from error
        if not isinstance(value, dict):
            raise ClusterUnreachable(f"{self._config.server} answered JSON that is no object of Kubernetes.")
        return _without_managers(value)

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Json | None,
        content_type: str,
        *,
        read_s: float,
        accept: str = _JSON,
        is_stream: bool = False,
    ) -> BaseHTTPResponse:
        self._enter()
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": _MANAGER}
        url = f"{self._config.server}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            if token := self._config.read_token():
                headers["Authorization"] = f"Bearer {token}"
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
            # The node of a log may be away, of which the cluster's own health says nothing.
            if path.endswith(_BEHIND_A_NODE):
                raise ClusterUnreachable(f"The node's answer cannot be read: {_in_words(error)}") from error
            raise self._unreachable(error) from error
        if response.status >= _FAULT or response.status in {_TOO_MANY, _UNAUTHORISED}:
            _, message = _explain(response)
            message = f"{self._config.server} answered {response.status}: {message}".rstrip(" .:") + "."
            if path.endswith(_BEHIND_A_NODE):
                raise ClusterUnreachable(message)
            if response.status == _UNAUTHORISED:
                raise self._fail(f"{message} The token or certificate is wrong or has expired.", KubeconfigRefused)
            raise self._fail(message)
        self._breaker.succeed()
        self.time.note(response.headers.get("Date"))
        if response.status >= 300:  # noqa: PLR2004 (all others are no success)
            reason, message = _explain(response)
            raise Refusal(response.status, reason, message)
        return response

    def _enter(self) -> None:
        is_attendant = threading.current_thread() is self._attendant
        if not is_attendant:
            self._used_at = time.monotonic()
            if self._is_attended and self._breaker.is_open:
                self._attend()
        self._breaker.enter(may_try=is_attendant or not self._is_attended)

    def _attend(self) -> None:
        """Have a thread ask whether the cluster answers again, unless one does."""
        with self._guard:
            if self._attendant is None or not self._attendant.is_alive():
                name = f"attend {self._config.server}"
                self._attendant = threading.Thread(target=self._ask_until_answered, name=name, daemon=True)
                self._attendant.start()

    def _ask_until_answered(self) -> None:
        while self._breaker.is_open and time.monotonic() - self._used_at < _UNUSED_S:
            with suppress(ClusterUnreachable, Refusal):
                self._call("GET", "/version")
            if self._breaker.is_open:
                time.sleep(_ATTEND_EVERY_S)

    def _unreachable(self, error: Exception) -> ClusterUnreachable:
        cause = getattr(error, "reason", None) or error
        if isinstance(distrust := next(iter(cause.args), None), ssl.SSLCertVerificationError):
            message = f"{self._config.server} shows a certificate that the kubeconfig does not trust"
            return self._fail(f"{message}: {distrust.verify_message}.", KubeconfigRefused)
        is_slow = isinstance(cause, TimeoutError | PoolTimeoutError) and not isinstance(cause, NewConnectionError)
        return self._fail(f"{self._config.server} does not answer: {_in_words(cause)}.", is_slow=is_slow)

    def _fail(
        self, message: str, error: type[ClusterUnreachable] = ClusterUnreachable, *, is_slow: bool = False
    ) -> ClusterUnreachable:
        self._breaker.fail(message, is_slow=is_slow)
        if self._is_attended and self._breaker.is_open:
            self._attend()
        return error(message)

    def _open(self) -> PoolManager:
        with self._guard:
            if self._pool is None:
                # Half a second, which the command line and a start without clusters are spared.
                from kubernetes.config import new_client_from_config_dict  # noqa: PLC0415

                client = new_client_from_config_dict(self._config.to_client_config(), persist_config=False)
                self._configuration = client.configuration
                self._pool = client.rest_client.pool_manager
                self._pool.connection_pool_kw["maxsize"] = 16
            return self._pool


def _in_words(error: Exception) -> str:
    """Return what went wrong, without the library's own objects."""
    cause = error.args[-1] if isinstance(error, ProtocolError) else error
    return re.sub(r"^[<\w.]+\(.*?\)>?: ", "", in_words(cause)) or type(error).__name__


def _message_of(body: bytes) -> str:
    """Return what the body of a refusal says to people."""
    text = body.decode(errors="replace")
    with suppress(ValueError, AttributeError):
        text = str(json.loads(text).get("message") or text)
    return text.strip()


def _explain(response: BaseHTTPResponse) -> tuple[str, str]:
    text = response.data[: 1 << 16].decode(errors="replace")
    try:
        status = json.loads(text)
        return str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        return "", text[:300].strip()


def _without_managers(item: Json) -> Json:
    """Return an object less who has set which of its fields: as long as the fields, and read by nobody here."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return item


def _reader(keep: Callable[[Json], Json]) -> Callable[[Json], Json]:
    """Return what makes of each object of a page, as soon as it is parsed, what is kept of it.

    A page of 500 pods takes a quarter of the memory so, and half of the time.
    """

    def read(item: Json) -> Json:
        metadata = item.get("metadata")
        if not isinstance(metadata, dict):
            return item
        # Whatever is stored has an id; the templates within it have none.
        return keep(_without_managers(item)) if "uid" in metadata else _without_managers(item)

    return read


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for piece in response.stream(1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
