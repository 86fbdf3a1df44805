"""The one form of a flow: what YAML, the Python SDK and the canvas compile to; its canonical JSON names the version.

Published as JSON Schema at GET /flows/schema.json and in docs/reference/flow.schema.json.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from core import bounds
from core.errors import InvalidInput
from core.priorities import DEFAULT, Priority
from core.units import ONE_GPU, parse_bytes, parse_duration
from flows.engine.places import Fallback
from flows.engine.states import FailureKind

DEFAULT_WAIT_S = 300.0
MAX_TITLE = 200
"""The most characters of a title that a flow is saved with."""
MAX_INSTANCES = 10_000
"""How many tries the grids of one flow may multiply into."""

Value = StrictBool | StrictInt | Annotated[FiniteFloat, Field(strict=True)] | StrictStr

_STEP_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_FLOW_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
DATASET = re.compile(r"[a-z][a-z0-9-]{0,62}/[a-z][a-z0-9-]{0,62}(@[^\s@]{1,200})?")
TEMPLATE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\.[a-z0-9][a-z0-9._-]{0,62}")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _matching(pattern: re.Pattern[str], rule: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"'{text}' {rule}")
        return text

    return check


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return parse_duration(value)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _bytes(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _idle_limit(seconds: float) -> float:
    if fault := bounds.idle_limit_fault(seconds):
        raise ValueError(fault)
    return seconds


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_DURATION_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}], "examples": ["30s", "1h", 90]}
Seconds = Annotated[
    FiniteFloat, Field(ge=0), BeforeValidator(_seconds), WithJsonSchema({**_DURATION_SCHEMA, "title": "Duration"})
]
IdleLimit = Annotated[Seconds, AfterValidator(_idle_limit), WithJsonSchema(_DURATION_SCHEMA)]
Gpus = Annotated[FiniteFloat, Field(ge=0, le=bounds.MAX_COUNT)]
Cores = Annotated[FiniteFloat, Field(ge=0.001, le=bounds.MAX_COUNT)]
Bytes = Annotated[
    NonNegativeInt,
    BeforeValidator(_bytes),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}], "examples": ["10GiB"]}),
]
StepName = Annotated[
    str,
    AfterValidator(
        _matching(
            _STEP_NAME, "cannot name a step: use up to 63 lower-case letters, digits, '_' and '-', a letter first."
        )
    ),
]
FlowName = Annotated[
    str,
    AfterValidator(
        _matching(_FLOW_NAME, "cannot name a flow: use up to 63 lower-case letters, digits and '-', a letter first.")
    ),
]
Key = Annotated[
    str, AfterValidator(_matching(_KEY, "cannot name a parameter: use letters, digits, '_' and '-', a letter first."))
]
Variable = Annotated[
    str, AfterValidator(_matching(VARIABLE, "cannot name a variable: use letters, digits and '_', a letter first."))
]
Text = Annotated[str, BeforeValidator(_text)]


def _types_in(annotation: object) -> Iterator[object]:
    yield annotation
    for part in get_args(annotation):
        yield from _types_in(part)


def _is_number(annotation: object) -> bool:
    """Whether a field takes numbers, and no true or false."""
    types = list(_types_in(annotation))
    return (int in types or float in types) and bool not in types


class _Model(BaseModel):
    # What stands under a field is its description in the JSON Schema, and so the hint in editors.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: object, info: ValidationInfo) -> object:  # type: ignore[explicit-any]  # pydantic's
        # Else pydantic takes `true` as 1.
        if isinstance(value, bool) and info.field_name and _is_number(cls.model_fields[info.field_name].annotation):
            raise PydanticCustomError("float_type", "must be a number.")
        return value


class ParameterSpec(_Model):
    """A value that a run of the flow may be given. Without a default it must be."""

    type: Literal["float", "int", "str", "bool"]
    """What values are: a number, a whole number, a text, or true or false."""
    default: Value | None = None
    """The value of runs that give none. Without a default every run must give one."""
    choices: tuple[Value, ...] = ()
    """The only values allowed; empty: any of the type."""
    help: str = ""
    """What it is for; stands beside its field in the form of a run."""


class DataInput(_Model):
    """A dataset that a step reads at `$NEARLINE_DATA/<name>`: the shared cached copy, or its own one."""

    dataset: Annotated[
        str,
        AfterValidator(_matching(DATASET, "is not a dataset; write project/dataset or project/dataset@branch.")),
    ]
    """`project/dataset`, or with a branch, a tag or a commit: `project/dataset@main`. Resolved when a run starts."""
    name: Annotated[str, AfterValidator(lambda text: text and _matching(_FOLDER, "cannot name a folder.")(text))] = ""
    """The folder under `$NEARLINE_DATA`; without it the dataset's name."""
    cached: bool = True
    """Whether to read the shared cached copy near the compute, or a copy of its own."""
    start: Literal["complete", "early"] = "complete"
    """When the step may start: once the cached copy is complete, or `early`, once its first files are there."""

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        if self.start == "early" and not self.cached:
            raise ValueError("A copy of its own is complete when a step starts; `start: early` is for cached ones.")
        return self

    @property
    def folder(self) -> str:
        """The name of the folder under `$NEARLINE_DATA`."""
        return self.name or self.dataset.partition("@")[0].partition("/")[2]


