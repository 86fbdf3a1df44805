"""Nodes and GPUs that do not exist, with bookkeeping that does: for trying out schedules and quotas on a laptop.

A job "runs" for the time that its spec says and then succeeds; nothing is executed, and its log says so. One small
file a job is all there is: how a job stands follows from the file and the clock, so there is nothing to lose.

    <root>/live/<name>.json    started and not forgotten      <root>/ended/<name>.json    forgotten, still readable
    <root>/output/<name>/      always empty
"""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from compute.adapters.output_folder import OutputFolder
from compute.engine.mounts import SourceKind
from compute.engine.ports import EndCause, JobReport, Launch, LogChunk, NodeFacts, ReportState, UsageSample
from core import clock

_LOOK_EVERY_S = 0.25
_SAMPLE_EVERY_S = 1.0
_MOST_SAMPLES = 1000


@dataclass(frozen=True)
class _SimulatedJob:
    """A job as its file tells it."""

    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def started_at(self) -> datetime:
        return _time(self.facts["started_at"])

    @property
    def ends_at(self) -> datetime:
        """When it ends, or ended: by its duration, its timeout or a stop, whichever comes first."""
        return min(self._ends())[0]

    @property
    def cause(self) -> EndCause:
        return min(self._ends())[1]

    def _ends(self) -> list[tuple[datetime, EndCause]]:
        ends = [(self.started_at + timedelta(seconds=self.facts["duration_s"]), EndCause.EXITED)]
        if self.facts["timeout_s"] is not None:
            ends.append((self.started_at + timedelta(seconds=self.facts["timeout_s"]), EndCause.TIMEOUT))
        if self.facts["stopped_at"] is not None:
            ends.append((_time(self.facts["stopped_at"]), EndCause.STOPPED))
        return ends

    def report(self, now: datetime) -> JobReport:
        if now < self.ends_at:
            return JobReport(self.name, self.facts["token"], ReportState.RUNNING, started_at=self.started_at)
        has_succeeded = self.cause is EndCause.EXITED
        return JobReport(
            name=self.name,
            token=self.facts["token"],
            state=ReportState.SUCCEEDED if has_succeeded else ReportState.FAILED,
            exit_code=0 if has_succeeded else -15,
            cause=self.cause,
            started_at=self.started_at,
            finished_at=self.ends_at,
        )

    def log(self, now: datetime) -> bytes:
        facts = self.facts
        lines = [
            "This job is simulated: nothing is executed, and its node does not exist.",
            f"Node {facts['node']}, GPUs {facts['gpus'] or 'none'}, for {facts['duration_s']:g} s.",
            f"The command would be: {facts['command']}",
        ]
        if now >= self.ends_at:
            ends = {
                EndCause.EXITED: "succeeds",
                EndCause.TIMEOUT: "reaches its timeout",
                EndCause.STOPPED: "is stopped",
            }
            lines.append(f"The simulated job {ends[self.cause]}.")
        return "".join(f"[simulated] {line}\n" for line in lines).encode()


