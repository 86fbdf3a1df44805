"""The one way to a host: questions and answers of our program there, over one SSH connection that is opened as needed.

Every call has a limit. A host that does not answer is asked less and less often, so that it slows nobody else; an
attended connection is opened again beside the callers, who are told at once. asyncssh is imported when the first
connection is opened: it takes half a second, which the command line must not.
"""

import asyncio
import functools
import itertools
import os
import shlex
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from compute.adapters.ssh import wire
from compute.adapters.ssh.program import Program, build_program
from compute.errors import (
    CredentialsRefused,
    HostKeyChanged,
    HostUnfit,
    ResourceUnreachable,
    StartRefused,
    UnknownHostKey,
    VolumeRefused,
)
from core.breaker import Breaker

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientProcess

log = structlog.get_logger(__name__)
T = TypeVar("T")

_CONNECT_S, _PROGRAM_S, _ANSWER_S = 6.0, 20.0, 10.0
_KEEPALIVE_S, _KEEPALIVES = 10, 3
SSH_PORT = 22
_MOST_WORDS = 1000
_ATTEND_EVERY_S, _UNUSED_S = 0.25, 120.0


@dataclass(frozen=True)
class Host:
    """A host, as whom it is entered, by which key it is known, and what is there for jobs.

    `known_host` holds lines of a known_hosts file. `readable` are paths that confined jobs can read besides.
    """

    user: str
    name: str
    port: int = SSH_PORT
    private_key: str = field(default="", repr=False)
    known_host: str = ""
    folder: str = "~/.nearline"
    python: str = "python3"
    readable: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.user}@{self.name}" + (f":{self.port}" if self.port != SSH_PORT else "")

    @property
    def known_name(self) -> str:
        """How a known_hosts file names it."""
        return self.name if self.port == SSH_PORT else f"[{self.name}]:{self.port}"


class _Broken(Exception):
    """The connection ended before an answer came."""


