"""A command in a terminal beside a job on this machine: the process that enters the job's sandbox and starts it there.

The platform starts one for each terminal, with a socket to it and a pidfd of the job's own command. The command gets
that one's namespaces, environment, folder, cores and priority, and counts towards the job's memory. This process stays
outside of the job's process ids and carries the bytes of the terminal.

Both sides of the socket send frames: a byte that says what it is, four for its length, then the content.
"""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterator
from typing import Any

from compute.adapters.local import sandbox, shim

HEADER = struct.Struct(">BI")
DATA, SIZE, EXIT, REFUSED = range(4)
_READ_BYTES = 1 << 16
_MOST_WAITING = 1 << 18


def frame(kind: int, content: bytes) -> bytes:
    """Return a frame."""
    return HEADER.pack(kind, len(content)) + content


def pack_size(columns: int, rows: int) -> bytes:
    """Return a terminal's size as the kernel takes it."""
    return struct.pack("HHHH", rows, columns, 0, 0)


def main() -> None:
    """Take the order, start its command, and carry bytes until that or the platform ends."""
    channel, process = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    received = bytearray()
    while (order := next(_take_frames(received), None)) is None:
        piece = channel.recv(_READ_BYTES)
        if not piece:
            return
        received += piece
    try:
        terminal, child = _start(json.loads(order[1]), process)
    except (OSError, sandbox.SandboxRefused) as error:
        reason = "The job's own command has ended." if _has_ended(process) else str(error)
        channel.sendall(frame(REFUSED, reason.encode()))
        return
    for descriptor in (channel.fileno(), terminal):
        os.set_blocking(descriptor, False)
    _Carrier(channel, terminal, received).run(os.pidfd_open(child))
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(channel.fileno(), True)
    channel.sendall(frame(EXIT, str(exit_code if exit_code >= 0 else 128 - exit_code).encode()))


def _take_frames(received: bytearray) -> Iterator[tuple[int, bytes]]:
    """Take the whole frames off what was received."""
    while len(received) >= HEADER.size:
        kind, size = HEADER.unpack_from(received)
        end = HEADER.size + size
        if len(received) < end:
            return
        content = bytes(received[HEADER.size : end])
        del received[:end]
        yield kind, content


def _start(order: dict[str, Any], process: int) -> tuple[int, int]:
    """Start the command and return its terminal and process. Raises OSError and SandboxRefused."""
    pid = order["pid"]
    # The job's own command is as its process says; that this is still the same one is checked below.
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 (pathlib would be loaded for this alone)
        pairs = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
    environment = {key: value for key, _, value in pairs} | {b"TERM": order["term"].encode()}
    directory = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
    os.sched_setaffinity(0, os.sched_getaffinity(pid))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))
    if _has_ended(process):
        raise ProcessLookupError
    shim.prefer_for_memory_kill()
    os.umask(shim.JOB_UMASK)
    if order["is_confined"]:
        sandbox.join(process)
    terminal, inner = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, pack_size(order["columns"], order["rows"]))
    child = os.fork()
    if child == 0:
        _become(order, inner, directory, environment)
    os.close(inner)
    return terminal, child


def _has_ended(process: int) -> bool:
    """Whether the process of a pidfd has ended."""
    return bool(select.select([process], [], [], 0)[0])


def _become(order: dict[str, Any], inner: int, directory: str, environment: dict[bytes, bytes]) -> None:
    program = order["command"][0]
    try:
        os.setsid()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)
        for descriptor in range(3):
            os.dup2(inner, descriptor)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if order["is_confined"]:
            sandbox.drop_privileges()
        os.chdir(directory)
        os.execvpe(program, order["command"], environment)  # noqa: S606 (running it is the purpose)
    except (OSError, sandbox.SandboxRefused) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        os.write(2, f"{program}: {reason}\r\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    finally:
        os._exit(126)


class _Carrier:
    """Carries bytes between a terminal and the platform. A direction whose reader is slow does not hold up the other.

    One thread does it all: a process that has entered other process ids can begin no second one.
    """

    def __init__(self, channel: socket.socket, terminal: int, received: bytearray) -> None:
        """`received` is what the platform has sent so far."""
        self._channel, self._terminal, self._received = channel, terminal, received
        self._to_terminal, self._to_platform = bytearray(), bytearray()
        self._is_open = True
        self._take_received()

    def run(self, ended: int) -> None:
        """Go on until the command has ended (`ended` is readable then) and all that it printed is sent.

        Ends this process when the platform is gone.
        """
        has_ended = False
        while not has_ended or self._is_open or self._to_platform:
            poller = select.poll()
            poller.register(self._channel, self._events(self._to_terminal, self._to_platform))
            if self._is_open:
                poller.register(self._terminal, self._events(self._to_platform, self._to_terminal))
            if not has_ended:
                poller.register(ended, select.POLLIN)
            for descriptor, events in poller.poll():
                if descriptor == ended:
                    has_ended = True
                elif descriptor == self._terminal:
                    self._serve_terminal(events)
                else:
                    self._serve_platform(events)

    @staticmethod
    def _events(read_into: bytearray, written_from: bytearray) -> int:
        return (select.POLLIN if len(read_into) < _MOST_WAITING else 0) | (select.POLLOUT if written_from else 0)

    def _serve_terminal(self, events: int) -> None:
        try:
            if events & select.POLLOUT:
                del self._to_terminal[: os.write(self._terminal, self._to_terminal)]
            if events & (select.POLLIN | select.POLLHUP):
                data = os.read(self._terminal, _READ_BYTES)
                self._to_platform += frame(DATA, data)
        except BlockingIOError:
            return
        except OSError:  # no process has the terminal open any more
            self._is_open = False
            self._to_terminal.clear()

    def _serve_platform(self, events: int) -> None:
        try:
            if events & select.POLLOUT:
                del self._to_platform[: self._channel.send(self._to_platform)]
            if not events & (select.POLLIN | select.POLLHUP):
                return
            data = self._channel.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            os._exit(0)  # closes the terminal, which hangs up on the command
        self._received += data
        self._take_received()

    def _take_received(self) -> None:
        for kind, content in _take_frames(self._received):
            if kind == SIZE:
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, content)
            elif self._is_open:
                self._to_terminal += content