class TemplateChoice(_Model):
    """A compute template to try, and how long to wait there before the next one is tried. The last has no limit.

    Where a step states no `wait`, the place of its data decides between templates.
    """

    template: Annotated[
        str,
        AfterValidator(_matching(TEMPLATE, "is not a template; write resource.template, such as this-machine.small.")),
    ]
    wait: Seconds | None = None

    @property
    def wait_s(self) -> float:
        """How long to wait there."""
        return DEFAULT_WAIT_S if self.wait is None else self.wait


class Retries(_Model):
    """How often a step is tried again after each kind of failure; None: as often as after `infrastructure`."""

    user_error: NonNegativeInt = 0
    infrastructure: NonNegativeInt = 3
    out_of_memory: NonNegativeInt = 0
    timeout: NonNegativeInt = 0
    image_unavailable: NonNegativeInt | None = None
    unschedulable: NonNegativeInt | None = None
    quota_exceeded: NonNegativeInt | None = None
    evicted: NonNegativeInt | None = None
    preempted: NonNegativeInt | None = None
    node_lost: NonNegativeInt | None = None
    deleted: NonNegativeInt | None = None
    output_lost: NonNegativeInt | None = None

    def budget_of(self, kind: FailureKind) -> int:
        """Return how often a step is tried again after one kind of failure."""
        if kind is FailureKind.INPUT_CHANGED:
            return 0
        count: int | None = getattr(self, kind.value)
        return self.infrastructure if count is None else count


class GridRange(_Model):
    """Numbers of a grid's axis: `steps` of them from `min` (included) up to `max` (excluded)."""

    type: Literal["integer", "float"] = "float"
    """Whole numbers (each once), or any."""
    min: FiniteFloat
    """The first number."""
    max: FiniteFloat
    """Where the numbers end; it is none of them."""
    steps: PositiveInt = Field(le=MAX_INSTANCES)
    """How many numbers."""
    scale: Literal["linear", "log"] = "linear"
    """Evenly spaced, or evenly spaced in their logarithms."""


class Topology(_Model):
    """A label of nodes, such as `topology.kubernetes.io/rack`, of which all replicas find one value."""

    required: str = ""
    """All replicas run on nodes with one value of this label, or none does."""
    preferred: str = ""
    """The same where it is possible."""


class LauncherSpec(_Model):
    """A pod without GPUs beside the replicas, which runs the step's command and starts processes in them, for MPI."""

    cpu: Cores = 0.5
    """How many cores it has."""
    memory: Bytes = 2**30
    """How much memory it has, as `1GiB`."""
    worker_command: Annotated[str, Field(min_length=1, max_length=100_000)] = "exec /usr/sbin/sshd -D"
    """What a shell of each replica runs meanwhile."""
    worker_port: Annotated[int, Field(ge=0, le=65535)] = 22
    """It begins once each replica listens there; 0: once their host names are known."""


def template_entries(value: object) -> object:
    """Write out the short forms of `compute`: one template, or texts instead of mappings."""
    items = [value] if isinstance(value, str | dict) else value
    if not isinstance(items, list | tuple):
        return value
    return [{"template": item} if isinstance(item, str) else item for item in items]


