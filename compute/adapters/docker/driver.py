"""Runs jobs as containers of a Docker daemon. All that is known of a job is there, so any process can ask and adopt.

What a container reads is unpacked into it before it starts, by a thread that notes every few seconds that it works.
When it dies, its run is not listed any more, and whoever starts the run again begins anew.
"""

import asyncio
import json
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from compute.adapters.container_gpu_checks import COMMAND, ContainerGpuChecks
from compute.adapters.docker import containers
from compute.adapters.docker.containers import (
    GPUS,
    GRACE,
    JOB_ID,
    NAME,
    RECORD,
    RESOURCE,
    ROLE,
    RUN,
    TIMEOUT,
    TOKEN,
    ContainerSettings,
)
from compute.adapters.docker.engine import Engine, Json, Refusal
from compute.adapters.docker.outputs import ContainerOutput, read_tar
from compute.adapters.docker.terminals import ContainerTerminal
from compute.adapters.stamped_logs import StampedLogs
from compute.engine.job_spec import DEFAULT_GRACE_PERIOD_S, HostFolder, SourceKind, Tree
from compute.engine.ports import (
    CommandOutput,
    EndCause,
    GpuFacts,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    OutputReader,
    ReportState,
    TerminalRequest,
    UsageSample,
)
from compute.engine.secret_forms import forms_of
from compute.engine.visible_gpus import VisibleGpus
from compute.errors import CommandRefused, JobNotRunning, ResourceUnreachable, StartRefused
from core import clock
from core.errors import PlatformError

log = structlog.get_logger(__name__)
T = TypeVar("T")

BEAT_S = 5.0
_BEATS_MISSED = 4
_BEAT, _VERDICT = "/beat", "/verdict"
_NOT_FOUND, _CONFLICT = 404, 409
_PULL_SILENT_S = 300.0
_KILLED = 137
_UNSEEN = 255
"""The exit code that a daemon notes for a container which it finds ended when it starts; a command may have it too."""
_LATE_S = 1.0
_HANG_UP = 'for p in /proc/[0-9]*; do grep -qs "$1" "$p/environ" && kill -HUP "${p#/proc/}"; done'
_UNENDED = frozenset({"running", "paused", "restarting", "removing"})

OpenSource = Callable[[Tree | HostFolder], Iterator[bytes]]


@dataclass(frozen=True)
class _Verdict:
    """Why a run is ended by us, or could not begin (`is_end`). `kill_at`: when its grace is over."""

    cause: EndCause
    reason: str
    at: float
    kill_at: float = 0
    is_end: bool = False
    exit_code: int | None = None


class _Stopped(Exception):
    """The run was ended before it began."""


