"""Bodies to and from a store, by signed requests: in pieces, without a copy of the whole, and without our token.

Packs do not go through the HTTP library of `_http`: its requests and responses refer to each other in circles, so each
body would stay in memory until the garbage collector runs. Why a store refuses a signed request, S3 servers say in XML,
our folder store as a problem in JSON.
"""

import http.client
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from nearline import _problems, errors
from nearline.content.hashing import Buffer
from nearline.content.retry import read_retry_after_s

Allocate = Callable[[int], memoryview]

_USER_AGENT: Final = "nearline-client/0.1"
_LOOPBACK: Final = {"127.0.0.1", "localhost", "::1"}
_PIECE_BYTES: Final = 256 << 10
# What is read of an answer that is no content: a refusal's text.
_LONGEST_TEXT: Final = 64 << 10
_CONNECTIONS: Final = 64
_CONNECT_S, _PIECE_S = 10.0, 60.0
_PARTIAL, _REDIRECT = 206, 300
_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]*)</Message>")
_DENIALS = {400, 403}
_LONGEST_REASON = 300
_BROKEN = 500
_FULL = 507


class StoreConnections:
    """Connections to stores, kept open between requests. Safe to share between threads.

    Proxies come from the environment, except for this machine; so do certificates (SSL_CERT_FILE, SSL_CERT_DIR).
    `answer_s` is how long the next bytes of an answer may take. Redirects are refusals: a signed request is good for
    one address.
    """

    def __init__(self, *, answer_s: float = _PIECE_S) -> None:
        self._timeout = urllib3.Timeout(connect=_CONNECT_S, read=answer_s)
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Drop the open connections."""
        for pool in self._pools.values():
            pool.clear()

    def send(self, method: str, url: str, headers: Mapping[str, str], *parts: Buffer) -> None:
        """Make one attempt at sending a body, given in parts.

        Raises Denied with code `datasets.signature_expired` when it came too late, Unavailable for what another attempt
        may cure.
        """
        is_said = any(name.lower() == "content-length" for name in headers)
        length = {} if is_said else {"Content-Length": str(sum(map(len, parts)))}
        with self._request(method, url, {**headers, **length}, _pieces(parts)):
            pass

    def receive(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        allocate: Allocate,
        *,
        byte_range: tuple[int, int] | None = None,
    ) -> memoryview:
        """Make one attempt at reading an object, or a part given by first byte and length, into what `allocate` gives.

        Returns the filled part, which is shorter than asked where the object is. Raises like `send`; an answer that
        breaks off is Unavailable.
        """
        part = {"Range": f"bytes={byte_range[0]}-{sum(byte_range) - 1}"} if byte_range else {}
        with self._request(method, url, {**headers, **part}, None) as answer:
            return _read_content(answer, allocate, byte_range)

    @contextmanager
    def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: Iterator[memoryview] | None
    ) -> Iterator[http.client.HTTPResponse]:
        """Let an answer be read; its connection is used again only when nothing of the answer is left in it."""
        given = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity", **headers}
        try:
            answer = self._pool_for(url).urlopen(
                method,
                url,
                body=body,
                headers=given,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
            connection: Any = answer.connection
            content: http.client.HTTPResponse = connection.answer
            try:
                if content.status >= _REDIRECT:
                    text = content.read(_LONGEST_TEXT).decode("utf-8", "replace")
                    problem = read_problem(content.status, text)
                    if isinstance(problem, errors.Unavailable):
                        problem.retry_after_s = read_retry_after_s(content.getheader("Retry-After"))
                    raise problem
                yield content
                content.read(_LONGEST_TEXT)
            finally:
                if content.isclosed():
                    answer.release_conn()
                # Without effect on a connection that was given back.
                answer.close()
        except (HTTPError, http.client.HTTPException, OSError) as error:
            raise _unreachable(url, error) from error

    def _pool_for(self, url: str) -> urllib3.PoolManager:
        proxy = _find_proxy(url)
        # Reading the certificates takes longer than a small request: once is enough.
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = self._open_pool(proxy)
            return self._pools[proxy]

    def _open_pool(self, proxy: str | None) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": _CONNECTIONS, "timeout": self._timeout, "ssl_context": _trust()}
        if proxy is None:
            pool = urllib3.PoolManager(**options)
        else:
            pool = urllib3.ProxyManager(proxy, proxy_headers=_proxy_headers(proxy), **options)
        pool.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return pool


class _Connection(HTTPConnection):
    """Keeps the answer as the standard library reads it: it reads into given memory, without a copy.

    urllib3 would read pieces of an answer into memory of their own, which takes twice the CPU.
    """

    answer: http.client.HTTPResponse

    def connect(self) -> None:
        super().connect()
        # The limit for each piece that is sent; urllib3 would keep that for connecting.
        self.sock.settimeout(_PIECE_S)

    def response_class(self, *args: Any, **options: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        self.answer = http.client.HTTPResponse(*args, **options)
        return self.answer


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _pieces(parts: Sequence[Buffer]) -> Iterator[memoryview]:
    # A time limit is one for each piece: a whole pack may take a slow link longer.
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), _PIECE_BYTES):
            yield view[start : start + _PIECE_BYTES]


def _read_content(
    answer: http.client.HTTPResponse, allocate: Allocate, byte_range: tuple[int, int] | None
) -> memoryview:
    skip = byte_range[0] if byte_range and answer.status != _PARTIAL else 0
    if answer.length is None:
        whole = memoryview(answer.read())
        return whole[skip : skip + byte_range[1]] if byte_range else whole
    size = min(answer.length, byte_range[1]) if byte_range else answer.length
    while skip and (passed := len(answer.read(min(skip, _PIECE_BYTES)))):
        skip -= passed
    view = allocate(size)
    filled = 0
    while filled < size and (count := answer.readinto(view[filled:])):
        filled += count
    if filled < size and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return view[:filled]


def read_problem(status: int, text: str) -> errors.NearlineError:
    """Return the error that an answer of a store stands for; Unavailable when another attempt may cure it."""
    if refusal := _read_refusal(status, text):
        return refusal
    answer = f"The store answered {status}: {_describe(text)}"
    problem = _problems.read(status, text)
    if problem and (status == _FULL or isinstance(problem, errors.Unavailable)):
        return problem
    if status in _problems.PASSING or status >= _BROKEN:
        return errors.Unavailable(answer, code="client.store_busy")
    return problem or _problems.kind_of(status)(answer, code="client.store_refused")


def _read_refusal(status: int, text: str) -> errors.NearlineError | None:
    """Return the error for a permission that came too late or too early; None when it is about something else."""
    code, message = _parts_of(text)
    if status not in _DENIALS:
        return None
    if code == "RequestTimeTooSkewed" or "not valid yet" in message.lower():
        return errors.Denied(
            "The clocks of the Nearline server and of its store differ by more than the store allows.",
            code="client.clock_skew",
            hint="Ask an admin to have both set by a time server.",
        )
    # S3 has no code of its own for an address that was used too late.
    if code == "ExpiredToken" or "expired" in message.lower():
        return errors.Denied(
            "The store's permission has expired.",
            code="datasets.signature_expired",
            hint="So did each new one: the clocks of the Nearline server and of its store may differ. Ask an admin.",
        )
    return None


def _describe(text: str) -> str:
    """Return what an answer says, in one line for people."""
    code, message = _parts_of(text)
    return (f"{code}: {message}" if code else message)[:_LONGEST_REASON] or "no reason"


def _parts_of(text: str) -> tuple[str, str]:
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is None:
        return "", text.strip()
    return code[1], message[1] if message else ""


def _find_proxy(url: str) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    # A proxy that is set for the outside world must not swallow calls to this machine.
    if host in _LOOPBACK or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    name_and_password = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return dict(urllib3.make_headers(proxy_basic_auth=name_and_password))


def _trust() -> ssl.SSLContext:
    """Return whom to trust: the same as `_http` does."""
    import httpx  # noqa: PLC0415 (loaded already wherever there is a connection)

    return httpx.create_ssl_context()


def _unreachable(url: str, error: Exception) -> errors.NearlineError:
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    cause = _root_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return errors.Failed(
            f"The certificate of {place} is not trusted: {cause.verify_message}.",
            code="client.untrusted_store",
            hint="Name the file of trusted certificates: SSL_CERT_FILE=/path/to/certificates.pem.",
        )
    if isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError):
        reason = "it did not answer in time"
    else:
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return errors.Unavailable(f"Cannot reach {place}: {reason}.", hint="Check that the store runs, and the network.")


def _root_cause(error: BaseException) -> BaseException:
    """Return what the system said; urllib3 wraps it more than once."""
    while wrapped := [part for part in (*error.args, error.__cause__) if isinstance(part, BaseException)]:
        error = wrapped[0]
    return error
