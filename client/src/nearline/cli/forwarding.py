"""Ports of this machine that lead to ports of a job: `nearline job port-forward`."""

import os
import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nearline.errors import Conflict, Denied, InvalidRequest, NearlineError, NotFound
from nearline.resources.connections import PIECE_BYTES, Connection, Ticket

if TYPE_CHECKING:
    from nearline.resources.jobs import Jobs

HOST = "127.0.0.1"
_LAST_PORT = 65535
_JOB_ENDED = "compute.job_not_running"


def host_for_browsers(url: str) -> str:
    """Return the name by which a browser opens a port of this machine, where the platform is reached by a URL.

    A browser sends the cookies of a host name to all of its ports, and a job must not get those of the platform.
    """
    return "localhost" if urlsplit(url).hostname == HOST else HOST


@dataclass(frozen=True)
class Forward:
    """A port of this machine (0: any that is free), and the port of the job behind it."""

    local: int
    remote: int


def read_forward(text: str) -> Forward:
    """Read `8888`, `9000:8888` or `:8888`. Raises InvalidRequest."""
    match = re.fullmatch("(?:([0-9]{0,5}):)?([0-9]{1,5})", text)
    local, remote = (int(part or 0) for part in match.groups()) if match is not None else (0, 0)
    if match is None or not 1 <= remote <= _LAST_PORT or local > _LAST_PORT:
        raise InvalidRequest(f"'{text}' is not a port.", hint="Write it like 8888, or like 9000:8888 for another one.")
    return Forward(remote if match[1] is None else local, remote)


def listen(forward: Forward) -> socket.socket:
    """Listen on the port of this machine, for programs of this machine. Raises InvalidRequest."""
    try:
        return socket.create_server((HOST, forward.local))
    except OSError as error:
        raise InvalidRequest(
            f"Port {forward.local} of this machine cannot be used: {os.strerror(error.errno or 0)}.",
            hint=f"Choose another one: {forward.local % _LAST_PORT + 1}:{forward.remote}.",
        ) from error


class Forwarder:
    """Carries what connects to ports of this machine to ports of one job, each connection on threads of its own."""

    def __init__(self, jobs: "Jobs", name: str, *, replica: int, tell: Callable[[NearlineError], None]) -> None:
        """`tell` gets what fails of one connection and leaves the others alone."""
        self._jobs, self._name, self._replica, self._tell = jobs, name, replica, tell
        self._offers: dict[int, Ticket] = {}
        self._guard = threading.Lock()
        self._has_ended = threading.Event()
        self._end: NearlineError | None = None

    def check(self, forwards: Sequence[Forward]) -> None:
        """Raise what keeps the ports of the job from being reached at all."""
        for forward in forwards:
            self._offer(forward.remote)

    def serve(self, listener: socket.socket, port: int) -> None:
        """Carry connections from now on."""
        threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    def wait(self) -> None:
        """Wait until the job has ended, or may not be reached any more. Raises why."""
        self._has_ended.wait()
        if self._end is not None:
            raise self._end

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            local, _ = listener.accept()
            threading.Thread(target=self._carry, args=(local, port), daemon=True).start()

    def _carry(self, local: socket.socket, port: int) -> None:
        with local:
            try:
                with self._jobs.connect(self._offer(port)) as remote:
                    sender = threading.Thread(target=_send_all, args=(local, remote), daemon=True)
                    sender.start()
                    try:
                        _receive_all(local, remote)
                    except NearlineError:
                        with suppress(OSError):
                            local.shutdown(socket.SHUT_RDWR)
                        raise
                    finally:
                        sender.join()
            except (Denied, NotFound) as error:
                self._finish(error)
            except Conflict as error:
                (self._finish if error.code == _JOB_ENDED else self._tell)(error)
            except NearlineError as error:
                self._tell(error)

    def _offer(self, port: int) -> Ticket:
        with self._guard:
            offer = self._offers.get(port)
            if offer is None or not offer.is_good:
                offer = self._offers[port] = self._jobs.offer_port(self._name, port, replica=self._replica)
            return offer

    def _finish(self, error: NearlineError) -> None:
        self._end = error
        self._has_ended.set()


def _send_all(local: socket.socket, remote: Connection) -> None:
    with suppress(NearlineError):  # whoever receives tells of it
        try:
            for piece in iter(partial(local.recv, PIECE_BYTES), b""):
                remote.send(piece)
        except OSError:
            remote.close()
        else:
            remote.end_sending()


def _receive_all(local: socket.socket, remote: Connection) -> None:
    try:
        for piece in iter(remote.receive, b""):
            local.sendall(piece)
        local.shutdown(socket.SHUT_WR)
    except OSError:  # the program of this machine wants no more
        remote.close()
