"""A command in a container of a cluster: what it prints, as it prints it, over a WebSocket of the API.

Each message of that begins with the number of its channel. `v5` of the protocol can say that an input has ended.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from core.kubernetes.errors import ClusterUnreachable

_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_WITH_CLOSE = "v5.channel.k8s.io"
PROTOCOLS = (_WITH_CLOSE, "v4.channel.k8s.io")
"""The protocols of commands."""
_PIECE_BYTES = 1 << 16
_SILENT_S = 5.0


@dataclass(frozen=True)
class Piece:
    """Some bytes that a command printed, or its exit code. One without either is sent every few seconds."""

    data: bytes = b""
    is_error: bool = False
    exit_code: int | None = None


class InputNotSupported(Exception):
    """The cluster speaks a protocol in which an input never ends."""


def follow(socket: Any, stdin: bytes | None) -> Iterator[Piece]:
    """Send an input (None: there is none), and yield what comes back until the command has ended.

    Raises InputNotSupported at once, and ClusterUnreachable when the connection breaks.
    """
    from websocket import WebSocketException  # noqa: PLC0415 (comes with the client)

    if stdin is not None:
        if socket.subprotocol != _WITH_CLOSE:
            socket.close()
            raise InputNotSupported
        try:
            for start in range(0, len(stdin), _PIECE_BYTES):
                socket.send_binary(bytes([_STDIN]) + stdin[start : start + _PIECE_BYTES])
            socket.send_binary(bytes([_CLOSE, _STDIN]))
        except (WebSocketException, OSError) as error:
            socket.close()
            raise ClusterUnreachable(f"The command does not take its input: {error}") from error
    return _read(socket)


def _read(socket: Any) -> Iterator[Piece]:
    from websocket import ABNF, WebSocketException, WebSocketTimeoutException  # noqa: PLC0415 (comes with the client)

    socket.settimeout(_SILENT_S)
    with closing(socket):
        while True:
            try:
                kind, message = socket.recv_data()
            except WebSocketTimeoutException:
                yield Piece()
                continue
            except (WebSocketException, OSError) as error:
                raise ClusterUnreachable(f"The connection to the command broke: {error}") from error
            if kind == ABNF.OPCODE_CLOSE:
                raise ClusterUnreachable("The cluster ended the connection to the command; its exit code is unknown.")
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel in {_STDOUT, _STDERR} and data:
                yield Piece(data, is_error=channel == _STDERR)
            elif channel == _STATUS:
                yield end_of(json.loads(data))
                return


def end_of(status: dict[str, Any]) -> Piece:
    """Return the exit code of a status; where the container could not start the command, why, and the shell's code."""
    if status.get("status") == "Success":
        return Piece(exit_code=0)
    causes = (status.get("details") or {}).get("causes") or []
    code = next((cause["message"] for cause in causes if cause.get("reason") == "ExitCode"), "")
    if code.isdecimal():
        return Piece(exit_code=int(code))
    return Piece(f"{status.get('message', '')}\n".encode(), is_error=True, exit_code=126)
