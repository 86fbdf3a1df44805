"""Where and how the pods of a job run, beyond their size: what the job asks for, and what its template says of pods."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from compute.errors import InvalidJobSpec, InvalidResource
from core.gpus import ONE_GPU
from core.taints import Toleration, parse_toleration

_LEAST_MEMORY = 100 * 10**6
_PROFILE = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,250}[A-Za-z0-9])?")
_MOST_LABELS = 20
_GIB = 1 << 30
_LAST_PORT = 65_535
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST_OPTIONS = 20


def is_profile(text: str) -> bool:
    """Whether a text names slices of GPUs (MIG)."""
    return _PROFILE.fullmatch(text) is not None


@dataclass(frozen=True)
class Launcher:
    """A pod of a gang without GPUs that runs the job's command and starts processes in the others, as `mpirun` does.

    `worker_port`: the launcher begins once each replica listens there; 0: once their host names are known.
    """

    cpu_millicores: int = 500
    memory_bytes: int = _GIB
    worker_command: str = "exec /usr/sbin/sshd -D"
    worker_port: int = 22

    def list_faults(self) -> Sequence[str]:
        """Say what of it cannot be."""
        faults = {
            "A launcher needs some CPU and some memory.": self.cpu_millicores <= 0 or self.memory_bytes <= 0,
            "Replicas beside a launcher need a command, such as /usr/sbin/sshd -D.": not self.worker_command.strip(),
            "The command of replicas beside a launcher holds a NUL byte.": "\0" in self.worker_command,
            f"'{self.worker_port}' is no port.": not 0 <= self.worker_port <= _LAST_PORT,
        }
        return [text for text, is_so in faults.items() if is_so]

    def in_words(self) -> str:
        """Return it for people."""
        size = f"{self.cpu_millicores / 1000:g} CPU, {self.memory_bytes / _GIB:.3g} GiB"
        return f"{size}; the replicas run {self.worker_command}"


@dataclass(frozen=True)
class Placing:
    """What takes the place of the GPUs of its template, and where and how its replicas run.

    - `gpu_memory_bytes`: a share of one GPU, by memory. `mig_profile`: a slice of one GPU (MIG), such as `2g.10gb`.
    - `gpu_limit_milli`: how much of its GPU it may use while nobody else does, in thousandths; 0: its part.
    - `node_labels`: `key=value`; a node must have one of them. Empty: any node.
    - `required_level` and `preferred_level`: labels of nodes (`topology.kubernetes.io/rack`), of which all replicas
      must, or should, find one value. Empty: they run anywhere.
    - `min_replicas`: with so many of its replicas it starts and goes on; it grows while others need nothing, and gives
      back the rest first. 0: all of them, or none.
    - `launcher`: one more pod, without GPUs, that runs the job's command; its replicas wait for it. None: it has none.
    """

    gpu_memory_bytes: int = 0
    gpu_limit_milli: int = 0
    mig_profile: str = ""
    node_labels: tuple[str, ...] = ()
    required_level: str = ""
    preferred_level: str = ""
    min_replicas: int = 0
    launcher: Launcher | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_labels", tuple(self.node_labels))
        if isinstance(self.launcher, Mapping):
            object.__setattr__(self, "launcher", Launcher(**self.launcher))

    @classmethod
    def read(cls, value: object) -> "Placing":
        """Read `to_json`'s answer, or the same names from elsewhere; also None, of jobs of earlier releases."""
        return cls(**value) if isinstance(value, Mapping) else cls()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types, without what says nothing."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def has_own_gpu(self) -> bool:
        """Whether the part of a GPU that it names takes the place of its template's GPUs."""
        return bool(self.gpu_memory_bytes or self.mig_profile)

    @property
    def nominal_milli(self) -> int:
        """The part of a node's GPU to which cores and memory are counted that nobody names."""
        if self.mig_profile:
            return ONE_GPU * int(self.mig_profile[0]) // 7
        return ONE_GPU // 4 if self.gpu_memory_bytes else 0

    @property
    def size_name(self) -> str:
        """What a size is called after it: `2g.10gb-gpu`, `9.31gib-gpu`; empty: after the number of GPUs."""
        memory = f"{self.gpu_memory_bytes / 2**30:.3g}gib" if self.gpu_memory_bytes else ""
        return f"{self.mig_profile or memory}-gpu" if self.has_own_gpu else ""

    def is_elastic(self, replicas: int) -> bool:
        """Whether it runs with less than all of its replicas too."""
        return 0 < self.min_replicas < replicas

    def count_pods(self, replicas: int) -> int:
        """Return how many pods a job with so many replicas has."""
        return replicas + (self.launcher is not None)

    def check(self, *, gpu_milli: int, replicas: int) -> None:
        """Raise InvalidJobSpec for what contradicts itself, in a job that asks for so many GPUs by number."""
        if faults := [*self._gpu_faults(gpu_milli), *self._node_faults(replicas)]:
            raise InvalidJobSpec(faults[0])

    def _gpu_faults(self, gpu_milli: int) -> Sequence[str]:
        ways = [bool(gpu_milli), bool(self.gpu_memory_bytes), bool(self.mig_profile)]
        part_milli = gpu_milli if gpu_milli < ONE_GPU else 0
        faults = {
            "A GPU is asked for by number, by memory or by MIG profile: name one of them.": sum(ways) > 1,
            "A share of a GPU has at least 100 MB of memory.": 0 < self.gpu_memory_bytes < _LEAST_MEMORY,
            f"'{self.mig_profile}' is no MIG profile; write one like 2g.10gb.": bool(
                self.mig_profile and not is_profile(self.mig_profile)
            ),
            "A limit of a GPU belongs to a share of one: ask for a part of a GPU, or for its memory.": bool(
                self.gpu_limit_milli and not (part_milli or self.gpu_memory_bytes)
            ),
            "The limit of a GPU lies above the part that is asked for, and is at most 1.": bool(
                self.gpu_limit_milli and not part_milli <= self.gpu_limit_milli <= ONE_GPU
            ),
        }
        return [text for text, is_so in faults.items() if is_so]

    def _node_faults(self, replicas: int) -> Sequence[str]:
        faults = [
            f"'{label}' is no label of a node; write key=value."
            for label in self.node_labels
            if not _NAME.fullmatch(label.partition("=")[0]) or "=" not in label
        ]
        faults += [
            f"'{level}' is no label of nodes; write one like topology.kubernetes.io/rack."
            for level in filter(None, (self.required_level, self.preferred_level))
            if not _NAME.fullmatch(level)
        ]
        if len(self.node_labels) > _MOST_LABELS:
            faults.append(f"A job names at most {_MOST_LABELS} labels of nodes.")
        if self.min_replicas > replicas:
            faults.append(f"It needs {self.min_replicas} replicas at least, and has {replicas} at most.")
        if self.launcher is not None:
            faults += self.launcher.list_faults()
            if self.min_replicas:
                faults.append("A job with a launcher has all of its replicas, or none: leave out the least number.")
        return faults

    def in_words(self) -> list[tuple[str, str]]:
        """Return what it says, for people: names and values."""
        from_memory = f"{self.gpu_memory_bytes / 2**30:.3g} GiB of one" if self.gpu_memory_bytes else ""
        shown = {
            "GPU": from_memory or (f"one slice {self.mig_profile}" if self.mig_profile else ""),
            "GPU limit": f"{self.gpu_limit_milli / ONE_GPU:g} of one" if self.gpu_limit_milli else "",
            "Nodes with": " or ".join(self.node_labels),
            "Together by": self.required_level and f"{self.required_level} (required)",
            "Near by": self.preferred_level and f"{self.preferred_level} (preferred)",
            "Replicas": f"from {self.min_replicas}" if self.min_replicas else "",
            "Launcher": self.launcher.in_words() if self.launcher is not None else "",
        }
        return [(name, text) for name, text in shown.items() if text]