class DockerDriver:
    """The driver of kind `docker`."""

    def __init__(
        self,
        engine: Engine,
        settings: ContainerSettings,
        *,
        folder: Path,
        open_source: OpenSource,
        list_gpus: Callable[[], Sequence[GpuFacts]],
        is_here: bool,
    ) -> None:
        """Take what speaks with the daemon, and a folder for what this host remembers of logs.

        `open_source` yields the archive of what is to be copied, on a thread of its own. A daemon that `is_here` sees
        folders of this host.
        """
        self.mountable = frozenset({SourceKind.TREE, *([SourceKind.HOST_FOLDER] if is_here else [])})
        self._engine = engine
        self._settings = settings
        self._open_source = open_source
        self._list_gpus = list_gpus
        self._logs = StampedLogs(folder, _Lines(engine))
        # What never changes again: how containers with these ids began and ended, and why.
        self._facts: dict[str, Json] = {}
        self._verdicts: dict[str, _Verdict] = {}
        self._looked_at: set[str] = set()  # running containers whose verdict was read since this process has begun
        self._news_since = ""
        self._gpu_checks = ContainerGpuChecks()

    def close(self) -> None:
        """End the connections."""
        self._engine.close()

    def probe(self) -> Sequence[NodeFacts]:
        """Return the daemon's host."""
        info = self._ask(lambda: self._engine.get("/info"))
        return [
            NodeFacts(
                name=str(info["Name"]),
                cpu_millicores=1000 * int(info["NCPU"]),
                memory_bytes=int(info["MemTotal"]),
                gpus=tuple(self._list_gpus()),
                labels={"architecture": str(info.get("Architecture", ""))},
            )
        ]

    def start(self, launch: Launch) -> None:
        """Claim the name by a record and prepare the run on a thread, unless it has begun or somebody prepares it."""
        containers.check_launch(launch, self._settings, self.mountable)
        run = self._ask(lambda: self._engine.get(f"/containers/{self._name(launch.name, RUN)}/json"))
        if run is not None and run["State"]["Status"] != "created":
            return
        record = self._find_record(launch.name)
        if record is not None:
            if self._read_verdict(record["Id"]) is not None or not self._is_stale(record["Id"], record["Created"]):
                return
            self._remove(record["Id"])
        if run is not None:
            self._remove(run["Id"])
        record_id = self._create_record(launch)
        if record_id is not None:
            self._write(record_id, _BEAT, b"")
            thread = threading.Thread(target=self._prepare, args=(launch, record_id), daemon=True)
            thread.name = f"prepare {launch.name}"
            thread.start()

    def _create_record(self, launch: Launch) -> str | None:
        """Return the id of a new record; None where another process was quicker."""
        body = containers.build_record(launch, self._settings)
        for is_last_try in (False, True):
            try:
                return self._create(launch.name, RECORD, body)
            except Refusal as error:
                if error.status == _CONFLICT:
                    return None
                if error.status != _NOT_FOUND or is_last_try:
                    raise StartRefused(f"Docker refuses the job: {error.message}") from error
                self._engine.import_image(containers.file_archive("record", b""), containers.EMPTY_IMAGE)
        raise AssertionError

    def _prepare(self, launch: Launch, record_id: str) -> None:
        """Make the container of a run, bring what it reads, and start it; or note why that is not possible."""
        over = threading.Event()
        beat = threading.Thread(target=self._beat, args=(record_id, over), name=f"beat {launch.name}", daemon=True)
        beat.start()
        end: tuple[EndCause, str, int | None] | None = None
        try:
            run_id = self._create_run(launch)
            self._bring(launch, record_id, run_id)
            if self._read_verdict(record_id) is None:
                self._start_run(run_id)
        except _Stopped:
            pass
        except _CannotBegin as error:
            end = error.cause, str(error), error.exit_code
        except ResourceUnreachable as error:  # found stale later, and begun anew
            log.warning("job.preparation_broken", job=launch.name, error=error.message)
        except (PlatformError, Refusal, OSError) as error:
            end = EndCause.NOT_STARTED, f"The job could not be started: {getattr(error, 'message', error)}", None
        finally:
            over.set()
        if end is not None:
            cause, reason, exit_code = end
            self._judge(record_id, _Verdict(cause, reason, _now(), is_end=True, exit_code=exit_code))

    def _beat(self, record_id: str, over: threading.Event) -> None:
        while not over.wait(BEAT_S):
            try:
                self._write(record_id, _BEAT, b"")
            except (ResourceUnreachable, Refusal) as error:
                log.info("job.beat_unanswered", error=error.message)

    def _create_run(self, launch: Launch) -> str:
        body = containers.build_run(launch, self._settings)
        image = str(body["Image"])
        if self._engine.get(f"/images/{image}/json") is None:
            self._pull(image)
        return self._create(launch.name, RUN, body)

    def _pull(self, image: str) -> None:
        name, separator, version = image.rpartition("@" if "@" in image else ":")
        fault = ""
        try:
            query = {"fromImage": name, "tag": version} if separator != "@" else {"fromImage": image}
            for line in self._engine.follow("/images/create", method="POST", silent_s=_PULL_SILENT_S, **query):
                fault = str(line.get("error", ""))
        except Refusal as error:
            fault = error.message
        if fault or self._engine.get(f"/images/{image}/json") is None:
            why = fault or "the registry did not go on."
            raise _CannotBegin(EndCause.IMAGE_UNAVAILABLE, f"The image {image} cannot be pulled: {why}")

    def _bring(self, launch: Launch, record_id: str, run_id: str) -> None:
        self._engine.write_archive(run_id, [containers.folders_archive(launch)])
        for place, source in containers.list_unpacked(launch):
            self._engine.write_archive(run_id, self._until_stopped(record_id, self._archive_of(source, place)))

    def _archive_of(self, source: Tree | HostFolder, place: str) -> Iterator[bytes]:
        with read_tar(self._open_source(source)) as archive:
            yield from containers.move_archive(archive, place)

    def _until_stopped(self, record_id: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        look_at = clock.monotonic() + BEAT_S
        for piece in pieces:
            if clock.monotonic() >= look_at:
                look_at = clock.monotonic() + BEAT_S
                if self._read_verdict(record_id) is not None:
                    raise _Stopped
            yield piece

    def _start_run(self, run_id: str) -> None:
        try:
            self._engine.post(f"/containers/{run_id}/start", answer_s=60)
        except Refusal as error:
            code = self._engine.get(f"/containers/{run_id}/json")["State"]["ExitCode"]
            cause = EndCause.EXITED if code in {126, 127} else EndCause.NOT_STARTED
            raise _CannotBegin(cause, f"The command cannot be started in its image: {error.message}", code) from error

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what all records and their containers say. Those that should not go on are ended."""
        listed = self._ask(lambda: self._engine.get("/containers/json", all="true", filters=self._filters()))
        runs = {item["Labels"][NAME]: item for item in listed if item["Labels"].get(ROLE) == RUN}
        records = {item["Labels"][NAME]: item for item in listed if item["Labels"].get(ROLE) == RECORD}
        ids = {item["Id"] for item in listed}
        for known in (self._facts, self._verdicts):
            for gone in known.keys() - ids:
                known.pop(gone, None)
        self._looked_at &= ids
        self._gpu_checks.keep(ids)
        reports = (self._report(records[name], runs.get(name)) for name in sorted(records))
        return [report for report in reports if report is not None]

    def _report(self, record: Json, run: Json | None) -> JobReport | None:
        name, token = record["Labels"][NAME], record["Labels"][TOKEN]
        if run is None or run["State"] == "created":
            verdict = self._read_verdict(record["Id"])
            if verdict is not None and verdict.is_end:
                at = _moment(verdict.at)
                return JobReport(
                    name,
                    token,
                    ReportState.FAILED,
                    exit_code=verdict.exit_code,
                    cause=verdict.cause,
                    finished_at=at,
                    reason=verdict.reason,
                )
            created = datetime.fromtimestamp(record["Created"], UTC).isoformat()
            is_prepared = not self._is_stale(record["Id"], created)
            return JobReport(name, token, ReportState.STARTING) if is_prepared else None
        facts = self._read_facts(run)
        if facts is None:
            return None
        started_at = _time(facts["StartedAt"])
        if facts["Status"] in _UNENDED:
            self._judge_running(record["Id"], run, started_at)
            seen = self._check_gpus(name, run, started_at) if GPUS in run["Labels"] else None
            return JobReport(name, token, ReportState.RUNNING, started_at=started_at, gpus_seen=seen)
        exit_code = int(facts["ExitCode"])
        cause, reason = self._explain_end(record["Id"], run["Id"], facts)
        finished_at = _time(facts["FinishedAt"])
        return JobReport(
            name=name,
            token=token,
            state=ReportState.SUCCEEDED if exit_code == 0 else ReportState.FAILED,
            exit_code=exit_code,
            cause=cause,
            started_at=min(started_at, finished_at),  # the daemon notes a quick start after its end
            finished_at=finished_at,
            reason=reason,
            gpus_seen=self._gpu_checks.find(run["Id"]),
        )

    def _check_gpus(self, name: str, run: Json, started_at: datetime) -> VisibleGpus | None:
        return self._gpu_checks.check(run["Id"], name, started_at, lambda: self.run_command(name, 0, COMMAND, b""))

    def _read_facts(self, run: Json) -> Json | None:
        """Return how a container stands; None where it has gone meanwhile. Ended and running ones are read once."""
        state, run_id = run["State"], run["Id"]
        known = self._facts.get(run_id)
        if known is None or known["Status"] != state:
            container = self._ask(lambda: self._engine.get(f"/containers/{run_id}/json"))
            if container is None:
                return None
            known = self._facts[run_id] = container["State"]
        return known

    def _judge_running(self, record_id: str, run: Json, started_at: datetime) -> None:
        labels = run["Labels"]
        if run["Id"] not in self._looked_at:
            self._read_verdict(record_id)
            self._looked_at.add(run["Id"])
        verdict = self._verdicts.get(record_id)
        if verdict is not None:
            if _now() >= verdict.kill_at:
                self._signal(run["Id"], "SIGKILL")
        elif TIMEOUT in labels and self._engine.time.now() - started_at >= timedelta(seconds=float(labels[TIMEOUT])):
            self._end(record_id, run["Id"], EndCause.TIMEOUT, float(labels.get(GRACE, DEFAULT_GRACE_PERIOD_S)))

    def _explain_end(self, record_id: str, run_id: str, facts: Json) -> tuple[EndCause, str]:
        if facts["ExitCode"] == 0:
            return EndCause.EXITED, ""
        verdict = self._read_verdict(record_id)
        if verdict is not None:
            return verdict.cause, verdict.reason
        if facts.get("OOMKilled"):
            return EndCause.OUT_OF_MEMORY, ""
        if facts.get("Error"):
            return EndCause.NOT_STARTED, f"Docker could not run the container: {facts['Error']}"
        if facts["ExitCode"] == _UNSEEN and not self._has_seen_end(run_id, facts):
            return EndCause.NODE_LOST, "The Docker daemon or its host was restarted while the job ran."
        killed = "The command was killed by SIGKILL: by itself, or by somebody on the Docker host."
        return EndCause.EXITED, killed if facts["ExitCode"] == _KILLED else ""

    def _has_seen_end(self, run_id: str, facts: Json) -> bool:
        """Whether the daemon tells that the command ended. One that was started again has found the container ended."""
        filters = json.dumps({"container": [run_id], "event": ["die"]})
        until = f"{_time(facts['FinishedAt']).timestamp() + _LATE_S:.9f}"
        with _refusal_as_ours():
            events = self._engine.follow("/events", silent_s=_LATE_S, since="0", until=until, filters=filters)
            return next(events, None) is not None

    def stop(self, name: str, grace_s: float) -> None:
        """Note that the run is to end, then tell its command. One that has not begun never begins."""
        record = self._find_record(name)
        if record is None:
            return
        run = self._ask(lambda: self._engine.get(f"/containers/{self._name(name, RUN)}/json"))
        verdict = self._read_verdict(record["Id"])
        if run is None or run["State"]["Status"] == "created":
            self._judge(record["Id"], _Verdict(EndCause.STOPPED, "", _now(), is_end=True))
        elif run["State"]["Status"] in _UNENDED:
            if verdict is None:
                self._end(record["Id"], run["Id"], EndCause.STOPPED, grace_s)
            elif _now() >= verdict.kill_at:
                self._signal(run["Id"], "SIGKILL")

    def _end(self, record_id: str, run_id: str, cause: EndCause, grace_s: float) -> None:
        """Write down why, then send SIGTERM, and SIGKILL after the grace. If we die, the next poll sends that."""
        self._judge(record_id, _Verdict(cause, "", _now(), kill_at=_now() + grace_s))
        self._signal(run_id, "SIGTERM" if grace_s > 0 else "SIGKILL")
        if grace_s > 0:
            timer = threading.Timer(grace_s, self._signal, (run_id, "SIGKILL"))
            timer.daemon = True
            timer.start()

    def _signal(self, run_id: str, signal: str) -> None:
        try:
            self._engine.post(f"/containers/{run_id}/kill", signal=signal)
        except Refusal as error:  # it has ended
            log.debug("job.signal_refused", error=error.message)
        except ResourceUnreachable as error:
            log.warning("job.signal_unanswered", error=error.message)

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Read from this host's copy, once that has what is new at the daemon."""
        container = self._name(name, RUN)
        if not self._logs.is_complete(container):
            run = self._ask(lambda: self._engine.get(f"/containers/{container}/json"))
            if run is not None:
                has_ended = run["State"]["Status"] in {"exited", "dead"}
                fetch = self._logs.fetch
                path = f"/containers/{run['Id']}/logs"
                self._ask(lambda: fetch(container, path, lambda: _secrets_of(run), has_ended=has_ended))
        return self._logs.read(container, offset, limit)

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:  # noqa: ARG002
        """Return nothing: what containers use is not collected."""
        return []

    def open_output(self, name: str) -> OutputReader:
        """Read the folder in the container."""
        return ContainerOutput(self._engine, self._name(name, RUN))

    def forget(self, name: str) -> None:
        """Remove the record."""
        self._remove(self._name(name, RECORD))

    def delete(self, name: str) -> None:
        """Remove the container of an ended, forgotten run, and its log."""
        if self._find_record(name) is None:
            self._remove(self._name(name, RUN))
            self._logs.remove(self._name(name, RUN))

    def list_leftovers(self) -> Mapping[str, Collection[str]]:
        """Return the runs of which there still is a container, by the ids of their jobs."""
        names: dict[str, set[str]] = {}
        for item in self._ask(lambda: self._engine.get("/containers/json", all="true", filters=self._filters())):
            names.setdefault(item["Labels"][JOB_ID], set()).add(item["Labels"][NAME])
        return names

    def run_command(self, name: str, rank: int, command: Sequence[str], stdin: bytes) -> Iterator[CommandOutput]:  # noqa: ARG002
        """Run a command in the container, as the user of its image."""
        return self._follow(self._create_exec(name, command, has_input=bool(stdin)), stdin)

    async def open_terminal(self, name: str, rank: int, request: TerminalRequest) -> ContainerTerminal:  # noqa: ARG002
        """Run a command in a terminal in the container, as the user of its image."""
        mark = f"NEARLINE_TERMINAL={secrets.token_hex(8)}"
        env = [f"TERM={request.kind}", mark]
        exec_id = await asyncio.to_thread(self._create_exec, name, request.command, has_input=True, Tty=True, Env=env)
        hang_up = partial(self._hang_up, name, mark)
        try:
            terminal = ContainerTerminal(self._engine, exec_id, *await self._engine.open_terminal(exec_id), hang_up)
        except Refusal as error:
            raise CommandRefused(f"Docker refuses the command: {error.message}") from error
        await terminal.resize(request.columns, request.rows)
        return terminal

    def _hang_up(self, name: str, mark: str) -> None:
        """Send SIGHUP to the processes of a terminal, which are known by a variable."""
        try:
            exec_id = self._create_exec(name, ("sh", "-c", _HANG_UP, "sh", mark), has_input=False)
            self._engine.post(f"/exec/{exec_id}/start", {"Detach": True})
        except (JobNotRunning, CommandRefused, Refusal, ResourceUnreachable) as error:
            log.info("terminal.not_hung_up", job=name, error=str(error))

    def _create_exec(self, name: str, command: Sequence[str], *, has_input: bool, **options: object) -> str:
        """Return the id of a command that is to run in a container. Raises JobNotRunning and CommandRefused."""
        body = {"Cmd": [*command], "AttachStdin": has_input, "AttachStdout": True, "AttachStderr": True, **options}
        try:
            made = self._engine.post(f"/containers/{self._name(name, RUN)}/exec", body)
        except Refusal as error:
            if error.status in {_NOT_FOUND, _CONFLICT}:
                raise JobNotRunning("The container of the job does not run.") from error
            raise CommandRefused(f"Docker refuses the command: {error.message}") from error
        return str(made["Id"])

    def _follow(self, exec_id: str, stdin: bytes) -> Iterator[CommandOutput]:
        with _refusal_as_ours():
            for is_error, data in self._engine.attach(exec_id, stdin=stdin or None):
                yield CommandOutput(data, is_error=is_error)
            yield CommandOutput(exit_code=self._engine.get(f"/exec/{exec_id}/json")["ExitCode"])

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for an event of the daemon. Those since the last one are told at once."""
        if not self._news_since:
            info = self._ask(lambda: self._engine.get("/info"))
            self._news_since = f"{_time(info['SystemTime']).timestamp():.9f}"
        filters = {"label": [f"{RESOURCE}={self._settings.resource}"], "event": ["start", "die"]}
        query = {"since": self._news_since, "filters": json.dumps(filters)}
        with _refusal_as_ours():
            for event in self._engine.follow("/events", silent_s=max(timeout_s, 0.05), **query):
                seconds, rest = divmod(int(event["timeNano"]) + 1, 10**9)
                self._news_since = f"{seconds}.{rest:09}"
                return True
        return False

    def _find_record(self, name: str) -> Json | None:
        record: Json | None = self._ask(lambda: self._engine.get(f"/containers/{self._name(name, RECORD)}/json"))
        return record

    def _is_stale(self, record_id: str, created: str) -> bool:
        """Whether nobody prepares a run any more."""
        beat = self._ask(lambda: self._engine.find_entry(record_id, _BEAT))
        # Beats are stamped by us, a container by the daemon.
        silence = self._engine.time.now() - _time(created) if beat is None else clock.now() - _time(beat["mtime"])
        return silence > timedelta(seconds=_BEATS_MISSED * BEAT_S)

    def _read_verdict(self, record_id: str) -> _Verdict | None:
        """Return why a run was ended by us, if it was."""
        if record_id in self._verdicts:
            return self._verdicts[record_id]

        def read() -> _Verdict | None:
            try:
                with self._engine.read_archive(record_id, _VERDICT) as pieces, read_tar(pieces) as archive:
                    member = archive.next()
                    content = archive.extractfile(member) if member is not None else None
                    value = json.loads(content.read()) if content is not None else None
            except FileNotFoundError:
                return None
            return value and _Verdict(**{**value, "cause": EndCause(value["cause"])})

        verdict = self._ask(read)
        if verdict is not None:
            self._verdicts[record_id] = verdict
        return verdict

    def _judge(self, record_id: str, verdict: _Verdict) -> None:
        """Write down why a run is ended, unless that was done."""
        if self._read_verdict(record_id) is None:
            self._write(record_id, _VERDICT, json.dumps(vars(verdict)).encode())
            self._verdicts[record_id] = verdict

    def _write(self, container: str, path: str, content: bytes) -> None:
        archive = containers.file_archive(path, content, at=_now())
        self._ask(lambda: self._engine.write_archive(container, [archive]))

    def _create(self, name: str, role: str, body: Json) -> str:
        made = self._engine.post("/containers/create", body, name=self._name(name, role), answer_s=60)
        return str(made["Id"])

    def _remove(self, container: str) -> None:
        self._ask(lambda: self._engine.delete(f"/containers/{container}", force="true", v="true"))

    def _filters(self) -> str:
        return json.dumps({"label": [f"{RESOURCE}={self._settings.resource}"]})

    def _name(self, name: str, role: str) -> str:
        return containers.container_name(self._settings, name, role)

    def _ask(self, question: Callable[[], T]) -> T:
        with _refusal_as_ours():
            return question()


class _CannotBegin(Exception):
    """The run can never begin, for a reason of its own."""

    def __init__(self, cause: EndCause, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.cause, self.exit_code = cause, exit_code


class _Lines:
    """Gives out logs by Kubernetes' words for the parts of a query."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def stream(self, path: str, read_s: float, **query: str) -> Iterator[bytes]:
        """Yield the lines of a container's log with their time stamps."""
        since = query.get("sinceTime")
        extra = {"since": str(int(_time(since).timestamp()))} if since else {}
        return self._engine.stream(path, read_s, stdout="true", stderr="true", timestamps="true", **extra)


@contextmanager
def _refusal_as_ours() -> Iterator[None]:
    """Raise ResourceUnreachable for what a daemon refuses that should be possible."""
    try:
        yield
    except Refusal as error:
        raise ResourceUnreachable(f"Docker refuses: {error.message}") from error


def _secrets_of(run: Json) -> list[bytes]:
    config = run["Config"]
    variables = dict(item.partition("=")[::2] for item in config.get("Env") or [])
    return forms_of([variables[name] for name in containers.secret_names(config["Labels"]) if name in variables])


def _now() -> float:
    return clock.now().timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _time(text: str) -> datetime:
    """Read a moment as Docker writes it, with up to nine digits of a second."""
    return datetime.fromisoformat(text).astimezone(UTC)
