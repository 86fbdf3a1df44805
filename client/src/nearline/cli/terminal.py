"""The user's terminal, led to a command in a job: raw, so that every key reaches the command, Ctrl-C too."""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nearline.errors import InvalidRequest, NearlineError, Unavailable
from nearline.resources.connections import PIECE_BYTES, Connection

SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
"""The best shell that there is: images without bash have sh."""


def require_terminal() -> None:
    """Raise InvalidRequest unless a person types, and reads what is printed."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest(
            "This is no terminal.", code="client.no_terminal", hint="Leave -t out: `nearline job exec -i NAME -- CMD`."
        )


def get_size() -> tuple[int, int]:
    """Return the columns and rows of this terminal. One that does not say has the usual ones."""
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return (columns or 80, rows or 24)


def get_kind() -> str:
    """Return what kind of terminal this is."""
    return os.environ.get("TERM") or "xterm"


def lead(connection: Connection) -> int:
    """Lead this terminal to a command until that ends, and return its exit code. Raises what breaks the connection."""
    woken, waking = os.pipe()
    failures: list[NearlineError] = []

    def show() -> None:
        try:
            for piece in iter(connection.receive, b""):
                _write_all(sys.stdout.fileno(), piece)
        except NearlineError as error:
            failures.append(error)
        finally:
            os.close(waking)

    def note_size(_number: int, _frame: FrameType | None) -> None:
        os.write(waking, b"size")

    reader = threading.Thread(target=show, daemon=True)
    with _raw(sys.stdin.fileno()), _handled(signal.SIGWINCH, note_size):
        reader.start()
        _type(connection, woken)
    if failures:
        raise failures[0]
    if connection.exit_code is None:
        raise Unavailable("The terminal has ended before the command; that ends with the connection.")
    return connection.exit_code


def _type(connection: Connection, woken: int) -> None:
    """Send what is typed, and each new size, until `woken` is closed on its other side or nobody types any more."""
    keyboard = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([keyboard, woken], [], [])
        if woken in ready:
            if not os.read(woken, PIECE_BYTES):
                return
            connection.resize(*get_size())
        if keyboard in ready:
            typed = os.read(keyboard, PIECE_BYTES)
            if not typed:
                return
            connection.send(typed)


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # keeps what was typed ahead
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _handled(number: signal.Signals, handler: object) -> Iterator[None]:
    before = signal.signal(number, handler)  # type: ignore[arg-type]  # a handler of signals
    try:
        yield
    finally:
        signal.signal(number, before)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