class HostConnection:
    """Speaks with our program on one host. Used from many threads at once."""

    def __init__(self, host: Host, breaker: Breaker | None = None, *, is_attended: bool = False) -> None:
        """Take a host. Nothing is opened yet.

        One that `is_attended` lets no caller wait for a host that is known not to answer.
        """
        self._host = host
        self._is_attended = is_attended
        self._attendant: Future[None] | None = None
        self._used_at = 0.0
        self._breaker = breaker or Breaker(ResourceUnreachable, longest_s=_CONNECT_S + _PROGRAM_S + _ANSWER_S)
        self._opening = asyncio.Lock()
        self._session: _Session | None = None
        self.opened = 0

    @property
    def address(self) -> str:
        """The name or IP address of the host."""
        return self._host.name

    def call(self, method: str, *, reply_timeout_s: float = _ANSWER_S, **arguments: Any) -> Any:
        """Ask, on a new connection where the last one has ended. Every question may be asked again without harm.

        Raises ResourceUnreachable, and StartRefused or VolumeRefused when that is the answer.
        """
        program = build_program()
        self._used_at = time.monotonic()
        if self._is_attended and self._breaker.is_open:
            self._attend(program)
        self._breaker.enter(may_try=not self._is_attended)
        answer = _run(self._noting(self._ask(program, method, arguments, reply_timeout_s)))
        if "error" not in answer:
            return answer["result"]
        for refusal in (StartRefused, VolumeRefused):
            if answer["code"] == refusal.code:
                raise refusal(answer["error"])
        raise ResourceUnreachable(f"{self._host} cannot answer: {answer['error']}")

    async def _noting(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something with the host and note whether it answered. Raises ResourceUnreachable."""
        try:
            result = await work
        except Exception as error:
            if (unreachable := _in_words(self._host, error)) is None:
                raise
            self._breaker.fail(unreachable.message, is_slow=isinstance(error, TimeoutError))
            if unreachable is error:
                raise
            raise unreachable from error
        self._breaker.succeed()
        return result

    def _attend(self, program: Program) -> None:
        if self._attendant is None or self._attendant.done():
            self._attendant = asyncio.run_coroutine_threadsafe(self._reopen(program), _loop())

    async def _reopen(self, program: Program) -> None:
        """Try to open the connection after each pause, until it is open or nobody wants it any more."""
        while self._breaker.is_open and time.monotonic() - self._used_at < _UNUSED_S:
            await asyncio.sleep(_ATTEND_EVERY_S)
            with suppress(ResourceUnreachable):
                self._breaker.enter()
                await self._noting(self._open(program))

    def close(self) -> None:
        """End the connection. The next call opens another."""
        session, self._session = self._session, None
        if session is not None:
            _run(session.close())

    async def _ask(self, program: Program, method: str, arguments: wire.Json, reply_timeout_s: float) -> wire.Json:
        before = self._session
        session = await self._open(program)
        try:
            return await session.ask(method, arguments, reply_timeout_s)
        except _Broken:
            if session is not before:
                raise
        # The connection was open for a while. Its end may not have been read yet, so it may still seem open.
        if self._session is session:
            self._session = None
        return await (await self._open(program)).ask(method, arguments, reply_timeout_s)

    async def _open(self, program: Program) -> "_Session":
        async with self._opening:
            if self._session is None or not self._session.is_open:
                self._session = await _open_session(self._host, program)
                self.opened += 1
            return self._session


class _Session:
    """A connection on which our program answers."""

    def __init__(self, host: Host, connection: "SSHClientConnection", process: "SSHClientProcess[bytes]") -> None:
        self._host, self._connection, self._process = host, connection, process
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[wire.Json]] = {}
        self._readers = [asyncio.create_task(self._read_answers()), asyncio.create_task(self._read_words())]

    @property
    def is_open(self) -> bool:
        """Whether answers can come."""
        return not self._readers[0].done()

    async def ask(self, method: str, arguments: wire.Json, reply_timeout_s: float) -> wire.Json:
        """Return the answer to a question. Raises _Broken."""
        if not self.is_open:
            raise _Broken
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._process.stdin.write(wire.frame({"id": number, "method": method, "arguments": arguments}))
            return await asyncio.wait_for(answer, reply_timeout_s)
        except BrokenPipeError as error:
            raise _Broken from error
        except TimeoutError:
            # A program that hangs, or a network that swallows everything: a new connection tells.
            self._connection.abort()
            raise
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """End the connection and wait until it has ended."""
        self._connection.close()
        await asyncio.wait(self._readers)

    async def _read_answers(self) -> None:
        try:
            while True:
                length = int.from_bytes(await self._process.stdout.readexactly(wire.LENGTH_BYTES), "big")
                if length > wire.MOST_FRAME_BYTES:
                    return
                answer = wire.read(await self._process.stdout.readexactly(length))
                future = self._waiting.get(answer["id"])
                if future is not None and not future.done():
                    future.set_result(answer)
        except (asyncio.IncompleteReadError, OSError, _ssh().Error) as error:
            log.info("host.connection_ended", host=str(self._host), error=str(error))
        finally:
            self._connection.abort()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_Broken())

    async def _read_words(self) -> None:
        """Read what the program says beside its answers: it would wait if nobody did."""
        try:
            while words := await self._process.stderr.read(_MOST_WORDS):
                log.warning("host.program_said", host=str(self._host), words=words.decode(errors="replace"))
        except (OSError, _ssh().Error):
            return


def find_host_key(host: Host) -> UnknownHostKey:
    """Return which key a host shows that nobody has confirmed, as the error that says so.

    Raises ResourceUnreachable.
    """

    async def fetch() -> Any:
        return await asyncio.wait_for(_ssh().get_server_host_key(host.name, host.port, config=None), _CONNECT_S)

    try:
        key = _run(fetch())
    except Exception as error:
        unreachable = _in_words(host, error)
        if unreachable is None:
            raise
        raise unreachable from error
    line = f"{host.known_name} {key.export_public_key().decode().strip()}"
    return UnknownHostKey(
        f"{host.name} shows the {key.get_algorithm()} key {key.get_fingerprint()}, which nobody has confirmed. On the "
        f"host, `ssh-keygen -lf` prints the fingerprint of each /etc/ssh/ssh_host_*_key.pub. If it is the same, give "
        f"this line as the known host: {line}",
        field="known_host",
        fingerprint=key.get_fingerprint(),
        known_host=line,
    )


def _ssh() -> Any:
    import asyncssh  # noqa: PLC0415 (half a second, which the command line and a start without hosts are spared)

    return asyncssh


async def _open_session(host: Host, program: Program) -> _Session:
    asyncssh = _ssh()
    connection = await asyncio.wait_for(
        asyncssh.connect(
            host.name,
            host.port,
            username=host.user,
            client_keys=[asyncssh.import_private_key(host.private_key)],
            known_hosts=asyncssh.import_known_hosts(host.known_host),
            # Neither the keys nor the settings of the platform's own user.
            agent_path=None,
            config=None,
            preferred_auth="publickey",
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=_KEEPALIVES,
        ),
        _CONNECT_S,
    )
    try:
        process = await asyncio.wait_for(_start_program(connection, host, program), _PROGRAM_S)
    except BaseException:
        connection.abort()
        raise
    return _Session(host, connection, process)


async def _start_program(connection: Any, host: Host, program: Program) -> Any:
    """Start our program, which is brought before if it is not on the host whole. Raises HostUnfit."""
    place = f'"$HOME/.cache/nearline/{program.digest}.pyz"'
    seen = await connection.run(_shell(f"sha256sum 2>/dev/null <{place}"))
    if program.digest not in str(seen.stdout):
        part = f'"$HOME/.cache/nearline/{program.digest}."$$'
        write = f'mkdir -p "$HOME/.cache/nearline" && cat > {part} && mv {part} {place}'
        script = f"umask 077; {write} || {{ rm -f {part}; exit 1; }}"
        sent = await connection.run(_shell(script), input=program.data, encoding=None)
        if sent.exit_status != 0:
            raise HostUnfit(f"{host} does not take Nearline's program: {_last_line(sent.stderr)}")
    arguments = " ".join(map(shlex.quote, (host.folder, *host.readable)))
    command = _shell(f"exec {shlex.quote(host.python)} -I {place} {arguments}")
    process = await connection.create_process(command, encoding=None)
    try:
        await process.stdout.readuntil(wire.GREETING)
    except asyncio.IncompleteReadError as error:
        words = _last_line(await process.stderr.read(1 << 16))
        raise HostUnfit(f"Nearline's program does not run on {host}: {words}") from error
    return process


def _shell(script: str) -> str:
    # Whatever shell the user has.
    return f"sh -c {shlex.quote(script)}"


def _last_line(words: bytes) -> str:
    lines = words.decode(errors="replace").strip().splitlines()
    return lines[-1][:_MOST_WORDS] if lines else "it says nothing."


def _in_words(host: Host, error: Exception) -> ResourceUnreachable | None:
    """Return what went wrong between here and a host; None for what is no such thing."""
    asyncssh = _ssh()
    match error:
        case ResourceUnreachable():
            return error
        case asyncssh.PermissionDenied():
            return CredentialsRefused(
                f"{host} refuses the key. Its public key has to be a line of ~/.ssh/authorized_keys of {host.user} "
                f"there: {_public_key(host)}",
                field="private_key",
            )
        case asyncssh.HostKeyNotVerifiable() | asyncssh.KeyExchangeFailed():
            return HostKeyChanged(
                f"{host} shows another key than the known one: another host answers, or it was installed anew. "
                "Nothing was sent to it. Once its key is confirmed, detach it and attach it again.",
                field="known_host",
            )
        case TimeoutError():
            words = "does not answer in time."
        case _Broken():
            words = "broke the connection off."
        case OSError() | asyncssh.Error():
            words = f"does not answer: {_reason_of(error)}."
        case _:
            return None
    return ResourceUnreachable(f"{host} {words}")


def _reason_of(error: Exception) -> str:
    """Return the system's words for an error; asyncio puts its own in their place."""
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(getattr(error, "strerror", None) or getattr(error, "reason", None) or error)


def _public_key(host: Host) -> str:
    return str(_ssh().import_private_key(host.private_key).export_public_key().decode().strip())


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all connections of this process, which runs on a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ssh", daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