class SimulatedDriver:
    """The driver of kind `simulated`: declared nodes, and jobs that only pass the time, whatever they would mount."""

    mountable = frozenset(SourceKind)

    def __init__(self, root: Path, nodes: Sequence[NodeFacts]) -> None:
        self._nodes = list(nodes)
        self._live, self._ended, self._output = root / "live", root / "ended", root / "output"
        for folder in (self._live, self._ended, self._output):
            folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, tuple[tuple[int, int], _SimulatedJob]] = {}
        self._announced: set[str] = set()
        self._changed = threading.Condition()

    def probe(self) -> Sequence[NodeFacts]:
        """Return the declared nodes."""
        return self._nodes

    def start(self, launch: Launch) -> None:
        """Write the job's file, unless there is one."""
        name, spec = launch.name, launch.spec
        if (self._live / f"{name}.json").exists() or (self._ended / f"{name}.json").exists():
            return
        (self._output / name).mkdir(exist_ok=True)
        facts = {
            "name": name,
            "token": launch.token,
            "node": launch.node_name,
            "gpus": ", ".join(f"{share.index} ({share.milli / 1000:g})" for share in launch.gpus),
            "command": spec.command if isinstance(spec.command, str) else " ".join(spec.command),
            "cpu_millicores": launch.cpu_millicores,
            "memory_bytes": launch.memory_bytes,
            "duration_s": spec.simulated_duration_s,
            "timeout_s": spec.timeout_s,
            "started_at": clock.now().timestamp(),
            "stopped_at": None,
        }
        self._write(name, facts)

    def list_jobs(self) -> Sequence[JobReport]:
        """Return how each live job stands by now."""
        now = clock.now()
        return [job.report(now) for job in self._live_jobs()]

    def stop(self, name: str, grace_s: float) -> None:  # noqa: ARG002 (nothing runs that could use the grace)
        """End the job now, if it has not ended."""
        job = self._find(name)
        now = clock.now()
        if job is not None and job.facts["stopped_at"] is None and now < job.ends_at:
            self._write(name, {**job.facts, "stopped_at": now.timestamp()})

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Return the text that follows from the job's file and the clock."""
        job, now = self._find(name), clock.now()
        if job is None:
            return LogChunk(b"", offset, is_complete=False, size_bytes=0)
        text = job.log(now)
        data = text[offset : offset + limit]
        is_complete = now >= job.ends_at and offset + len(data) >= len(text)
        return LogChunk(data, offset + len(data), is_complete=is_complete, size_bytes=len(text))

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Return even use of all that the job was given, once a second."""
        job = self._find(name)
        if job is None:
            return []
        passed_s = (min(clock.now(), job.ends_at) - job.started_at) / timedelta(seconds=1)
        count = min(int(passed_s / _SAMPLE_EVERY_S), _MOST_SAMPLES)
        moments = (job.started_at + timedelta(seconds=number * _SAMPLE_EVERY_S) for number in range(1, count + 1))
        cpu, memory = job.facts["cpu_millicores"], job.facts["memory_bytes"]
        return [UsageSample(moment, cpu, memory) for moment in moments if after is None or moment > after]

    def open_output(self, name: str) -> OutputFolder:
        """Read the job's empty folder."""
        return OutputFolder(self._output / name)

    def forget(self, name: str) -> None:
        """Move the job's file to the ended ones."""
        with suppress(FileNotFoundError):
            (self._live / f"{name}.json").replace(self._ended / f"{name}.json")
        self._known.pop(name, None)
        self._announced.discard(name)

    def delete(self, name: str) -> None:
        """Remove the file and the folder of a forgotten job."""
        if not (self._live / f"{name}.json").exists():
            (self._ended / f"{name}.json").unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                (self._output / name).rmdir()

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for the next end. Jobs that another process starts are noticed within a quarter of a second."""
        deadline = clock.monotonic() + timeout_s
        while True:
            now, jobs = clock.now(), self._live_jobs()
            news = {job.name for job in jobs if job.ends_at <= now} - self._announced
            self._announced |= news
            if news:
                return True
            rest_s = deadline - clock.monotonic()
            if rest_s <= 0:
                return False
            next_s = min(
                ((job.ends_at - now) / timedelta(seconds=1) for job in jobs if job.ends_at > now), default=math.inf
            )
            with self._changed:
                self._changed.wait(max(0.001, min(rest_s, next_s, _LOOK_EVERY_S)))

    def _live_jobs(self) -> list[_SimulatedJob]:
        """Return the live jobs. A file is read again only when it has changed."""
        found = []
        for path in sorted(self._live.glob("*.json")):
            with suppress(FileNotFoundError):
                status = path.stat()
                mark = (status.st_mtime_ns, status.st_ino)
                known = self._known.get(path.stem)
                if known is None or known[0] != mark:
                    known = self._known[path.stem] = mark, _read(path)
                found.append(known[1])
        return found

    def _find(self, name: str) -> _SimulatedJob | None:
        for folder in (self._live, self._ended):
            with suppress(FileNotFoundError):
                return _read(folder / f"{name}.json")
        return None

    def _write(self, name: str, facts: Mapping[str, Any]) -> None:
        part = self._live / f".{name}.part"
        part.write_text(json.dumps(facts))
        part.replace(self._live / f"{name}.json")
        with self._changed:
            self._changed.notify_all()


def _read(path: Path) -> _SimulatedJob:
    return _SimulatedJob(json.loads(path.read_bytes()))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
