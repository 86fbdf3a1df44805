"""Runs jobs as processes of this machine, each beside a shim that outlives the platform.

Jobs run as the platform's own user, in a sandbox where the kernel allows one (see sandbox, views): without it they can
read and write what that user can. Their environment is made from nothing (see engine.environment).
"""

import importlib.util
import json
import logging
import os
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from compute.adapters.local import binds, machine, shim, sockets, terminals
from compute.adapters.local.checkpoint_folders import CheckpointFolders
from compute.adapters.local.folders import JobFolder, write_json
from compute.adapters.local.machine import describe_machine, usable_cores
from compute.adapters.local.processes import wait_for_processes
from compute.adapters.local.shim_spawner import ShimSpawner
from compute.adapters.local.sockets import TcpConnection
from compute.adapters.local.terminals import LocalTerminal
from compute.adapters.local.tree_folders import TreeFolders, TreeSource
from compute.adapters.local.views import Entry, Views
from compute.adapters.output_folder import OutputFolder
from compute.engine.environment import JobPaths, job_environment
from compute.engine.job_spec import HostFolder, JobSpec, Mount, SourceKind, Tree
from compute.engine.ports import (
    EndCause,
    JobReport,
    Launch,
    LogChunk,
    NodeFacts,
    ReportState,
    TerminalRequest,
    UsageSample,
)
from compute.engine.secret_forms import forms_of
from compute.engine.visible_gpus import VisibleGpus
from compute.engine.volumes import JobVolume, describe_fault, read_volumes
from compute.errors import ResourceUnreachable, StartRefused, VolumeRefused
from core.errors import NotFound, PlatformError
from core.removals import remove_folder
from datasets.errors import HydrationStopped

# Not structlog: this module also runs on hosts that have only Python.
log = logging.getLogger(__name__)

_LATE_USAGE_BYTES = 16 * 1024
_LEAST_FREE_BYTES = 64 * 1024


