"""What a job asks for: frozen, checked when made, and carried as JSON. With it what it mounts, as each driver knows it.

A source is known by a place that a driver can mount, never by a path that only one machine understands: a folder of the
platform's host or of one that is reached by SSH, a claim of a cluster, an export of a file server, or a tree in the
store that is written to the job.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar, cast

from compute.engine.placing import Placing, PodOptions
from compute.errors import InvalidJobSpec

DEFAULT_LOG_LIMIT_BYTES = 50 * 2**20
DEFAULT_GRACE_PERIOD_S = 10.0
"""So long may a job take to end by itself once it was sent SIGTERM."""
_NAME_LENGTH = 200
_SEQUENCES = (
    *("secret_names", "data", "commits", "fallbacks", "inputs"),
    *("ports", "volumes", "pools", "readable_paths", "readable_lists"),
)


class SourceKind(StrEnum):
    """Where the content of a mount comes from."""

    HOST_FOLDER = "host_folder"
    VOLUME = "volume"
    NFS_EXPORT = "nfs_export"
    REMOTE_FOLDER = "remote_folder"
    TREE = "tree"


_WORDS = {
    SourceKind.HOST_FOLDER: "folders of the platform's host",
    SourceKind.VOLUME: "volumes of a cluster",
    SourceKind.NFS_EXPORT: "NFS exports",
    SourceKind.REMOTE_FOLDER: "folders of a host that is reached by SSH",
    SourceKind.TREE: "trees of the store",
}


@dataclass(frozen=True)
class HostFolder:
    """A folder of the machine that the platform runs on."""

    path: str
    kind: ClassVar = SourceKind.HOST_FOLDER


@dataclass(frozen=True)
class Volume:
    """A persistent volume claim, or a folder of it.

    One with a `namespace` may lie in another one than the jobs: they read it by a claim of its `storage_class`, which
    shares its volume. One without is in the namespace of the jobs.
    """

    claim: str
    sub_path: str = ""
    namespace: str = ""
    storage_class: str = ""
    kind: ClassVar = SourceKind.VOLUME


@dataclass(frozen=True)
class NfsExport:
    """An export of an NFS server, or a folder of it."""

    server: str
    path: str
    sub_path: str = ""
    kind: ClassVar = SourceKind.NFS_EXPORT


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of the host that is attached as a resource, given by id."""

    resource: str
    path: str
    kind: ClassVar = SourceKind.REMOTE_FOLDER


@dataclass(frozen=True)
class Tree:
    """The files under a root in the store of a dataset. Whoever mounts it reads them from there."""

    dataset_id: str
    root: str
    kind: ClassVar = SourceKind.TREE


Source = HostFolder | Volume | NfsExport | RemoteFolder | Tree


_SOURCES: Mapping[str, type[Source]] = {
    source.kind: source for source in (HostFolder, Volume, NfsExport, RemoteFolder, Tree)
}


@dataclass(frozen=True)
class Mount:
    """One source under a name. The name of a try of a grid is `step/index`."""

    name: str
    source: Source
    read_only: bool = True

    def to_json(self) -> dict[str, object]:
        """Return the mount as JSON types."""
        return {"name": self.name, "source": source_to_json(self.source), "read_only": self.read_only}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "Mount":
        """Read `to_json`'s answer. Raises InvalidJobSpec."""
        source = value.get("source")
        if not isinstance(source, Mapping):
            raise InvalidJobSpec(f"The mount '{value.get('name')}' has no source.")
        return cls(str(value["name"]), source_from_json(source), bool(value.get("read_only", True)))


def source_to_json(source: Source) -> dict[str, str]:
    """Return a source as JSON types."""
    return {"kind": source.kind.value, **vars(source)}


def source_from_json(value: Mapping[str, object]) -> Source:
    """Read `source_to_json`'s answer. Raises InvalidJobSpec for a kind that is not known."""
    fields = {key: str(item) for key, item in value.items() if key != "kind"}
    source = _SOURCES.get(str(value.get("kind")))
    if source is None:
        raise InvalidJobSpec(f"'{value.get('kind')}' is no source of a mount. There are: {', '.join(_SOURCES)}.")
    try:
        return source(**fields)
    except TypeError as error:
        raise InvalidJobSpec(f"A mount from a {source.kind} is described by other fields: {error}.") from error


def describe_kinds(kinds: Collection[SourceKind]) -> str:
    """Name kinds of sources as a person reads them: `volumes of a cluster and NFS exports`."""
    words = [_WORDS[kind] for kind in SourceKind if kind in kinds]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "nothing"


