"""A driver whose jobs do what a script tells them to: for tests, and for reading what the port means."""

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from compute.adapters.output_folder import OutputFolder
from compute.engine.job_spec import SourceKind
from compute.engine.ports import (
    CommandOutput,
    EndCause,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    ReportState,
    TerminalRequest,
    UsageSample,
)
from compute.errors import PortNotOpen, ResourceUnreachable, StartRefused
from core import clock

_EXIT = CommandOutput(exit_code=3)


class ScriptedDriver:
    """Holds jobs in memory. A fresh one that shares `jobs` with another is the same place after a restart.

    It takes jobs with mounts of every kind, unless the script says otherwise.
    """

    mountable = frozenset(SourceKind)

    def __init__(self, root: Path, nodes: Sequence[NodeFacts] = (), jobs: "Jobs | None" = None) -> None:
        self.jobs = jobs or Jobs()
        self.nodes = list(nodes)
        self.root = root
        self.refusal: str | None = None
        self.is_away = False

    # --- the script

    def print(self, name: str, text: str) -> None:
        """Let a job print."""
        self.jobs.logs[name] += text.encode()

    def leave(self, name: str, path: str, content: bytes) -> None:
        """Let a job write to its output."""
        file = self.root / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def finish(self, name: str, *, exit_code: int = 0, cause: EndCause = EndCause.EXITED) -> None:
        """Let a running job end."""
        state = ReportState.SUCCEEDED if exit_code == 0 and cause is EndCause.EXITED else ReportState.FAILED
        self.jobs.change(name, state=state, exit_code=exit_code, cause=cause, finished_at=clock.now())

    def lose(self, name: str) -> None:
        """Let a job vanish in such a way that the driver notices."""
        self.jobs.change(name, state=ReportState.LOST)

    def vanish(self, name: str) -> None:
        """Let a job vanish without a trace."""
        del self.jobs.reports[name]

    def use(self, name: str, sample: UsageSample) -> None:
        """Let a job have used something."""
        self.jobs.usage.setdefault(name, []).append(sample)

    # --- the port

    def probe(self) -> Sequence[NodeFacts]:
        """Return the nodes of the script."""
        self._answer()
        return self.nodes

    def start(self, launch: Launch) -> None:
        """Start a job that runs until the script says otherwise."""
        self._answer()
        if self.refusal is not None:
            raise StartRefused(self.refusal)
        with self.jobs.changed:
            if launch.name not in self.jobs.started:
                self.jobs.launches[launch.name] = launch
                self.jobs.logs[launch.name] = b""
                report = JobReport(launch.name, launch.token, ReportState.RUNNING, started_at=clock.now())
                self.jobs.reports[launch.name] = report
                (self.root / launch.name).mkdir(parents=True, exist_ok=True)
            self.jobs.started[launch.name] += 1

    def list_jobs(self) -> Sequence[JobReport]:
        """Return the jobs that are not forgotten."""
        self._answer()
        return [report for name, report in sorted(self.jobs.reports.items()) if name not in self.jobs.forgotten]

    def stop(self, name: str, grace_s: float) -> None:
        """End a running job at once, and note how long it might have taken."""
        self._answer()
        self.jobs.graces_s[name] = grace_s
        report = self.jobs.reports.get(name)
        if report is not None and report.state is ReportState.RUNNING:
            self.finish(name, exit_code=-15, cause=EndCause.STOPPED)

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Return what the script printed."""
        self._answer()
        text = self.jobs.logs.get(name, b"")
        data = text[offset : offset + limit]
        report = self.jobs.reports.get(name)
        has_ended = report is not None and report.state is not ReportState.RUNNING
        is_complete = has_ended and offset + len(data) >= len(text)
        return LogChunk(data, offset + len(data), is_complete=is_complete, size_bytes=len(text))

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Return the samples of the script."""
        self._answer()
        return [sample for sample in self.jobs.usage.get(name, []) if after is None or sample.at > after]

    def open_output(self, name: str) -> OutputFolder:
        """Read a folder of the job's own."""
        self._answer()
        return OutputFolder(self.root / name)

    def open_checkpoint(self, name: str) -> OutputFolder | None:
        """Read a checkpoint folder, where the test has made one."""
        self._answer()
        return OutputFolder(self.checkpoint(name)) if self.checkpoint(name).is_dir() else None

    def list_checkpoints(self) -> Sequence[str]:
        """Return the names of the folders."""
        self._answer()
        return sorted(path.name for path in self.checkpoint("").glob("*"))

    def delete_checkpoint(self, name: str) -> None:
        """Delete a folder."""
        self._answer()
        shutil.rmtree(self.checkpoint(name), ignore_errors=True)

    def checkpoint(self, name: str) -> Path:
        """Return where a checkpoint folder is."""
        return self.root / "checkpoints" / name

    def forget(self, name: str) -> None:
        """List the job no more."""
        self._answer()
        self.jobs.forgotten.add(name)

    def delete(self, name: str) -> None:
        """Remove the job's log and output."""
        if name in self.jobs.forgotten:
            shutil.rmtree(self.root / name, ignore_errors=True)
            self.jobs.logs.pop(name, None)
            self.jobs.usage.pop(name, None)

    def run_command(self, name: str, rank: int, command: Sequence[str], stdin: bytes) -> Iterator[CommandOutput]:
        """Print where the command runs and what it is, complain about its input, and exit with 3."""
        self._answer()
        words = f"{name} {rank}: {' '.join(command)}\n".encode()
        return iter([CommandOutput(words), CommandOutput(), CommandOutput(stdin, is_error=True), _EXIT])

    async def open_port(self, name: str, rank: int, port: int) -> "Echo":  # noqa: ARG002
        """Connect to what sends everything back; nothing listens on port 1."""
        self._answer()
        if port == 1:
            raise PortNotOpen("Nothing listens on port 1 of the job.")
        return Echo()

    async def open_terminal(self, name: str, rank: int, request: TerminalRequest) -> "EchoTerminal":  # noqa: ARG002
        """Run what prints its size, and each new one, and exits with 3 when it is told to."""
        self._answer()
        return EchoTerminal(f"{' '.join(request.command)} in {request.columns} x {request.rows}\n")

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait until the script ends a job."""
        with self.jobs.changed:
            has_news = self.jobs.changed.wait_for(lambda: self.jobs.has_news, timeout_s)
            self.jobs.has_news = False
        return has_news

    def _answer(self) -> None:
        if self.is_away:
            raise ResourceUnreachable("The scripted resource is away.")


class Echo:
    """A connection to a program that sends back what it is sent, until there is no more."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def receive(self) -> bytes:
        """Return what was sent."""
        return await self._pieces.get()

    async def send(self, data: bytes) -> None:
        """Send some bytes."""
        self._pieces.put_nowait(data)

    async def end_sending(self) -> None:
        """Let the program end too."""
        self._pieces.put_nowait(b"")

    async def close(self) -> None:
        """Forget it."""


