"""Terminals beside jobs of this machine: the platform's side of the process that enters a job's sandbox."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from compute.adapters.local import entering
from compute.adapters.local.folders import JobFolder
from compute.adapters.local.processes import find_processes, wait_for_processes
from compute.engine.ports import TerminalRequest
from compute.errors import CommandRefused, ConnectionBroken, JobNotRunning

_ROOT = Path(__file__).parents[3]
_PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from compute.adapters.local.entering import main; main()"


class LocalTerminal:
    """A command in a terminal, as the port `Terminal` has it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, process: subprocess.Popen[bytes]
    ) -> None:
        self._reader, self._writer, self._process = reader, writer, process
        self.exit_code: int | None = None

    async def receive(self) -> bytes:
        """Return what the command prints next."""
        while self.exit_code is None:
            try:
                kind, size = entering.HEADER.unpack(await self._reader.readexactly(entering.HEADER.size))
                content = await self._reader.readexactly(size)
            except (OSError, asyncio.IncompleteReadError) as error:
                raise ConnectionBroken("The process that carries the terminal has ended.") from error
            if kind == entering.REFUSED:
                raise CommandRefused(f"The command cannot be started: {content.decode(errors='replace')}")
            if kind == entering.EXIT:
                self.exit_code = int(content)
            elif content:
                return content
        return b""

    async def send(self, data: bytes) -> None:
        """Type some bytes."""
        await self._send(entering.DATA, data)

    async def end_sending(self) -> None:
        """Do nothing: a terminal stays open in both directions."""

    async def resize(self, columns: int, rows: int) -> None:
        """Let the terminal have another size."""
        await self._send(entering.SIZE, entering.pack_size(columns, rows))

    async def close(self) -> None:
        """Hang up on the command, unless it has ended."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.to_thread(self._process.wait)

    async def _send(self, kind: int, content: bytes) -> None:
        with suppress(OSError):
            self._writer.write(entering.frame(kind, content))
            await self._writer.drain()


async def open_terminal(folder: JobFolder, request: TerminalRequest) -> LocalTerminal:
    """Run a command beside that of a job. Raises JobNotRunning."""
    processes = await wait_for_processes(folder)
    process, channel = await asyncio.to_thread(_spawn, folder, processes.command)
    terminal = LocalTerminal(*await asyncio.open_unix_connection(sock=channel), process)
    order = {
        "pid": processes.command,
        "is_confined": processes.is_confined,
        "command": request.command,
        "columns": request.columns,
        "rows": request.rows,
        "term": request.kind,
    }
    await terminal.send(json.dumps(order).encode())
    return terminal


def _spawn(folder: JobFolder, pid: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that enters the job of a command. Raises JobNotRunning."""
    command = _open_command(folder, pid)
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_ROOT), str(theirs.fileno()), str(command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                pass_fds=(theirs.fileno(), command),
                start_new_session=True,
            )
        finally:
            os.close(command)
    return process, ours


def _open_command(folder: JobFolder, pid: int) -> int:
    """Return a pidfd of the command of a job. Raises JobNotRunning."""
    try:
        command = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise JobNotRunning("The command of the job does not run.") from error
    # Process ids are used again; one that was the job's before and after it was opened is the job's.
    try:
        is_same = find_processes(folder).command == pid
    except JobNotRunning:
        is_same = False
    if not is_same:
        os.close(command)
        raise JobNotRunning("The command of the job does not run.")
    return command