@dataclass(frozen=True)
class JobSpec:
    """One command and what it needs around it. Its CPU, memory and GPUs come from the template.

    A text `command` is run by `sh -c`, a list as it is. `image` is for drivers that run containers; the local one
    notes in the log that it is ignored. `working_directory` None means the job's own empty folder. Every parameter is
    in the file `$NEARLINE_PARAMETERS`; with `append_parameters` also on the command line as `--key value`.
    `data` holds cached commits and volumes, read as `$NEARLINE_DATA/<name>`. `inputs` holds the outputs of attempts,
    read as `$NEARLINE_INPUT/<step>`, of a grid as `$NEARLINE_INPUT/<step>/<index>`. `code` is copied into the working
    directory, where the job may change it.
    `commits` are the ids of the commits among `data`, so that the scheduler can be told what of them has yet to move.
    `early` maps names of `data` to the ids of the cached commits that it reads before they are complete,
    and `holder` is who holds these for it.
    `fallbacks` names the templates that its step lists and has not left, in their order, for forecasts. `moves_by` is
    what its step chooses by when it moves while it waits: `order`, `soonest` or `cheapest`; empty: it does not.
    `replicas` is how often it runs at once; several are a gang, and the template is the size of each of them.
    With `completions` of more than one, or with `retries`, it runs as so many parts, at most `parallelism` of them at
    once; what fails of them runs again, `retries` times in all.
    `placing` is what it asks of GPUs and nodes beyond the template's size, `pod` what the template says of its pods.
    `ports` are those on which its programs listen, for people who are to reach them. One with `jupyter` runs a Jupyter
    on the first of them, with a token that only those learn who may run commands in it.
    `volumes` are written as in `engine/volumes`; simulated nodes take any, and mount none.
    `pools` are those in which a place is found for it, the best first; empty: it named its place. There it gets the
    cores and memory that it asked for by itself; None: what belongs to its GPUs. `pool` is the one in which it is, if
    labels divide its resource among several.
    `simulated_duration_s` is how long the job takes on nodes that do not exist. `timeout_s` None means no limit.
    `checkpoint` names whose checkpoint folder it has (`job:ID`, `step:ID`); empty: it has none.
    `grace_period_s` is the time between SIGTERM and SIGKILL, whoever stops it and why.
    `readable_paths`, and the folders that the files `readable_lists` name one a line, are what a job that was submitted
    by the first release reads besides, under the host's own paths.
    """

    name: str
    command: str | tuple[str, ...]
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()
    data: tuple[Mount, ...] = ()
    commits: tuple[str, ...] = ()
    early: Mapping[str, str] = field(default_factory=dict)
    holder: str = ""
    fallbacks: tuple[str, ...] = ()
    moves_by: str = ""
    inputs: tuple[Mount, ...] = ()
    code: Mount | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    append_parameters: bool = False
    timeout_s: float | None = None
    grace_period_s: float = DEFAULT_GRACE_PERIOD_S
    checkpoint: str = ""
    replicas: int = 1
    completions: int = 1
    parallelism: int = 1
    retries: int = 0
    placing: Placing = Placing()
    pod: PodOptions = PodOptions()
    simulated_duration_s: float = 5.0
    working_directory: str | None = None
    ports: tuple[int, ...] = ()
    jupyter: bool = False
    volumes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    pool: str = ""
    own_cpu_millicores: int | None = None
    own_memory_bytes: int | None = None
    readable_paths: tuple[str, ...] = ()
    readable_lists: tuple[str, ...] = ()
    log_limit_bytes: int = DEFAULT_LOG_LIMIT_BYTES

    def __post_init__(self) -> None:
        own = vars(self)
        own.update({name: tuple(own[name]) for name in _SEQUENCES})
        if not isinstance(self.command, str):
            object.__setattr__(self, "command", tuple(self.command))
        self._check()

    def _check(self) -> None:
        _require(is_safe_name(self.name), f"'{self.name}' cannot name a job: use letters, digits, '.', '_' and '-'.")
        _require(bool(self.command or self.image), "The command is empty.")
        _require("\0" not in "".join(self.command), "The command holds a NUL byte.")
        for key, value in self.env.items():
            _require(bool(key) and "=" not in key and "\0" not in key + value, f"'{key}' cannot be a variable.")
        for mount in self.data:
            _require(is_safe_name(mount.name), f"'{mount.name}' cannot be the name of a folder in a job.")
        for mount in self.inputs:
            step, slash, index = mount.name.partition("/")
            is_named = is_safe_name(step) and index.isdecimal() == bool(slash)
            _require(is_named, f"'{mount.name}' cannot be the name of a folder in a job.")
        _require(self.timeout_s is None or self.timeout_s > 0, "The timeout must be more than 0 seconds.")
        _require(self.grace_period_s >= 0, "The grace period cannot be negative.")
        _require(self.replicas >= 1, "A job has at least one replica.")
        _require(min(self.completions, self.parallelism) >= 1, "A job has at least one part.")
        _require(self.retries >= 0, "The retries cannot be negative.")
        _require(self.simulated_duration_s >= 0, "The simulated duration cannot be negative.")
        _require(self.log_limit_bytes > 0, "The log limit must be more than 0 bytes.")

    @property
    def has_parts(self) -> bool:
        """Whether it runs as parts: several, or one that is tried again."""
        return self.completions > 1 or self.retries > 0

    def to_json(self) -> dict[str, object]:
        """Return the spec as JSON types. It names secrets but holds none."""
        return vars(self) | {
            "data": [mount.to_json() for mount in self.data],
            "inputs": [mount.to_json() for mount in self.inputs],
            "code": self.code and self.code.to_json(),
            "placing": self.placing.to_json(),
            "pod": self.pod.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "JobSpec":
        """Read `to_json`'s answer, or the same that has been through a JSON column; also that of the first release."""
        values = {key: item for key, item in value.items() if key in _NAMES}
        inputs = _mappings(value.get("inputs"))
        values["data"] = tuple(map(_read_mount, _mappings(value.get("data"))))
        values["inputs"], values["code"] = read_inputs_and_code(value)
        values["placing"] = Placing.read(value.get("placing"))
        values["pod"] = PodOptions.read(value.get("pod"))
        if lists := [item["sources"] for item in inputs if item.get("sources")]:
            values["readable_lists"] = tuple(lists)
        return cls(**values)  # type: ignore[arg-type]  # checked by __post_init__

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """All that it finds in its folders."""
        return (*self.data, *self.inputs, *filter(None, [self.code]))

    def argv(self) -> list[str]:
        """Return the command as an argument list, with the parameters where the spec says so.

        Empty where the image has its own entry point run.
        """
        extra = _options(self.parameters) if self.append_parameters else []
        if not isinstance(self.command, str):
            return [*self.command, *extra]
        if not self.command:
            return extra
        return ["/bin/sh", "-c", " ".join([self.command, *map(shlex.quote, extra)])]


_NAMES = frozenset(item.name for item in fields(JobSpec))


def name_of_run(job_name: str, evictions: int) -> str:
    """Return the name under which a driver knows the run of a job that was evicted so often before.

    No job can be called so, because names hold no `~`.
    """
    return f"{job_name}~{evictions + 1}" if evictions else job_name


def job_of_run(name: str) -> str:
    """Return the name of the job that a run is of."""
    return name.partition("~")[0]


def is_safe_name(name: str) -> bool:
    """Whether `name` can be a folder of its own: letters, digits, `.`, `_`, `-`, not hidden, not too long."""
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    return plain.isalnum() and name.isascii() and not name.startswith(".") and len(name) <= _NAME_LENGTH


def parameter_text(value: object) -> str:
    """Write a parameter as a command line carries it: JSON's `true` and `false`, all else as Python prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_inputs_and_code(value: Mapping[str, object]) -> tuple[tuple[Mount, ...], Mount | None]:
    """Return the `inputs` and the `code` of a spec from its JSON, without the rest of it."""
    code = value.get("code")
    inputs = tuple(map(_read_mount, _mappings(value.get("inputs"))))
    return inputs, Mount.from_json(code) if isinstance(code, Mapping) else None


def _mappings(items: object) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", items or [])


def _read_mount(value: Mapping[str, object]) -> Mount:
    """Read a mount; the first release wrote `path` for its source, and `step` for the name of an input."""
    if "path" in value:
        return Mount(str(value.get("name") or value["step"]), HostFolder(str(value["path"])))
    return Mount.from_json(value)


def _options(parameters: Mapping[str, object]) -> list[str]:
    return [part for key, value in parameters.items() for part in (f"--{key}", parameter_text(value))]


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001 (reads as a sentence)
    if not holds:
        raise InvalidJobSpec(otherwise)
