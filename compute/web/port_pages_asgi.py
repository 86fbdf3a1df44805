"""Pages that jobs serve, as a browser reaches them: each port of a job has a host name of its own below one address.

So the scripts of a job act as nobody on pages of the platform or of another job. A ticket in the address leads in, once
it is exchanged for a pass in a cookie of that host name. Rights are checked with each request, and as long as an answer
or a WebSocket goes on. Without a pass a browser is sent to the platform, where its session gets it one.
"""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import structlog
from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope, WebSocketScope
from django.template.loader import render_to_string

from compute.adapters import job_tokens
from compute.adapters.job_tokens import Claims
from compute.engine.port_hosts import PortHost
from compute.errors import InvalidTicket, PortNotOpen
from compute.web.open_connections import opened
from compute.web.port_requests import Exchange
from compute.web.port_site import Headers, PortSite, header, target_of
from compute.web.port_websockets import WebSocketExchange
from core.errors import PlatformError
from web import problems

log = structlog.get_logger(__name__)

ENTER: Final = "/.nearline/enter"
_COOKIE = "nearline-port"
_WAIT_S = 3
_REFUSED, _BROKEN = 1008, 1011
_TEXT = (b"content-type", b"text/plain; charset=utf-8")


def with_port_pages(application: ASGI3Application, address: str, platform_url: str) -> ASGI3Application:
    """Return the application with the host names below an address in front of it; all of it without an address."""
    if not address:
        return application
    pages = _PortPages(address, platform_url)

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http" and (host := pages.host_of(scope)) is not None:
            await pages.serve(host, scope, receive, send)
        elif scope["type"] == "websocket" and (host := pages.host_of(scope)) is not None:
            await pages.serve_websocket(host, scope, receive, send)
        else:
            await application(scope, receive, send)

    return serve


@dataclass(frozen=True)
class _Answer:
    """An answer of ours, not of a job."""

    status: HTTPStatus
    body: str = ""
    headers: Headers = field(default_factory=list)


