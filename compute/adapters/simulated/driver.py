"""Nodes and GPUs that do not exist, with bookkeeping that does: for trying out schedules and quotas on a laptop.

A job "runs" for the time that its spec says and then succeeds; nothing is executed, and its log says so. How a job
stands follows from its row (`SimulatedJob`) and the clock, so any process on any host may drive it.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from compute.engine.job_spec import HostFolder, SourceKind
from compute.engine.ports import (
    EndCause,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    OutputFile,
    Replica,
    ReplicaReport,
    ReportState,
    UsageSample,
)
from compute.models import Resource, SimulatedJob
from core import clock, units

_SAMPLE_EVERY_S = 1.0
_MOST_SAMPLES = 1000
_ENDS = {EndCause.EXITED: "succeeds", EndCause.TIMEOUT: "reaches its timeout", EndCause.STOPPED: "is stopped"}


@dataclass(frozen=True)
class SimulatedOutput:
    """The output of one job: no file. `source` is an empty folder that all such jobs have."""

    resource_id: str
    name: str
    source: HostFolder

    def list_files(self) -> Iterator[OutputFile]:
        """Yield nothing. Raises FileNotFoundError once the job is deleted."""
        if not SimulatedJob.objects.filter(resource=self.resource_id, name=self.name).exists():
            raise FileNotFoundError(self.name)
        yield from ()

    def open(self, path: str) -> BinaryIO:
        """Open none."""
        raise FileNotFoundError(path)


class SimulatedDriver:
    """The driver of kind `simulated`: declared nodes, and jobs that only pass the time, whatever they would mount."""

    mountable = frozenset(SourceKind)

    def __init__(self, resource: Resource, nodes: Sequence[NodeFacts], *, empty: Path) -> None:
        """Drive a resource with these nodes. `empty` is a folder for what later steps find of its jobs' outputs."""
        self._resource_id = resource.pk
        self._empty = empty
        self._jobs = SimulatedJob.objects.filter(resource=resource.pk)
        self._nodes = list(nodes)
        # When the live jobs end that this process knows of: those that it listed last, and those that it started.
        self._ends: dict[str, datetime] = {}
        self._announced: set[str] = set()
        self._changed = threading.Condition()

    def probe(self) -> Sequence[NodeFacts]:
        """Return the declared nodes."""
        return self._nodes

    def start(self, launch: Launch) -> None:
        """Write the job's row, unless there is one."""
        spec = launch.spec
        job = SimulatedJob(
            resource_id=self._resource_id,
            name=launch.name,
            token=launch.token,
            **_places(launch.replicas),
            command=spec.command if isinstance(spec.command, str) else " ".join(spec.command),
            cpu_millicores=launch.cpu_millicores,
            memory_bytes=launch.memory_bytes,
            duration_s=spec.simulated_duration_s,
            timeout_s=spec.timeout_s,
            started_at=clock.now(),
        )
        SimulatedJob.objects.bulk_create([job], ignore_conflicts=True)
        self._note_ends({launch.name: _end_of(job)[0]})

    def resize(self, name: str, replicas: Sequence[Replica], prepare: Callable[[], Launch]) -> bool:  # noqa: ARG002
        """Note in the job's row where its replicas run now."""
        self._jobs.filter(name=name, stopped_at=None).update(**_places(replicas))
        return True

    def list_jobs(self) -> Sequence[JobReport]:
        """Return how each live job stands by now."""
        now, jobs = clock.now(), list(self._jobs.filter(is_forgotten=False).order_by("name"))
        with self._changed:
            self._announced.intersection_update(job.name for job in jobs)
            self._ends.clear()
        self._note_ends({job.name: _end_of(job)[0] for job in jobs})
        return [_report(job, now) for job in jobs]

    def stop(self, name: str, grace_s: float) -> None:  # noqa: ARG002 (nothing runs that could use the grace)
        """End the job now, if it has not ended."""
        job, now = self._find(name), clock.now()
        if job is not None and now < _end_of(job)[0]:
            self._jobs.filter(pk=job.pk, stopped_at=None).update(stopped_at=now)
            self._note_ends({name: now})

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Return the text that follows from the job's row and the clock."""
        job, now = self._find(name), clock.now()
        if job is None:
            return LogChunk(b"", offset, is_complete=False, size_bytes=0)
        text = _log(job, now)
        data = text[offset : offset + limit]
        is_complete = now >= _end_of(job)[0] and offset + len(data) >= len(text)
        return LogChunk(data, offset + len(data), is_complete=is_complete, size_bytes=len(text))

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Return even use of all that the job was given, once a second."""
        job = self._find(name)
        if job is None:
            return []
        passed_s = (min(clock.now(), _end_of(job)[0]) - job.started_at) / timedelta(seconds=1)
        count = min(int(passed_s / _SAMPLE_EVERY_S), _MOST_SAMPLES)
        moments = (job.started_at + timedelta(seconds=number * _SAMPLE_EVERY_S) for number in range(1, count + 1))
        return [
            UsageSample(moment, job.cpu_millicores, job.memory_bytes)
            for moment in moments
            if after is None or moment > after
        ]

    def open_output(self, name: str) -> SimulatedOutput:
        """Read nothing."""
        self._empty.mkdir(parents=True, exist_ok=True)
        return SimulatedOutput(self._resource_id, name, HostFolder(str(self._empty)))

    def forget(self, name: str) -> None:
        """Note in the job's row that it is listed no more."""
        self._jobs.filter(name=name, is_forgotten=False).update(is_forgotten=True)
        with self._changed:
            self._ends.pop(name, None)
            self._announced.discard(name)

    def delete(self, name: str) -> None:
        """Delete the row of a forgotten job."""
        self._jobs.filter(name=name, is_forgotten=True).delete()

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for the next end, without the database. Of what others start or stop the next `list_jobs` tells."""
        deadline = clock.monotonic() + timeout_s
        with self._changed:
            while True:
                now = clock.now()
                news = {name for name, end in self._ends.items() if end <= now} - self._announced
                self._announced |= news
                if news:
                    return True
                rest_s = deadline - clock.monotonic()
                if rest_s <= 0:
                    return False
                later = [(end - now) / timedelta(seconds=1) for end in self._ends.values() if end > now]
                self._changed.wait(max(0.001, min(rest_s, min(later, default=math.inf))))

    def _find(self, name: str) -> SimulatedJob | None:
        return self._jobs.filter(name=name).first()

    def _note_ends(self, ends: dict[str, datetime]) -> None:
        with self._changed:
            self._ends.update(ends)
            self._changed.notify_all()


def _places(replicas: Sequence[Replica]) -> dict[str, Any]:
    """Return the columns that say where replicas run."""
    gpus = (
        ", ".join(replica.slices or (f"{share.index} ({units.format_gpus(share.milli)})" for share in replica.gpus))
        for replica in replicas
    )
    return {
        "node": ", ".join(replica.node_name for replica in replicas),
        "gpus": "; ".join(gpus).strip("; "),
        "replicas": len(replicas),
    }


def _end_of(job: SimulatedJob) -> tuple[datetime, EndCause]:
    """Return when a job ends, or ended, and why: its duration, its timeout or a stop, whichever comes first."""
    ends = [(job.started_at + timedelta(seconds=job.duration_s), EndCause.EXITED)]
    if job.timeout_s is not None:
        ends.append((job.started_at + timedelta(seconds=job.timeout_s), EndCause.TIMEOUT))
    if job.stopped_at is not None:
        ends.append((job.stopped_at, EndCause.STOPPED))
    return min(ends)


def _report(job: SimulatedJob, now: datetime) -> JobReport:
    """Return how a job stands. The replicas of a gang begin and end at the same moment."""
    report = _report_of_one(job, now)
    replicas = job.replicas if job.replicas > 1 else 0
    return replace(report, replicas=(ReplicaReport(report.state),) * replicas)


def _report_of_one(job: SimulatedJob, now: datetime) -> JobReport:
    end, cause = _end_of(job)
    if now < end:
        return JobReport(job.name, job.token, ReportState.RUNNING, started_at=job.started_at)
    has_succeeded = cause is EndCause.EXITED
    return JobReport(
        name=job.name,
        token=job.token,
        state=ReportState.SUCCEEDED if has_succeeded else ReportState.FAILED,
        exit_code=0 if has_succeeded else -15,
        cause=cause,
        started_at=job.started_at,
        finished_at=end,
    )


def _log(job: SimulatedJob, now: datetime) -> bytes:
    lines = [
        "This job is simulated: nothing is executed, and its node does not exist.",
        f"Node {job.node}, GPUs {job.gpus or 'none'}, for {job.duration_s:g} s.",
        f"The command would be: {job.command}",
    ]
    end, cause = _end_of(job)
    if now >= end:
        lines.append(f"The simulated job {_ENDS[cause]}.")
    return "".join(f"[simulated] {line}\n" for line in lines).encode()
