"""A connection to a job, as a stream of bytes that is carried by a WebSocket."""

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

from nearline import _problems, errors

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from nearline._http import Json

PIECE_BYTES = 1 << 16
_SPARE_S = 30.0
_RESTARTS = 1012


@dataclass(frozen=True)
class Ticket:
    """What opens connections to a job. `ticket` is a secret."""

    ticket: str = field(repr=False)
    url: str
    good_until: float

    @classmethod
    def read(cls, answer: "Json") -> Self:
        """Read what the server issued just now."""
        return cls(answer["ticket"], answer["url"], time.monotonic() + answer["expires_in_s"] - _SPARE_S)

    @property
    def is_good(self) -> bool:
        """Whether connections can still be opened with it."""
        return time.monotonic() < self.good_until


class Connection:
    """A two-way stream of bytes. One thread may send while another one receives.

    That to a command in a terminal has an `exit_code`, once `receive` has returned nothing.
    """

    def __init__(self, socket: "ClientConnection") -> None:
        self._socket = socket
        self.exit_code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def receive(self) -> bytes:
        """Return what comes next; empty: nothing more comes.

        Raises Conflict when the job ends or nothing listens there, and Unavailable when the connection breaks.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 (few commands connect)

        try:
            while True:
                message = self._socket.recv()
                if isinstance(message, str):
                    if self._ends(json.loads(message)):
                        return b""
                elif message:
                    return message
        except ConnectionClosed as error:
            _explain(error)

    def send(self, data: bytes) -> None:
        """Send some bytes. Raises Unavailable when the connection breaks."""
        self._send(data)

    def end_sending(self) -> None:
        """Say that nothing more is sent. What the job still sends can be received."""
        self._send(json.dumps({"type": "end"}))

    def resize(self, columns: int, rows: int) -> None:
        """Say how large the terminal is now."""
        self._send(json.dumps({"type": "resize", "columns": columns, "rows": rows}))

    def close(self) -> None:
        """End it in both directions. May be called from any thread, and again."""
        self._socket.close()

    def _send(self, message: bytes | str) -> None:
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415 (few commands connect)

        try:
            self._socket.send(message)
        except ConnectionClosed as error:
            _explain(error)

    def _ends(self, message: "dict[str, Any]") -> bool:
        """Whether a text message says that nothing more comes. Raises what it tells of."""
        if message["type"] == "error":
            raise _problems.kind_of(message["status"])(
                message["title"], code=message["code"], hint=message["hint"] or None, details=message["details"]
            )
        if message["type"] == "exit":
            self.exit_code = message["code"]
        return message["type"] in {"end", "exit"}


def _explain(error: "Exception") -> NoReturn:
    received = getattr(error, "rcvd", None)
    why = "the server is stopping or restarts" if received and received.code == _RESTARTS else "it was cut off"
    raise errors.Unavailable(f"The connection to the job has ended: {why}.", hint="Connect again.") from error