class EchoTerminal(Echo):
    """A terminal in which a program prints the size, and ends with 3 once `exit` was typed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.exit_code: int | None = None
        self._pieces.put_nowait(text.encode())

    async def send(self, data: bytes) -> None:
        """Type some bytes."""
        if data == b"exit":
            self.exit_code = 3
            await self.end_sending()

    async def resize(self, columns: int, rows: int) -> None:
        """Print the new size."""
        await super().send(f"{columns} x {rows}\n".encode())


class Jobs:
    """What outlives a scripted driver. `started` counts how often each name was asked to start."""

    def __init__(self) -> None:
        self.reports: dict[str, JobReport] = {}
        self.launches: dict[str, Launch] = {}
        self.logs: dict[str, bytes] = {}
        self.usage: dict[str, list[UsageSample]] = {}
        self.forgotten: set[str] = set()
        self.graces_s: dict[str, float] = {}
        self.started: Counter[str] = Counter()
        self.changed = threading.Condition()
        self.has_news = False

    def change(self, name: str, **changes: object) -> None:
        """Change what is reported about a job, and tell those who wait for news."""
        with self.changed:
            self.reports[name] = replace(self.reports[name], **changes)  # type: ignore[arg-type]  # fields of JobReport
            self.has_news = True
            self.changed.notify_all()