def _retries(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if value < 0:
        raise ValueError("'retries' cannot be negative.")
    return {"user_error": value, "infrastructure": max(value, 3), "out_of_memory": value, "timeout": value}


def _axis_kind(value: object) -> str:
    return "range" if isinstance(value, dict | GridRange) else "values"


_TEMPLATES_SCHEMA = {
    "title": "Compute",
    "description": "Templates in the order in which they are tried; each may say how long to wait there.",
    "anyOf": [
        {"type": "string"},
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"template": {"type": "string"}, "wait": _DURATION_SCHEMA},
                        "required": ["template"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
    ],
}
_COUNT_SCHEMA = {"type": "integer", "minimum": 0}
_RETRIES_SCHEMA = {
    "title": "Retries",
    "description": "How often the step is tried again: one number for every kind of failure, or one for each. "
    "Those that a cluster causes are tried as often as `infrastructure`, unless they have a number of their own.",
    "anyOf": [
        _COUNT_SCHEMA,
        {
            "type": "object",
            "properties": dict.fromkeys(Retries.model_fields, _COUNT_SCHEMA),
            "additionalProperties": False,
        },
    ],
}
GridAxis = Annotated[
    Annotated[Annotated[tuple[Value, ...], Field(min_length=1)], Tag("values")] | Annotated[GridRange, Tag("range")],
    Discriminator(_axis_kind),
]


SIZE_KEYS = ("gpus", "cpu", "memory", "resource", "pools")
"""What a step may say in place of `compute`: how much it needs, and where to look for it."""


class StepSpec(_Model):
    """One step: a command, what it needs, where it may run, and what it waits for."""

    name: StepName
    """What other steps call it: lower-case letters, digits, '_' and '-'."""
    title: str = ""
    """What pages show in place of the name."""
    command: Annotated[str, Field(min_length=1, max_length=100_000)]
    """A shell command. `${{ parameters.NAME }}` is replaced, quoted as the shell needs it."""
    image: str = ""
    """The container image. It has no effect on this machine, whose jobs are plain processes."""
    parameters: dict[Key, Value] = {}
    """Values for this step's command, besides those of the flow."""
    append_parameters: bool = False
    """Whether to add `--name value` for each parameter to the command."""
    data: tuple[DataInput, ...] = ()
    """The datasets that it reads, each in a folder under `$NEARLINE_DATA`."""
    after: tuple[str, ...] = ()
    """The steps that it waits for. Their outputs are in `$NEARLINE_INPUT/<step>`."""
    outputs: tuple[str, ...] = ("**",)
    """Which files of `$NEARLINE_OUTPUT` are kept, as globs."""
    env: dict[Variable, Text] = {}
    """Variables for the command."""
    secrets: tuple[Variable, ...] = ()
    """Names of the project's secrets that the command gets as variables."""
    compute: Annotated[
        tuple[TemplateChoice, ...], BeforeValidator(template_entries), WithJsonSchema(_TEMPLATES_SCHEMA)
    ] = ()
    """Templates in the order in which they are tried; each may say how long to wait there."""
    gpus: Gpus | None = None
    """A size of its own in place of `compute`: `2` GPUs, or `0.5` for a part of one."""
    cpu: Cores | None = None
    """In place of `compute`: how many cores. Without it what belongs to its GPUs."""
    memory: Bytes | None = None
    """In place of `compute`: how much memory, as `16GiB`. Without it what belongs to its GPUs."""
    resource: str = ""
    """In place of `compute`: the resource where it runs. Without it a place is found in `pools`."""
    pools: tuple[bounds.Name, ...] = Field((), max_length=bounds.MAX_POOLS)
    """In place of `compute`: where a place is found, the best first. Without them where its project prefers."""
    fallback: Fallback = "order"
    """How it chooses among its places: in turn, where it is forecast to be done first, or where it costs least."""
    replicas: PositiveInt = Field(1, le=bounds.MAX_REPLICAS)
    """How many replicas of the command run together as a gang, each as large as the template. All start, or none."""
    min_replicas: NonNegativeInt = Field(0, le=bounds.MAX_REPLICAS)
    """With so many replicas it starts; it grows while others need nothing, and gives back first. 0: all, or none."""
    launcher: LauncherSpec | None = None
    """One more pod, without GPUs, that runs the command, as `mpirun`; the replicas wait for it. `{}`: as usual."""
    completions: PositiveInt = Field(1, le=bounds.MAX_COMPLETIONS)
    """More than one: it runs as so many parts, each with its own `$NEARLINE_INDEX`, until all have succeeded."""
    parallelism: Annotated[PositiveInt, Field(le=bounds.MAX_COMPLETIONS)] | None = None
    """So many parts, or tries of a grid, run at once at most. Without it: parts one by one, the tries of a grid all."""
    ports: tuple[bounds.Port, ...] = Field((), max_length=bounds.MAX_PORTS)
    """On which its programs listen, for those who are to reach them."""
    volumes: tuple[bounds.Line, ...] = Field((), max_length=bounds.MAX_VOLUMES)
    """What it mounts of what an admin offers there, as `NAME:/path` or `NAME:/path:ro`. Simulated nodes mount none."""
    gpu_memory: Bytes = 0
    """A share of one GPU by its memory, as `10GiB`, in place of the template's GPUs."""
    mig: str = ""
    """A slice of one GPU (MIG) by its profile, as `2g.10gb`, in place of the template's GPUs."""
    gpu_limit: Annotated[FiniteFloat, Field(ge=0, le=1)] = 0.0
    """How much of its GPU it may use while nobody else does, as `0.8`; 0: no more than its share."""
    node_labels: tuple[str, ...] = ()
    """Labels of nodes, `key=value`, of which its nodes have one; empty: any node."""
    topology: Topology = Topology()
    """Labels of nodes, such as that of a rack, of which all replicas find one value."""
    priority: Priority = DEFAULT
    """Of a project's jobs the higher go first, and may take the place of lower preemptible ones; a number or a name."""
    preemptible: bool = True
    """Whether it may be stopped for others, to start anew later. If not, it starts only within the project's quota."""
    retries: Annotated[Retries, BeforeValidator(_retries), WithJsonSchema(_RETRIES_SCHEMA)] = Retries()
    """How often it is tried again: one number for every kind of failure, or one for each."""
    timeout: Seconds | None = None
    """How long one try may take: `90`, `30m`, `2h`. Without it there is no limit."""
    idle_limit: IdleLimit | None = None
    """How long it may be idle before it is stopped, from `1m`; without it, as its project rules. The shorter holds."""
    grace_period: Seconds = 10.0
    """How long its command may go on after SIGTERM, when it is preempted, stopped or out of time: `30s`, `2m`."""
    checkpoints: bool = False
    """Whether it has a folder, `$NEARLINE_CHECKPOINT_DIR`, that outlives evictions and retries until it succeeds."""
    when: str = ""
    """It runs only when this holds: `train.accuracy >= 0.9 and not max(train.loss) > 2`. Else it is skipped."""
    grid: dict[Key, GridAxis] = {}
    """Parameters with several values, or a range of them: it runs once for every combination."""
    simulated_duration: Seconds = 5.0
    """How long it takes on simulated nodes, which run nothing."""

    @property
    def size_keys(self) -> tuple[str, ...]:
        """The keys by which it says its size in place of a template; empty: it does not."""
        return tuple(key for key in SIZE_KEYS if getattr(self, key) not in {None, "", ()})

    @property
    def own_cpu_millicores(self) -> int | None:
        """How much CPU it asks for in place of a template; None: what belongs to its GPUs."""
        return None if self.cpu is None else round(1000 * self.cpu)

    @property
    def is_fan(self) -> bool:
        """Whether it runs under several indexes: as parts, or once for each combination of a grid."""
        return bool(self.grid) or self.completions > 1

    @property
    def most_at_once(self) -> int | None:
        """How many of its instances run at once at most; None: all of them."""
        return (self.parallelism or 1) if self.completions > 1 else self.parallelism

    @property
    def placing(self) -> dict[str, object]:
        """Return what it asks of GPUs and nodes besides its template, by compute's names."""
        return {
            "gpu_memory_bytes": self.gpu_memory,
            "gpu_limit_milli": round(ONE_GPU * self.gpu_limit),
            "mig_profile": self.mig,
            "node_labels": self.node_labels,
            "required_level": self.topology.required,
            "preferred_level": self.topology.preferred,
            "min_replicas": self.min_replicas,
            "launcher": self.launcher
            and {
                "cpu_millicores": round(1000 * self.launcher.cpu),
                "memory_bytes": self.launcher.memory,
                "worker_command": self.launcher.worker_command,
                "worker_port": self.launcher.worker_port,
            },
        }


class FlowSpec(_Model):
    """A pipeline: typed parameters and steps that wait for each other."""

    schema_version: Annotated[Literal[1], BeforeValidator(lambda value: value if type(value) is int else None)] = 1
    flow: FlowName
    """The flow's name: lower-case letters, digits and '-'."""
    title: str = ""
    """What pages show besides the name."""
    description: str = ""
    """What the flow is for."""
    parameters: dict[Key, ParameterSpec] = {}
    """The values that a run is given; commands get them as `${{ parameters.NAME }}`."""
    steps: tuple[StepSpec, ...] = Field(min_length=1)
    """The steps, in any order; `after` says what waits for what."""

    def step(self, name: str) -> StepSpec:
        """Return a step by name. Raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)


def canonical_json(spec: FlowSpec) -> str:
    """Return the spec's one text. Defaults are left out, so that a new key with a default changes no old hash."""
    content = {"schema_version": spec.schema_version, **spec.model_dump(mode="json", exclude_defaults=True)}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def version_hash(spec: FlowSpec, bundle: str = "") -> str:
    """Return the name of this version: SHA-256 (hex) over the canonical JSON and the hash of its code."""
    return hashlib.sha256(f"{canonical_json(spec)}\n{bundle}".encode()).hexdigest()


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of flow files, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "flow.schema.json",
        **FlowSpec.model_json_schema(),
        "title": "Nearline flow",
    }