@dataclass(frozen=True)
class PodOptions:
    """It adds to what is set for all pods of the cluster; its priority class takes the place of that of the cluster.

    A node must have all labels of `node_selector`. `tolerations` are written as `gpu=only:NoSchedule`, `gpu=only` or
    `gpu`. `image_pull_secrets` are names of Secrets of the namespace.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    priority_class: str = ""
    image_pull_secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerations", tuple(self.tolerations))
        object.__setattr__(self, "image_pull_secrets", tuple(self.image_pull_secrets))

    @classmethod
    def read(cls, value: object) -> "PodOptions":
        """Read `to_json`'s answer, or the same names from elsewhere; also None, of jobs of earlier releases."""
        return cls(**value) if isinstance(value, Mapping) else cls()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types, without what says nothing."""
        return {name: value for name, value in vars(self).items() if value}

    @property
    def parsed_tolerations(self) -> tuple[Toleration, ...]:
        """What its pods tolerate."""
        return tuple(filter(None, map(parse_toleration, self.tolerations)))

    def check(self) -> None:
        """Raise InvalidResource for what no pod could have."""
        if faults := self._faults():
            raise InvalidResource(faults[0], field="pod")

    def _faults(self) -> Sequence[str]:
        faults = [
            f"'{key}={value}' is no label of a node; write one like pool=train."
            for key, value in self.node_selector.items()
            if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value))
        ]
        faults += [
            f"'{text}' is no toleration; write one like gpu=only:NoSchedule, gpu=only or gpu."
            for text in self.tolerations
            if parse_toleration(text) is None
        ]
        faults += [
            f"'{name}' cannot be the name of {what}: use small letters, digits, '-' and '.'."
            for what, names in (("a priority class", [self.priority_class]), ("a Secret", self.image_pull_secrets))
            for name in names
            if (name or what == "a Secret") and not _OBJECT_NAME.fullmatch(name)
        ]
        if max(map(len, (self.node_selector, self.tolerations, self.image_pull_secrets))) > _MOST_OPTIONS:
            faults.append(f"A template names at most {_MOST_OPTIONS} labels, tolerations and Secrets each.")
        return faults

    def in_words(self) -> list[tuple[str, str]]:
        """Return what it says, for people: names and values."""
        shown = {
            "Nodes with": ", ".join(f"{key}={value}" for key, value in self.node_selector.items()),
            "Tolerates": ", ".join(self.tolerations),
            "Priority class": self.priority_class,
            "Pull secrets": ", ".join(self.image_pull_secrets),
        }
        return [(name, text) for name, text in shown.items() if text]