class LocalDriver:
    """The driver of kind `local`. All its state is in the folder of jobs, so any number of processes may use it."""

    def __init__(
        self,
        jobs: Path,
        views: Views | None = None,
        *,
        unconfined_reason: str = "",
        trees: TreeFolders | None = None,
        volumes: Sequence[str] | None = (),
        shim_module: str = shim.__name__,
    ) -> None:
        """Keep jobs in a folder. `views` says what they see; None: they are not confined, for that reason.

        With `trees`, jobs mount trees of the store too, as folders of this host. `volumes` are the folders that an
        admin offers jobs; None: whoever launches jobs has looked. `shim_module` has the `main` of the process that
        starts shims.
        """
        self.mountable = frozenset({SourceKind.HOST_FOLDER, *([SourceKind.TREE] if trees else [])})
        self._trees = trees
        self._volumes = volumes
        self._jobs = jobs.absolute()
        self._views = views
        self._unconfined_reason = unconfined_reason
        self._live = self._jobs / ".live"
        self._live.mkdir(parents=True, exist_ok=True)
        self._checkpoints = CheckpointFolders(self._jobs / ".checkpoints")
        self._news = self._jobs / ".news"
        self._listener: int | None = None
        self._guard = threading.Lock()
        self._spawner = ShimSpawner(self._jobs, shim_module)
        self._cores: dict[str, list[int]] | None = None

    def set_views(self, views: Views) -> None:
        """Let jobs that start from now on see something else."""
        self._views = views

    def close(self) -> None:
        """Let go of the process that starts shims. Jobs run on."""
        self._spawner.close()

    def probe(self) -> Sequence[NodeFacts]:
        """Return this machine."""
        return [replace(describe_machine(), unconfined_reason=self._unconfined_reason)]

    def start(self, launch: Launch) -> None:
        """Hand the job to a new shim, unless one has or had it."""
        folder = self._folder(launch.name)
        # The marker comes first: whatever happens next, the job is looked for.
        os.close(os.open(f"{self._live}/{launch.name}", os.O_CREAT, 0o600))
        with suppress(FileExistsError):
            os.mkdir(folder.path)
        lock = folder.lock()
        if lock is None:
            return
        is_handed_on = False
        try:
            if not folder.has_begun():
                self._end_older_run(launch)
                missing = self._open_missing_trees(launch)
                if missing:
                    self._bring_and_start(folder, launch, missing, lock)
                    is_handed_on = True
                else:
                    self._start_locked(folder, launch, lock)
        except OSError as error:
            raise StartRefused(f"The job's folder could not be prepared: {error}.") from error
        finally:
            if not is_handed_on:
                os.close(lock)

    def _open_missing_trees(self, launch: Launch) -> Mapping[Tree, TreeSource]:
        """Return the trees that a job mounts or goes on from, and that are not on this host."""
        if self._trees is None:
            return {}
        missing = {tree for tree in _trees_of(launch) if self._trees.find(tree) is None}
        if (checkpoint := self._stale_checkpoint(launch)) is not None:
            missing.add(checkpoint)
        try:
            return {tree: self._trees.open_tree(tree, launch) for tree in missing}
        except NotFound as error:
            raise StartRefused(error.message) from error

    def _end_older_run(self, launch: Launch) -> None:
        """End a run that still uses the checkpoint folder of this one. Raises ResourceUnreachable until it has ended.

        There is one where the platform had given up the run of a host that was away.
        """
        older = self._runs_with(launch.checkpoint.name) - {launch.name} if launch.checkpoint is not None else set()
        for name in older:
            self.stop(name, 0)
        if older:
            raise ResourceUnreachable(f"{', '.join(sorted(older))} is being ended, which used the checkpoint folder.")

    def _runs_with(self, checkpoint: str) -> set[str]:
        """Return the runs that may still write to a checkpoint folder."""
        facts = {marker.name: self._folder(marker.name).read("launch.json") for marker in self._live.iterdir()}
        users = {name for name, fact in facts.items() if fact is not None and fact.get("checkpoint") == checkpoint}
        return {name for name in users if self._is_at_work(self._folder(name))}

    def _stale_checkpoint(self, launch: Launch) -> Tree | None:
        """Return the tree that is to be put in place of what the checkpoint folder of a job holds, if any."""
        checkpoint = launch.checkpoint
        return None if checkpoint is None or self._checkpoints.is_current(checkpoint) else checkpoint.tree

    def _bring_and_start(
        self, folder: JobFolder, launch: Launch, missing: Mapping[Tree, TreeSource], lock: int
    ) -> None:
        """Write trees to this host and then start the job, on a thread of its own, which holds the lock until then."""
        facts = _facts(launch, cores=[])
        write_json(f"{folder.path}/launch.json", facts)
        control = folder.open_control()
        trees = self._trees
        assert trees is not None  # noqa: S101 (some of its trees are missing)

        telling = threading.Lock()

        def tell(reason: str) -> None:
            with telling:  # several threads may wait
                write_json(f"{folder.path}/launch.json", {**facts, "waits_for": reason})

        def bring() -> None:
            try:
                checkpoint = self._stale_checkpoint(launch)
                for tree, source in missing.items():
                    if tree == checkpoint and launch.checkpoint is not None:
                        self._checkpoints.bring(launch.checkpoint, source, lambda: _has_order(control), tell)
                    if tree in _trees_of(launch):
                        trees.bring(tree, source, lambda: _has_order(control), tell)
                self._start_locked(folder, launch, lock)
            except HydrationStopped:
                _end_before_start(folder, launch, EndCause.STOPPED, "")
            except VolumeRefused as error:
                _end_before_start(folder, launch, EndCause.VOLUME_REFUSED, error.message)
            except (PlatformError, OSError) as error:
                reason = error.message if isinstance(error, PlatformError) else str(error)
                _end_before_start(folder, launch, EndCause.NOT_STARTED, f"The job could not be started: {reason}")
            finally:
                os.close(control)
                os.close(lock)

        threading.Thread(target=bring, name=f"bring {launch.name}", daemon=True).start()

    def _start_locked(self, folder: JobFolder, launch: Launch, lock: int) -> None:
        spec = self._with_host_folders(launch.spec) if _trees_of(launch) else launch.spec
        if spec.working_directory is not None and not Path(spec.working_directory).is_dir():
            raise StartRefused(f"The working directory {spec.working_directory} does not exist on this machine.")
        code = binds.find_source(spec.code, "The code") if spec.code is not None else None
        mounts = binds.list_binds(spec)
        volumes = self._volumes_of(spec)
        paths = folder.prepare(launch, _notes(launch))
        if launch.checkpoint is not None:
            paths = replace(paths, checkpoint=str(self._checkpoints.prepare(launch.checkpoint.name)))
        (binds.make_links if self._views is None else binds.make_mount_points)(folder.path, mounts)
        view = self._views.view_of(folder, launch, mounts, paths, volumes) if self._views is not None else []
        cores = self._choose_cores(launch)
        write_json(f"{folder.path}/launch.json", _facts(launch, cores))
        control = folder.open_control()
        try:
            self._spawn(folder, _order(launch, paths, cores, code, view), lock, control)
        finally:
            os.close(control)

    def _volumes_of(self, spec: JobSpec) -> Sequence[JobVolume]:
        """Return the folders that a job names. Raises VolumeRefused for what is not offered, or cannot be shown.

        Raises StartRefused for a folder that is not there: what is mounted there may be away for a while.
        """
        volumes = read_volumes(spec.volumes)
        if self._volumes is not None and (fault := describe_fault(volumes, self._volumes, resource="this machine")):
            raise VolumeRefused(fault)
        for volume in volumes:
            if not os.path.isdir(volume.name):
                raise StartRefused(f"There is no folder {volume.name} on this machine.")
            if self._views is None and (volume.name != volume.path or volume.read_only):
                raise VolumeRefused(
                    "Jobs on this machine have no sandbox, which could show a folder elsewhere, or only to be read: "
                    f"write {volume.name}:{volume.name}."
                )
        return volumes

    def _with_host_folders(self, spec: JobSpec) -> JobSpec:
        """Return the spec with the folders of this host in place of trees."""

        def on_host(mount: Mount) -> Mount:
            if self._trees is None or not isinstance(mount.source, Tree):
                return mount
            return replace(mount, source=HostFolder(str(self._trees.sealed(mount.source).folder)))

        return replace(
            spec,
            data=tuple(map(on_host, spec.data)),
            inputs=tuple(map(on_host, spec.inputs)),
            code=spec.code and on_host(spec.code),
        )

    def _spawn(self, folder: JobFolder, order: bytes, lock: int, control: int) -> None:
        """Start the shim. The lock is handed on, so there is no moment at which a job runs and is not locked."""
        with open(folder.log, "ab") as log:
            self._spawner.spawn(folder.path, order, (lock, control, log.fileno()))

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what the folders of all live jobs say."""
        reports = map(self._report, sorted(os.listdir(self._live)))
        return [report for report in reports if report is not None]

    def _report(self, name: str) -> JobReport | None:
        try:
            return self._read_report(name)
        except (KeyError, TypeError, ValueError) as error:
            # A job without a sandbox can spoil its own records; nobody else's are to suffer.
            log.warning("job.records_unreadable job=%s error=%r", name, error)
            return None

    def _read_report(self, name: str) -> JobReport | None:
        folder = self._folder(name)
        if (end := folder.read("exit.json")) is not None:
            return _ended(name, end)
        # Read before the lock is asked for: whoever has started and holds no lock is dead, not about to begin.
        if (facts := folder.read("started.json")) is None:
            launch = folder.read("launch.json") if folder.is_locked() else None
            if launch is None:
                return None
            return JobReport(name, launch["token"], ReportState.STARTING, reason=launch.get("waits_for", ""))
        if folder.is_locked():
            return _running(name, facts)
        if (end := folder.read("exit.json")) is not None:  # it ended between the two reads
            return _ended(name, end)
        # The shim was killed. Its command may live on where nobody watches it: end that too, then say so.
        shim.kill_all(partial(shim.list_processes, folder.output))
        reason = "The process that watched over the job was killed, or the machine was restarted."
        if _is_full(folder.path):
            reason = "The disk with the files of jobs is full, so that the end of the job could not be recorded."
        return JobReport(name, facts["token"], ReportState.LOST, started_at=_time(facts["started_at"]), reason=reason)

    def stop(self, name: str, grace_s: float) -> None:
        """Order the job's shim to end it."""
        self._folder(name).send(f"stop {grace_s:g}")

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Read from the log file."""
        folder = self._folder(name)
        has_ended = folder.has_ended()  # asked before reading: what is read after the end is all there is
        try:
            with open(folder.log, "rb") as file:
                file.seek(offset)
                data = file.read(limit)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return LogChunk(b"", offset, is_complete=False, size_bytes=0)
        end = offset + len(data)
        return LogChunk(data, end, is_complete=has_ended and end >= size, size_bytes=size)

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Read the samples, from the end where only late ones are asked for; one that is being written is left out."""
        try:
            with open(self._folder(name).usage, "rb") as file:
                size = part = file.seek(0, os.SEEK_END)
                if after is not None:
                    part = min(size, _LATE_USAGE_BYTES)
                while True:
                    file.seek(size - part)
                    # What comes before the first line end may be half a line.
                    lines = file.read(part).splitlines(keepends=True)[0 if part == size else 1 :]
                    samples = [_sample(json.loads(line)) for line in lines if line.endswith(b"\n")]
                    if part == size or (after is not None and samples and samples[0].at <= after):
                        break
                    part = min(size, 8 * part)
        except FileNotFoundError:
            return []
        return [sample for sample in samples if after is None or sample.at > after]

    def open_output(self, name: str) -> OutputFolder:
        """Read the job's output folder."""
        return OutputFolder(Path(self._folder(name).output))

    def open_checkpoint(self, name: str) -> OutputFolder | None:
        """Read a checkpoint folder."""
        return self._checkpoints.open(name)

    def list_checkpoints(self) -> Sequence[str]:
        """Return the names of all checkpoint folders."""
        return self._checkpoints.list_names()

    def delete_checkpoint(self, name: str) -> None:
        """Delete a checkpoint folder, unless a run may still write to it."""
        if not self._runs_with(name):
            self._checkpoints.delete(name)

    def forget(self, name: str) -> None:
        """Remove the marker and what is of no use after the end."""
        folder = self._folder(name)
        tmp = os.path.join(folder.path, "tmp")
        try:
            os.rmdir(tmp)  # most are empty
        except OSError:
            with suppress(OSError):
                remove_folder(tmp)
        for path in (folder.control, f"{self._live}/{name}"):
            with suppress(FileNotFoundError):
                os.unlink(path)
        with self._guard:
            if self._cores is not None:
                self._cores.pop(name, None)

    def delete(self, name: str) -> None:
        """Remove the job's folder, unless the job is live."""
        folder = self._folder(name)
        if not ((self._live / name).exists() or self._is_at_work(folder)):
            with suppress(OSError):
                remove_folder(folder.path)

    async def open_port(self, name: str, rank: int, port: int) -> TcpConnection:  # noqa: ARG002 (there is one replica)
        """Connect to a port on which a process of the job listens."""
        processes = await wait_for_processes(self._folder(name))
        return await sockets.connect(processes.pids, port)

    async def open_terminal(self, name: str, rank: int, request: TerminalRequest) -> LocalTerminal:  # noqa: ARG002
        """Run a command in a terminal, in the job's sandbox, as the job's user and within its limits."""
        return await terminals.open_terminal(self._folder(name), request)

    def wait_for_news(self, timeout_s: float) -> bool:
        """Listen on the FIFO to which shims write when their jobs begin and end."""
        if self._listener is None:
            with suppress(FileExistsError):
                os.mkfifo(self._news, 0o600)
            # Open at both ends, so that it never reports an end of file.
            self._listener = os.open(self._news, os.O_RDWR | os.O_NONBLOCK)
        if not select.select([self._listener], [], [], timeout_s)[0]:
            return False
        with suppress(BlockingIOError):  # another process of the platform was quicker, and looks too
            os.read(self._listener, 1 << 16)
        return True

    @staticmethod
    def _is_at_work(folder: JobFolder) -> bool:
        return folder.is_locked() and not folder.has_ended()

    def _folder(self, name: str) -> JobFolder:
        return JobFolder(f"{self._jobs}/{name}")

    def _choose_cores(self, launch: Launch) -> list[int]:
        """Return the cores with the fewest live jobs bound to them; none when the job may use all."""
        cores = usable_cores()
        count = -(-launch.cpu_millicores // 1000)
        if not 0 < count < len(cores):
            return []
        with self._guard:
            if self._cores is None:
                orders = {marker.name: self._folder(marker.name).read("launch.json") for marker in self._live.iterdir()}
                self._cores = {name: facts["cores"] for name, facts in orders.items() if facts is not None}
            load = Counter(core for taken in self._cores.values() for core in taken)
            chosen = self._cores[launch.name] = sorted(sorted(cores, key=lambda core: (load[core], core))[:count])
        return chosen


def _facts(launch: Launch, cores: Sequence[int]) -> Mapping[str, object]:
    """Return what is written down of a launch: no environment and no secrets."""
    roots = sorted(tree.root for tree in _trees_of(launch))
    facts = {"token": launch.token, "job_id": launch.job_id, "cores": cores, "argv": launch.spec.argv()}
    folders = sorted({mount.source.path for mount in launch.spec.mounts if isinstance(mount.source, HostFolder)})
    return facts | {
        "roots": roots,
        "folders": folders,
        "checkpoint": launch.checkpoint and launch.checkpoint.name,
    }


def _trees_of(launch: Launch) -> set[Tree]:
    return {mount.source for mount in launch.spec.mounts if isinstance(mount.source, Tree)}


def _has_order(control: int) -> bool:
    """Whether an order waits in the FIFO; the only one is to stop."""
    return bool(select.select([control], [], [], 0)[0])


def _end_before_start(folder: JobFolder, launch: Launch, cause: EndCause, reason: str) -> None:
    """Write down that the command never began."""
    now = time.time()
    facts = {"token": launch.token, "cause": cause, "exit_code": None, "reason": reason}
    Path(folder.log).write_text(f"[nearline] {reason}\n" if reason else "")
    write_json(f"{folder.path}/exit.json", facts | {"started_at": None, "finished_at": now})
    shim.tell_news(folder.path)


def _notes(launch: Launch) -> Sequence[str]:
    if launch.spec.image is None:
        return []
    return [f"The image {launch.spec.image} is ignored: jobs of this resource run directly on the machine."]


def _order(launch: Launch, paths: JobPaths, cores: Sequence[int], code: Path | None, view: Sequence[Entry]) -> bytes:
    own = os.path.dirname(sys.executable)  # here `python` and `nearline` are those of the product
    search_path = os.pathsep.join([own, *(entry for entry in os.get_exec_path() if entry != own)])
    environment = job_environment(launch, paths, search_path=search_path)
    argv = launch.spec.argv()
    masked = [form.decode("utf-8", "surrogateescape") for form in forms_of(launch.secrets.values())]
    parts = [
        launch.token,
        launch.spec.working_directory or paths.work,
        str(code or ""),
        str(launch.spec.timeout_s or 0),
        str(launch.spec.grace_period_s),
        str(launch.memory_bytes),
        str(launch.spec.log_limit_bytes),
        ",".join(map(str, cores)),
        str(len(argv)),
        *argv,
        str(len(environment)),
        *[f"{key}={value}" for key, value in environment.items()],
        ",".join(f"{share.index}:{share.milli}:{machine.find_gpu_place(share.index)}" for share in launch.gpus),
        _gpu_packages() if launch.gpus else "",
        str(len(masked)),
        *masked,
        str(len(view)),
        *chain.from_iterable(view),
        shim.ORDER_END,
    ]
    return "\0".join(parts).encode("utf-8", "surrogateescape")


def _gpu_packages() -> str:
    """Return the folder of the package that asks NVML; empty where it is not installed, as on many hosts."""
    package = importlib.util.find_spec("pynvml")
    return str(Path(package.origin).parent) if package is not None and package.origin is not None else ""


def _running(name: str, facts: dict[str, Any]) -> JobReport:
    started_at, seen = _time(facts["started_at"]), VisibleGpus.from_json(facts.get("gpus_seen"))
    return JobReport(name, facts["token"], ReportState.RUNNING, started_at=started_at, gpus_seen=seen)


def _is_full(path: str) -> bool:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES


def _ended(name: str, end: dict[str, Any]) -> JobReport:
    cause = EndCause(end["cause"])
    has_succeeded = end["exit_code"] == 0 and cause is EndCause.EXITED
    return JobReport(
        name=name,
        token=end["token"],
        state=ReportState.SUCCEEDED if has_succeeded else ReportState.FAILED,
        exit_code=end["exit_code"],
        cause=cause,
        started_at=_time(end["started_at"]) if end["started_at"] else None,
        finished_at=_time(end["finished_at"]),
        reason=end.get("reason", ""),
        gpus_seen=VisibleGpus.from_json(end.get("gpus_seen")),
    )


def _sample(line: dict[str, Any]) -> UsageSample:
    gpu = line.get("gpu_percent"), line.get("gpu_memory_used_bytes")
    return UsageSample(_time(line["at"]), line["cpu_millicores"], line["memory_bytes"], *gpu)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
