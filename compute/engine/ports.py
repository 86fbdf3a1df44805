"""What compute needs from a place where jobs run: the `ComputeDriver` port and the facts that cross it.

Every driver passes tests/contracts/compute_driver.py. News is level-triggered: a driver tells what is, the platform
compares and repairs. So a driver may forget to wake anybody, and the platform may be away for as long as it likes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO, Protocol, runtime_checkable

from compute.engine.job_spec import HostFolder, JobSpec, SourceKind, Tree, name_of_run
from compute.engine.visible_gpus import VisibleGpus
from core.taints import Taint


@dataclass(frozen=True)
class GpuFacts:
    """One GPU of a node. `index` is its place in the order of the PCI bus."""

    index: int
    uuid: str
    model: str
    memory_bytes: int


@dataclass(frozen=True)
class ForeignUse:
    """What others than this installation hold of a node. `holders` are names for people, such as those of pods."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeFacts:
    """One node as the driver sees it, less what others hold of it (`foreign`).

    `unconfined_reason`: why its jobs have no sandbox; empty: they have one. `max_pods`: how many jobs and replicas it
    takes at once, however small they are; None: any number. `mig_strategy` says how its GPUs are given out in slices:
    `off`, `dynamic` (cut as jobs come), or `mixed`, cut beforehand: then `mig` maps profiles to their numbers.
    `taints` are those that only jobs of some templates tolerate.
    """

    name: str
    cpu_millicores: int
    memory_bytes: int
    gpus: tuple[GpuFacts, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    is_ready: bool = True
    unconfined_reason: str = ""
    foreign: ForeignUse = ForeignUse()
    max_pods: int | None = None
    taints: tuple[Taint, ...] = ()
    mig_strategy: str = "off"
    mig: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StorageFacts:
    """A class of volumes of a cluster. `access` says who can mount one at once: `many nodes`, `one node`, `unknown`.

    `snapshots` and `clones` are `yes`, `no` or `unknown`: whether a class for snapshots has the same driver, and
    whether its driver is known to clone claims.
    """

    name: str
    provisioner: str
    access: str
    is_default: bool = False
    snapshots: str = "unknown"
    clones: str = "unknown"


@dataclass(frozen=True)
class BackendFacts:
    """A storage system behind such classes, as its provisioner reports it. `reason`: why it is not well."""

    name: str
    driver: str
    state: str
    reason: str = ""


@dataclass(frozen=True)
class QuotaFacts:
    """How much of one resource a quota of the namespace lets all pods have together, in the cluster's own notation."""

    quota: str
    resource: str
    used: str
    hard: str


@dataclass(frozen=True)
class ClusterEvent:
    """A warning of the cluster about one of its objects in our namespace; `at` is an ISO moment, when it came last."""

    at: str
    about: str
    reason: str
    text: str
    count: int = 1


@dataclass(frozen=True)
class ClusterFacts:
    """What an admin should see of a cluster besides its nodes, and by which it is known again.

    `id` tells it from all other clusters, empty where the account may not read it; `namespace` is that of our objects.
    `trident_version` is empty where there is no Trident, or the account may not read it. `lacks` says in sentences what
    the account may not do that jobs can be without, `warnings` what else keeps jobs from some of what the cluster has.
    `events` are the newest warnings about objects in our namespace, the newest first.
    """

    version: str
    storage: tuple[StorageFacts, ...] = ()
    backends: tuple[BackendFacts, ...] = ()
    trident_version: str = ""
    quotas: tuple[QuotaFacts, ...] = ()
    lacks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    id: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class GpuShare:
    """How much of one GPU a job got, in thousandths."""

    index: int
    milli: int


@dataclass(frozen=True)
class Replica:
    """Where one replica of a gang runs. `slices` as in `Launch`."""

    node_name: str
    gpus: tuple[GpuShare, ...] = ()
    slices: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoint folder of a job. `tree`: what it begins as, unless it was made of that here before; None: empty.

    What a run leaves in it the next run finds, whatever ended the first one.
    """

    name: str
    tree: Tree | None = None


@dataclass(frozen=True)
class Launch:
    """Everything a driver needs to start one job. `secrets` goes into the job's environment and nowhere else.

    `peers` are the replicas 1, 2, ... of a gang; all else is said of replica 0. CPU and memory are those of each.
    Where `spec.placing` has a launcher, that is replica 0, and has its own size; its peers run the workers' command.
    `min_replicas` and `max_replicas` bound how many an elastic gang has over time; 0: it has the same number always.
    `evictions` is how often the job was evicted before: to a driver each of its runs is a job of its own.
    `slices` names the slices of GPUs that it got (MIG): `0:3g.20gb@4` by device, profile and first memory slice, or
    `3g.20gb` where slices are cut beforehand.
    `checkpoint` is the folder in which it keeps checkpoints; None: it keeps none.
    `token` fences: reports carry it back, so that an answer about an older job of the same name is never believed.
    """

    spec: JobSpec
    token: str
    job_id: str
    kind: str
    project: str
    node_name: str
    cpu_millicores: int
    memory_bytes: int
    gpus: tuple[GpuShare, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    evictions: int = 0
    peers: tuple[Replica, ...] = ()
    min_replicas: int = 0
    max_replicas: int = 0
    checkpoint: CheckpointFolder | None = None
    slices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of this run of the job, unique for all time."""
        return name_of_run(self.spec.name, self.evictions)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """Where all replicas run, by rank."""
        return (Replica(self.node_name, self.gpus, self.slices), *self.peers)

    @property
    def is_gang(self) -> bool:
        """Whether it has several replicas, or may have some later."""
        return bool(self.peers or self.max_replicas)


class ReportState(StrEnum):
    """What a driver can say about a job.

    STARTING: the place has it, and what it reads is brought; its command has not begun. LOST: it was started, it is
    gone, and nobody saw how it ended.
    """

    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


class EndCause(StrEnum):
    """What ended a job. EXITED: by itself; the others: somebody ended it for that reason.

    VOLUME_REFUSED: it was not started, as one of its volumes cannot be mounted at the path that it names.
    The last group is what clusters do: QUOTA_EXCEEDED: one of its pods would pass a quota; EVICTED by a node or for a
    drain, PREEMPTED by a pod of a higher priority, DELETED by hand; OUTPUT_LOST: the command succeeded, and its output
    did not reach the store.
    """

    EXITED = "exited"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NOT_STARTED = "not_started"
    VOLUME_REFUSED = "volume_refused"
    IMAGE_UNAVAILABLE = "image_unavailable"
    UNSCHEDULABLE = "unschedulable"
    QUOTA_EXCEEDED = "quota_exceeded"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DELETED = "deleted"
    OUTPUT_LOST = "output_lost"


@dataclass(frozen=True)
class ReplicaReport:
    """What a driver says about one replica of a gang now; `gpus_seen` as in `JobReport`."""

    state: ReportState
    reason: str = ""
    gpus_seen: VisibleGpus | None = None


@dataclass(frozen=True)
class JobReport:
    """What a driver says about one job now. `exit_code` is negative for a signal; None while it runs or is lost.

    Of a gang `replicas` says how each stands, and `replica` is the rank of the one whose end explains the job's.
    `gpus_seen` is what a job that was given GPUs can see of them; None: not known, yet or at all. A job never waits for
    that, nor fails by it.
    """

    name: str
    token: str
    state: ReportState
    exit_code: int | None = None
    cause: EndCause = EndCause.EXITED
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str = ""
    replica: int | None = None
    replicas: tuple[ReplicaReport, ...] = ()
    gpus_seen: VisibleGpus | None = None


@dataclass(frozen=True)
class LogChunk:
    """Some bytes of a log of `size_bytes` so far. `is_complete`: its job has ended, nothing follows `next_offset`."""

    data: bytes
    next_offset: int
    is_complete: bool
    size_bytes: int


@dataclass(frozen=True)
class UsageSample:
    """What a job used around one moment.

    `gpu_percent` is the mean utilisation of its GPUs, `gpu_memory_used_bytes` what it used of their memory. None: not
    measured.
    """

    at: datetime
    cpu_millicores: int | None
    memory_bytes: int | None
    gpu_percent: int | None = None
    gpu_memory_used_bytes: int | None = None


@dataclass(frozen=True)
class GpuReading:
    """The mean utilisation of a job's GPUs now, 0 to 100, and what it uses of their memory; None: not measured."""

    percent: int | None
    memory_used_bytes: int | None


@dataclass(frozen=True)
class OutputFile:
    """A plain file that a job left. `path` is relative, with `/` between its parts.

    `why` says why it cannot be read or stored; then it may be a folder, with all that is in it.
    """

    path: str
    size_bytes: int
    mode: int
    modified_at_ns: int
    why: str = ""


class OutputReader(Protocol):
    """What one job wrote to `$NEARLINE_OUTPUT`. Links are not followed, as they may lead anywhere."""

    @property
    def source(self) -> HostFolder | None:
        """The folder itself, where it is on this host and can be mounted without a copy; None elsewhere."""

    def list_files(self) -> Iterator[OutputFile]:
        """Yield the plain files in the order of their paths' bytes, and what cannot be read with its reason.

        Raises OSError where there is no output.
        """

    def open(self, path: str) -> BinaryIO:
        """Open one of the listed files. Raises OSError for what is none."""


@dataclass(frozen=True)
class CommandOutput:
    """Some bytes that a command printed; or its exit code, which is the last piece. Without either it still runs."""

    data: bytes = b""
    is_error: bool = False
    exit_code: int | None = None


@runtime_checkable
class RunsCommands(Protocol):
    """A driver that can run further commands beside the job's own."""

    def run_command(self, name: str, rank: int, command: Sequence[str], stdin: bytes) -> Iterator[CommandOutput]:
        """Run a command where a replica of a job runs, and yield what it prints; something every few seconds.

        Raises JobNotRunning, CommandRefused and ResourceUnreachable, all of them before it returns.
        """


@runtime_checkable
class ResizesJobs(Protocol):
    """A driver that can start and stop single replicas of a job that runs."""

    def resize(self, name: str, replicas: Sequence[Replica], prepare: Callable[[], Launch]) -> bool:
        """Let a job go on with just these replicas, by rank; say whether it does. Until then the caller repeats it.

        `prepare` returns what starts the new ones. Nothing happens to a job that has ended.
        Raises ResourceUnreachable, StartRefused, VolumeRefused and QuotaExceeded.
        """


class Connection(Protocol):
    """A two-way stream of bytes into a job, for one event loop, with one reader and one writer at a time."""

    async def receive(self) -> bytes:
        """Return what comes next; empty: nothing more comes. Raises ConnectionBroken."""

    async def send(self, data: bytes) -> None:
        """Send some bytes, once there is space for them. What the job takes no more is dropped: `receive` tells why."""

    async def end_sending(self) -> None:
        """Say that nothing more is sent. What the job still sends can be received."""

    async def close(self) -> None:
        """End it in both directions. It never fails, and may be repeated."""


@runtime_checkable
class OpensPorts(Protocol):
    """A driver that can connect to a TCP port on which a job listens."""

    async def open_port(self, name: str, rank: int, port: int) -> Connection:
        """Connect to a port of a replica of a job. A process that is not the job's is never reached.

        Raises JobNotRunning, PortNotOpen and ResourceUnreachable; PortNotOpen may also come from `receive`.
        """


MOST_CELLS = 1000
"""The most columns, and the most rows, that a terminal may have."""


@dataclass(frozen=True)
class TerminalRequest:
    """A command that is to run in a terminal of this size; `kind` is what `$TERM` names."""

    command: tuple[str, ...]
    columns: int
    rows: int
    kind: str = "xterm"


@runtime_checkable
class Terminal(Connection, Protocol):
    """A connection to a command in a terminal. `exit_code` is known once `receive` has returned nothing."""

    exit_code: int | None

    async def resize(self, columns: int, rows: int) -> None:
        """Let the terminal have another size."""


@runtime_checkable
class OpensTerminals(Protocol):
    """A driver that can run a command in a terminal beside the job's own."""

    async def open_terminal(self, name: str, rank: int, request: TerminalRequest) -> Terminal:
        """Run a command where a replica of a job runs, as the job's user, until it ends or the connection is closed.

        Raises JobNotRunning, CommandRefused and ResourceUnreachable.
        """


@runtime_checkable
class MeasuresGpus(Protocol):
    """A driver whose place tells what jobs use of their GPUs now, and keeps no samples for `read_usage`."""

    def measure_gpus(self) -> Mapping[str, GpuReading]:
        """Return what runs use, by their names; those that nothing measures are left out.

        Raises ResourceUnreachable.
        """


@runtime_checkable
class KeepsLeftovers(Protocol):
    """A driver whose place keeps something of each run until it is deleted, whether or not anybody knows its job."""

    def list_leftovers(self) -> Mapping[str, Collection[str]]:
        """Return the names of all runs of which there is something, forgotten ones too, by the ids of their jobs."""


@runtime_checkable
class SharesVolumes(Protocol):
    """A driver whose jobs read volumes of another namespace by something that it makes for it."""

    def delete_idle_shares(self, leaving: Collection[str] = ()) -> None:
        """Delete what was made for volumes that no job has read for some minutes, or none reads that are to go.

        `leaving` are the claims of those. Raises ResourceUnreachable.
        """


@runtime_checkable
class KeepsCheckpoints(Protocol):
    """A driver whose place keeps the checkpoint folders of jobs from run to run, until they are deleted."""

    def list_checkpoints(self) -> Collection[str]:
        """Return the names of all folders of which there is something. Raises ResourceUnreachable."""

    def delete_checkpoint(self, name: str) -> None:
        """Delete a folder. One that a run may still write to stays. Unknown names are fine.

        Raises ResourceUnreachable.
        """


@runtime_checkable
class ReadsCheckpoints(KeepsCheckpoints, Protocol):
    """A driver whose checkpoint folders can be read, so that they can go to another place."""

    def open_checkpoint(self, name: str) -> OutputReader | None:
        """Return what reads a folder; None where there is none. Raises ResourceUnreachable."""


@runtime_checkable
class DescribesCluster(Protocol):
    """A driver whose place has storage and a version of its own."""

    def describe(self) -> ClusterFacts:
        """Return what the cluster is. Raises ResourceUnreachable."""


class ComputeDriver(Protocol):
    """One place where jobs run.

    Every method may raise ResourceUnreachable, after which asking again is harmless. No method blocks for more than
    a few seconds but `wait_for_news`. All of them may be called from several threads and processes at once.
    """

    mountable: frozenset[SourceKind]
    """Which sources jobs of this place can read. A job with any other is not handed to it."""

    def probe(self) -> Sequence[NodeFacts]:
        """Return the nodes there are now."""

    def start(self, launch: Launch) -> None:
        """Start a job. One of that name that was ever started is success and is not started again.

        May die at any point and be repeated. Raises StartRefused when this launch can never work here.
        """

    def list_jobs(self) -> Sequence[JobReport]:
        """Return every job that was started and not forgotten, with its token and state."""

    def stop(self, name: str, grace_s: float) -> None:
        """Ask a job to end (SIGTERM, after the grace SIGKILL to all its processes). Repeated or too late: no effect."""

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Return at most `limit` bytes of what the job printed, from `offset`. A job without a log has an empty one."""

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Return the samples taken after a moment (None: all of them), oldest first."""

    def open_output(self, name: str) -> OutputReader:
        """Return what reads the job's results. What it reads grows as long as the job runs."""

    def forget(self, name: str) -> None:
        """Stop listing a job that has ended. Its log, usage and output stay readable."""

    def delete(self, name: str) -> None:
        """Remove what an ended, forgotten job left behind, now or in a moment. Unknown names are fine."""

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait until a job begins or ends, at most `timeout_s`; say whether one may have. News may be missed."""