class _PortPages:
    """The host names below one address."""

    def __init__(self, address: str, platform_url: str) -> None:
        url = urlsplit(address)
        self._scheme, self._netloc, self._suffix = url.scheme, url.netloc.lower(), f".{url.hostname}"
        self._platform_url = platform_url
        # With this prefix a browser takes the cookie from no other host name; it does so over https alone.
        self._cookie = f"__Host-{_COOKIE}" if url.scheme == "https" else _COOKIE

    def host_of(self, scope: Any) -> PortHost | None:
        """Return the port that the host name of a request is of; None for one of no port, as the platform's may be."""
        name, _, port = header(scope, b"host").lower().rpartition(":")
        host = name if port.isdecimal() else port
        return PortHost.read(host.removesuffix(self._suffix)) if host.endswith(self._suffix) else None

    async def serve(
        self, host: PortHost, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Answer a request as the job does, or say why it cannot be asked."""
        exchange = Exchange(receive, send)
        try:
            answer = await self._answer(host, scope, exchange)
        except PlatformError as error:
            answer = self._in_words(host, error)
        if answer is not None and not exchange.has_begun:  # one that was broken off stays so, and the browser notices
            body = answer.body.encode()
            usual = [(b"cache-control", b"no-store"), (b"content-length", str(len(body)).encode())]
            await exchange.begin(answer.status, [*answer.headers, *usual])
            await exchange.go_on(body, is_end=True)

    async def _answer(self, host: PortHost, scope: HTTPScope, exchange: Exchange) -> _Answer | None:
        """Pass a request on to the job, or return what we answer. Raises PlatformError."""
        site = self._site(host)
        if scope["path"] == ENTER:
            return self._let_in(host, scope)
        claims = self._claims_of(host, scope)
        if isinstance(claims, _Answer):
            return claims
        if not (_is_navigation(scope) or _is_of_own_page(scope, site)):
            return _Answer(HTTPStatus.FORBIDDEN, "A page of another host name asks for this.", [_TEXT])
        async with opened(claims) as connection:
            await connection.run(exchange.pass_on(scope, site, connection), exchange.wait_until_left())
        return None

    async def serve_websocket(
        self, host: PortHost, scope: WebSocketScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        """Carry the messages of a WebSocket to the job and back. One that is refused is not accepted."""
        await receive()
        exchange = WebSocketExchange(receive, send)
        site = self._site(host)
        claims = self._claims_of(host, scope) if header(scope, b"origin") == site.origin else None
        if not isinstance(claims, Claims):
            await exchange.close(_REFUSED)
            return
        try:
            async with opened(claims) as connection:
                await exchange.pass_on(scope, site, connection)
            code = exchange.code
        except PlatformError as error:
            log.info("port_page.websocket_ended", host=site.host, error=error.message)
            code = _BROKEN
        await exchange.close(code)

    def _let_in(self, host: PortHost, scope: HTTPScope) -> _Answer:
        """Exchange a ticket for a pass, and lead on. Raises InvalidTicket."""
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        claims = job_tokens.read_ticket_for_pass("".join(asked.get("ticket", [])))
        _require_same(claims, host)
        path = "".join(asked.get("path", []))
        is_path = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
        attributes = f"Path=/; HttpOnly; SameSite=Lax; Max-Age={job_tokens.PASS_LIFE_S}"
        attributes += "; Secure" if self._scheme == "https" else ""
        cookie = f"{self._cookie}={job_tokens.sign_pass(claims)}; {attributes}"
        location = quote(path if is_path else "/", safe="/?&=%#~!$'()*+,;:@[]")
        return _Answer(
            HTTPStatus.SEE_OTHER, headers=[(b"location", location.encode()), (b"set-cookie", cookie.encode())]
        )

    def _claims_of(self, host: PortHost, scope: Any) -> Claims | _Answer:
        """Return what the pass of a request is for; where it shows none, what we answer."""
        cookies = [part.strip().partition("=") for part in header(scope, b"cookie", ";").split(";")]
        try:
            claims = job_tokens.read_pass(next((text for name, _, text in cookies if name == self._cookie), ""))
            _require_same(claims, host)
        except InvalidTicket:
            if not _is_navigation(scope):
                return _Answer(HTTPStatus.UNAUTHORIZED, "Open this port from the page of its job first.", [_TEXT])
            query = urlencode({"path": target_of(scope).decode("latin-1")})
            location = f"{self._platform_url}{host.path}?{query}"
            return _Answer(HTTPStatus.SEE_OTHER, headers=[(b"location", location.encode())])
        return claims

    def _site(self, host: PortHost) -> PortSite:
        return PortSite(self._scheme, f"{host.label}.{self._netloc}", host.port, self._cookie)

    def _in_words(self, host: PortHost, error: PlatformError) -> _Answer:
        """Return the page that says why that of a job is not shown. It tries again where a server may be starting."""
        context = {
            "error": error,
            "platform_url": self._platform_url,
            "path": host.path,
            "wait_s": _WAIT_S if isinstance(error, PortNotOpen) else 0,
        }
        html = render_to_string("compute/port_page_fault.html", context)
        return _Answer(HTTPStatus(problems.STATUS[error.kind]), html, [(b"content-type", b"text/html; charset=utf-8")])


def _require_same(claims: Claims, host: PortHost) -> None:
    """Raise InvalidTicket unless claims are for the port that a host name is of."""
    if PortHost(claims.job_id, claims.rank, claims.port) != host:
        raise InvalidTicket("This ticket is for another port.")


def _is_of_own_page(scope: HTTPScope, site: PortSite) -> bool:
    """Whether a request comes from a page of the same host name, or from a program that is no browser."""
    is_own = header(scope, b"sec-fetch-site") in {"", "none", "same-origin"}
    return is_own and header(scope, b"origin") in {"", site.origin}


def _is_navigation(scope: Any) -> bool:
    """Whether a browser asks for a page to be shown in place of another."""
    if scope["type"] != "http" or scope["method"] != "GET" or header(scope, b"origin"):
        return False
    destination = header(scope, b"sec-fetch-dest")
    return destination == "document" if destination else "text/html" in header(scope, b"accept")
