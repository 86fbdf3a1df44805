"""What reverse proxies say about the client: believed only of those that the settings name."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from asgiref.typing import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope, WebSocketScope

from config.env import Networks

_FOR, _PROTO, _HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
# What the scheme of a client is called in a scope of each type: of a WebSocket, proxies name either.
_SCHEMES = {
    "http": {"http": "http", "https": "https"},
    "websocket": {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"},
}


def with_proxies(application: ASGI3Application, trusted: Networks) -> ASGI3Application:
    """Return the application as clients behind the trusted proxies see it: with their address, scheme and host."""

    async def serve(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "lifespan" and (client := scope.get("client")) and _is_in(client[0], trusted):
            scope = _as_client_sent(scope, trusted)
        await application(scope, receive, send)

    return serve


def _as_client_sent(scope: HTTPScope | WebSocketScope, trusted: Networks) -> HTTPScope | WebSocketScope:
    values = {name: _values(scope, name) for name in (_FOR, _PROTO, _HOST)}
    headers = [(name, value) for name, value in scope["headers"] if name not in values]
    changed: dict[str, Any] = {"headers": headers}
    if client := _client_of(values[_FOR], trusted):
        changed["client"] = (client, 0)
    if values[_PROTO] and (scheme := _SCHEMES[scope["type"]].get(values[_PROTO][-1])):
        changed["scheme"] = scheme
    if values[_HOST]:
        host = (b"host", values[_HOST][-1].encode("latin-1"))
        changed["headers"] = [*(header for header in headers if header[0] != b"host"), host]
    return {**scope, **changed}  # type: ignore[return-value]  # the same keys as before


def _values(scope: HTTPScope | WebSocketScope, header: bytes) -> list[str]:
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == header]
    return [text.strip() for line in lines for text in line.split(",") if text.strip()]


def _client_of(chain: Sequence[str], trusted: Networks) -> str:
    """Return the last address of the chain that is not a trusted proxy: what stands before it, anybody can write."""
    client = ""
    for text in reversed(chain):
        if not _is_address(text):
            break
        client = text
        if not _is_in(text, trusted):
            break
    return client


def _is_in(text: str, networks: Networks) -> bool:
    return _is_address(text) and any(ip_address(text) in network for network in networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
