"""The one way to a Docker daemon: calls of the Engine's API over its Unix socket or HTTPS, by httpx.

Every call has a timeout. A daemon that does not answer is asked less and less often, so that it slows nobody else.
httpx is imported when the first call is made, which the command line must not wait for.
"""

import asyncio
import base64
import json
import re
import ssl
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compute.errors import CredentialsRefused, InvalidResource, ResourceUnreachable
from core.breaker import Breaker
from core.errors import in_words
from core.server_time import ServerTime

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

_CONNECT_S, _ANSWER_S = 3.0, 10.0
_SILENT_S = 5.0
_PIECE_BYTES = 1 << 16
_NOT_FOUND, _CONFLICT, _FAULT, _REFUSED, _SWITCHED = 404, 409, 500, 400, 101
_STDERR = 2
_MOST_WORDS = 500
_CLIENT_REFUSED = re.compile(r"_ALERT_(\w*CERTIFICATE|UNKNOWN_CA)")
"""How OpenSSL says that the daemon refuses the client's certificate."""


@dataclass(frozen=True)
class Address:
    """Where a daemon answers. Certificates are texts, in PEM's format."""

    url: str
    authority: str = ""
    certificate: str = ""
    private_key: str = field(default="", repr=False)

    @property
    def socket(self) -> str:
        """The path of its Unix socket; empty: it is reached over a network."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else ""


class Refusal(Exception):
    """The daemon answered that it will not do this; asking again does not help."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Engine:
    """Speaks with one daemon. Used from many threads at once. Every method may raise ResourceUnreachable."""

    def __init__(self, address: Address, breaker: Breaker | None = None) -> None:
        """Take an address. Nothing is opened yet."""
        self._address = address
        self._breaker = breaker or Breaker(ResourceUnreachable, longest_s=_CONNECT_S + _ANSWER_S)
        self._guard = threading.Lock()
        self._client: httpx.Client | None = None
        self.time = ServerTime()

    def close(self) -> None:
        """End all connections. The next call opens others."""
        with self._guard:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def get(self, path: str, **query: str) -> Any:
        """Return what is at a path; None where there is nothing. Raises Refusal."""
        return self._find("GET", path, query)

    def post(self, path: str, body: Json | None = None, *, answer_s: float = _ANSWER_S, **query: str) -> Any:
        """Do something and return the answer. Raises Refusal."""
        with self._send("POST", path, query, body=body or {}, read_s=answer_s) as answer:
            return _value_of(answer)

    def delete(self, path: str, **query: str) -> None:
        """Remove something. What is gone is success. Raises Refusal."""
        self._find("DELETE", path, query)

    def _find(self, method: str, path: str, query: Mapping[str, str]) -> Any:
        try:
            with self._send(method, path, query) as answer:
                return _value_of(answer)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def follow(self, path: str, *, silent_s: float, method: str = "GET", **query: str) -> Iterator[Json]:
        """Yield the objects that a call tells one after the other; silence of that length ends it.

        The time until the answer begins is no such silence. Raises Refusal.
        """
        rest = b""
        for piece in self._pieces(path, method, query, silent_s=silent_s):
            *lines, rest = (rest + piece).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())

    def _pieces(self, path: str, method: str, query: Mapping[str, str], *, silent_s: float) -> Iterator[bytes]:
        import httpx  # noqa: PLC0415

        body: Json | None = {} if method == "POST" else None
        until_head_s = max(silent_s, _ANSWER_S)
        with self._send(method, path, query, body=body, read_s=until_head_s) as answer, suppress(httpx.ReadTimeout):
            answer.request.extensions["timeout"]["read"] = silent_s
            yield from answer.iter_raw()

    def stream(self, path: str, read_s: float = _ANSWER_S, **query: str) -> Iterator[bytes]:
        """Yield what the two outputs of a container or a command printed, as it comes. Raises Refusal."""
        with self._send("GET", path, query, read_s=read_s) as answer:
            yield from (data for _, data in _unframe(answer.iter_raw()))

    def import_image(self, archive: bytes, name: str) -> None:
        """Make an image of an archive of its files. Raises Refusal."""
        repository, _, tag = name.rpartition(":")
        query = {"fromSrc": "-", "repo": repository, "tag": tag}
        with self._send("POST", "/images/create", query, content=[archive]) as answer:
            answer.read()

    def write_archive(self, container: str, archive: Iterable[bytes]) -> None:
        """Unpack an archive over the root of a container. Raises Refusal, and what the archive raises."""
        query = {"path": "/", "noOverwriteDirNonDir": "false"}
        with self._send("PUT", f"/containers/{container}/archive", query, content=archive, read_s=60) as answer:
            answer.read()

    @contextmanager
    def read_archive(self, container: str, path: str) -> Iterator[Iterator[bytes]]:
        """Yield the archive of a path in a container. Raises FileNotFoundError and Refusal."""
        try:
            with self._send("GET", f"/containers/{container}/archive", {"path": path}) as answer:
                yield answer.iter_raw(_PIECE_BYTES)
        except Refusal as error:
            if error.status == _NOT_FOUND:
                raise FileNotFoundError(path) from error
            raise

    def find_entry(self, container: str, path: str) -> Json | None:
        """Return what is known of a path in a container; None where there is nothing. Raises Refusal."""
        try:
            with self._send("HEAD", f"/containers/{container}/archive", {"path": path}) as answer:
                facts: Json = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
                return facts
        except Refusal as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def attach(self, exec_id: str, *, stdin: bytes | None, silent_s: float = _SILENT_S) -> Iterator[tuple[bool, bytes]]:
        """Run a command that was made, with an input (None: it has none), and yield what it prints.

        The first of a pair says whether it went to its output of errors. One without bytes is sent when nothing was
        printed for `silent_s`. Raises Refusal at once.
        """
        import httpcore  # noqa: PLC0415 (comes with httpx)

        upgrade = {"Connection": "Upgrade", "Upgrade": "tcp"}
        path, body = f"/exec/{exec_id}/start", {"Detach": False, "Tty": False}
        with self._send("POST", path, {}, body=body, headers=upgrade) as answer:
            if answer.status_code != _SWITCHED:
                yield from ((kind == _STDERR, data) for kind, data in _unframe(answer.iter_raw()))
                return
            stream = answer.extensions["network_stream"]
            if stdin is not None:
                stream.write(stdin, timeout=_ANSWER_S)
            if (plain := stream.get_extra_info("socket")) is not None and not stream.get_extra_info("ssl_object"):
                with suppress(OSError):
                    plain.shutdown(1)

            def pieces() -> Iterator[bytes]:
                while True:
                    try:
                        piece = stream.read(_PIECE_BYTES, timeout=silent_s)
                    except httpcore.ReadTimeout:
                        yield b""
                        continue
                    if not piece:
                        return
                    yield piece

            yield from ((kind == _STDERR, data) for kind, data in _unframe(pieces(), tells_silence=True))

    async def open_terminal(self, exec_id: str) -> "tuple[httpx.AsyncClient, httpx.Response]":
        """Run a command that was made with a terminal; return what carries its bytes. Raises Refusal."""
        import httpx  # noqa: PLC0415

        self._breaker.enter()
        url, options = await asyncio.to_thread(self._read_transport)
        transport = httpx.AsyncHTTPTransport(**options)
        client = httpx.AsyncClient(transport=transport, base_url=url, trust_env=False)
        timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        body = {"Detach": False, "Tty": True}
        try:
            request = client.build_request(
                "POST", f"/exec/{exec_id}/start", json=body, headers=headers, timeout=timeout
            )
            answer = await client.send(request, stream=True)
            if answer.status_code == _SWITCHED:
                return client, answer
            message = (await answer.aread()).decode(errors="replace")
        except httpx.TransportError as error:
            await client.aclose()
            raise ResourceUnreachable(f"{self._address.url} opens no connection: {in_words(error)}") from error
        await client.aclose()
        raise Refusal(answer.status_code, message[:_MOST_WORDS])

    @contextmanager
    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: Json | None = None,
        content: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float = _ANSWER_S,
    ) -> "Iterator[httpx.Response]":
        """Ask, and yield the answer before its body was read."""
        import httpcore  # noqa: PLC0415 (a tenth of a second, which a start without such hosts is spared)
        import httpx  # noqa: PLC0415

        # What a command prints is read below httpx (`attach`), with the errors of httpcore.
        timeouts = (httpx.TimeoutException, httpcore.TimeoutException)
        failures = (httpx.TransportError, httpcore.NetworkError, ssl.SSLError, *timeouts)
        self._breaker.enter()
        timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S, read=read_s)
        try:
            with self._open().stream(
                method, path, params=query, json=body, content=content, headers=headers, timeout=timeout
            ) as answer:
                self._breaker.succeed()
                self.time.note(answer.headers.get("Date"))
                if answer.status_code >= _REFUSED:
                    raise self._refusal_of(answer)
                yield answer
        except failures as error:
            unreachable = _in_words(self._address, error)
            self._breaker.fail(unreachable.message, is_slow=isinstance(error, timeouts))
            raise unreachable from error

    def _refusal_of(self, answer: "httpx.Response") -> Refusal:
        text = answer.read().decode(errors="replace")
        with suppress(ValueError, AttributeError):
            text = str(json.loads(text)["message"])
        return Refusal(answer.status_code, " ".join(text.split())[:_MOST_WORDS] or f"it answers {answer.status_code}.")

    def _open(self) -> "httpx.Client":
        import httpx  # noqa: PLC0415

        with self._guard:
            if self._client is None:
                url, options = self._read_transport()
                # Archives are read as they come, and nothing of the platform's own environment is used.
                headers = {"Accept-Encoding": "identity"}
                transport = httpx.HTTPTransport(**options)
                self._client = httpx.Client(transport=transport, base_url=url, headers=headers, trust_env=False)
            return self._client

    def _read_transport(self) -> tuple[str, Json]:
        """Return the base of URLs, and by what a transport reaches the daemon."""
        if self._address.socket:
            # Reading the certificates that are trusted takes a while; a socket has no TLS.
            return "http://docker", {"uds": self._address.socket, "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}
        return self._address.url, {"verify": open_context(self._address)}


def _in_words(address: Address, error: Exception) -> ResourceUnreachable:
    """Return what went wrong between here and a daemon."""
    reason = in_words(error).rstrip(".")
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return CredentialsRefused(
            f"{address.url} shows a certificate that is not trusted: {reason}. Give the certificate of the authority "
            "that signed it.",
            field="docker_ca",
        )
    if _CLIENT_REFUSED.search(reason):
        return CredentialsRefused(
            f"{address.url} does not let in the client's certificate: {reason}. Give one that the authority of the "
            "daemon has signed.",
            field="docker_certificate",
        )
    return ResourceUnreachable(f"{address.url} does not answer: {reason}.")


def open_context(address: Address) -> ssl.SSLContext:
    """Return what connections to a daemon are encrypted with. Raises InvalidResource."""
    try:
        context = ssl.create_default_context(cadata=address.authority or None)
    except ssl.SSLError as error:
        raise InvalidResource(
            f"The certificate of the authority cannot be read: {error}.", field="docker_ca"
        ) from error
    if address.certificate:
        # The library reads both from files only.
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "certificate"), Path(folder, "key")
            for file, text in ((certificate, address.certificate), (key, address.private_key)):
                file.touch(0o600)
                file.write_text(text)
            try:
                context.load_cert_chain(certificate, key)
            except (ssl.SSLError, OSError) as error:
                message = f"The client's certificate and key cannot be read, or do not belong together: {error}."
                raise InvalidResource(message, field="docker_certificate") from error
    return context


def _value_of(answer: "httpx.Response") -> Any:
    text = answer.read()
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ResourceUnreachable("The daemon answered something that is no JSON.") from error


def _unframe(pieces: Iterable[bytes], *, tells_silence: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the frames of a stream, each with the number of its output; with `tells_silence` empty pieces too."""
    rest = b""
    for piece in pieces:
        if not piece and tells_silence:
            yield 0, b""
        rest += piece
        while len(rest) >= 8 and len(rest) >= (end := 8 + int.from_bytes(rest[4:8], "big")):  # noqa: PLR2004
            yield rest[0], rest[8:end]
            rest = rest[end:]
