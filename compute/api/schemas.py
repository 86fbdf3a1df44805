"""What the compute routes take and answer."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from ninja import Schema
from pydantic import Field

from compute.selectors.data_waits import DataWait
from compute.selectors.waits import Wait
from core import bounds, hosts
from core.times import Times

Labels = Annotated[dict[bounds.Name, bounds.Name], Field(max_length=100)]


class TemplateOut(Schema):
    """A named shape on a resource."""

    full_name: str
    name: str
    resource: str
    is_simulated: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    labels: dict[str, str]
    price_per_hour: Decimal | None

    @staticmethod
    def resolve_resource(obj: object) -> str:
        """Return the name of the resource."""
        return obj.resource.name  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def resolve_is_simulated(obj: object) -> bool:
        """Return whether the resource's nodes do not exist."""
        return obj.resource.is_simulated  # type: ignore[attr-defined,no-any-return]


class ResourceOut(Schema):
    """A place where jobs run. `host` is the name of the host whose machine it is; empty: it is none's."""

    id: str
    name: str
    kind: str
    is_simulated: bool
    state: str
    error: str
    unconfined_reason: str
    last_contact_at: datetime | None
    sites: list[str]
    cache_site: str
    host: str
    templates: list[TemplateOut]

    @staticmethod
    def resolve_host(obj: object) -> str:
        """Return what people call the host."""
        return hosts.name_of(obj.host)  # type: ignore[attr-defined]

    @staticmethod
    def resolve_templates(obj: object) -> list[object]:
        """Return the templates, smallest first."""
        found = obj.templates.all()  # type: ignore[attr-defined]
        return sorted(found, key=lambda template: (template.gpu_milli, template.cpu_millicores, template.pk))


class SimulatedNodeIn(Schema):
    """A node that a simulated resource is declared to have."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")
    cpu_millicores: bounds.Quantity = Field(gt=0)
    memory_bytes: bounds.Quantity = Field(gt=0)
    gpus: int = Field(0, ge=0, le=64)
    gpu_model: str = Field("Simulated GPU", max_length=100)
    gpu_memory_bytes: bounds.Quantity = Field(32 * 2**30, gt=0)


class ResourceIn(Schema):
    """A resource to attach. `kind` is `local`, `simulated` or `kubernetes`.

    `nodes` is for simulated ones; `settings` for clusters, by the names that the page has: `kubeconfig`, `context`,
    `namespace`, `agent_image` and others. `host` is for local ones: the name or id of the host whose machine it is,
    where there are several.
    """

    name: bounds.Name
    kind: bounds.Name
    nodes: list[SimulatedNodeIn] = Field([], max_length=10_000)
    settings: Annotated[dict[bounds.Name, bounds.FileText], Field(max_length=100)] = Field(
        {}, description="What the form of the kind asks for, by the names of its fields. Secrets are never shown again."
    )
    sites: list[bounds.Name] = Field([], max_length=100)
    host: bounds.Name = ""


class ResourceChangeIn(Schema):
    """What to change of a resource: the cache sites that its jobs read, the nearest first."""

    sites: list[bounds.Name] = Field(max_length=100)


class TemplateIn(Schema):
    """A template to add."""

    resource: bounds.Name
    name: bounds.Name
    cpu_millicores: bounds.Quantity
    memory_bytes: bounds.Quantity
    gpu_milli: bounds.Quantity = 0
    labels: Labels = {}
    price_per_hour: bounds.Price | None = None


class TemplateChangeIn(Schema):
    """What to change of a template; what is left out stays."""

    cpu_millicores: bounds.Quantity = 0
    memory_bytes: bounds.Quantity = 0
    gpu_milli: bounds.Quantity = 0
    labels: Labels = {}
    price_per_hour: bounds.Price | None = None


class JobOut(Schema):
    """A job; `label` is what people call it. While it waits, `reason` says for what."""

    id: str
    name: str
    label: str
    project: str
    kind: str
    state: str
    reason_code: str
    reason: str
    resource: str
    template: str
    is_simulated: bool
    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int
    node: str
    gpus: list[list[int]]
    command: str
    image: str | None
    priority: int
    is_preemptible: bool
    evictions: int
    exit_code: int | None
    submitted_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    times: Times | None


class JobEventOut(Schema):
    """One thing that happened to a job."""

    seq: int
    state: str
    message: str
    at: datetime


class JobDetailOut(JobOut):
    """A job with its events, oldest first, and why it failed; while it waits, what would let it start, and when.

    `data_wait`: what of its datasets still moves, while it waits for them.
    """

    advice: str
    wait: Wait | None
    data_wait: DataWait | None
    last_lines: str
    events: list[JobEventOut]


class JobLogOut(Schema):
    """Part of a log. Ask again from `next_offset` (in bytes) until it is complete."""

    text: str
    next_offset: int
    is_complete: bool


class JobUsageOut(Schema):
    """What a job used around one moment."""

    at: datetime
    cpu_millicores: int
    memory_bytes: int


class JobIn(Schema):
    """A job to submit. `data` names commits on a cache site of the template's resource.

    Where these sites are simulated, a commit that is not ready is requested, and the job waits for it.
    """

    project: bounds.Name
    template: bounds.Name
    command: bounds.Text = Field(min_length=1)
    name: bounds.Name = ""
    image: bounds.Name = ""
    data: list[bounds.Name] = Field([], max_length=100)
    simulated_duration_s: bounds.Seconds = Field(60.0, description="On nodes that do not exist: how long it takes.")
    is_preemptible: bool = Field(
        default=True,
        description="It can be evicted to free resources for others that have a right to them. "
        "It is then requeued and starts anew. What is "
        "not preemptible starts only within the project's quota.",
    )


class CancelIn(Schema):
    """Why a job is cancelled, for those who read its history."""

    reason: bounds.Line = ""


class PageOut(Schema):
    """What all lists share."""

    next_cursor: str | None = None


class ResourcePageOut(PageOut):
    """Resources by name."""

    items: list[ResourceOut]


class TemplatePageOut(PageOut):
    """Templates by resource, smallest first."""

    items: list[TemplateOut]


class JobPageOut(PageOut):
    """Jobs, newest first."""

    items: list[JobOut]


class UsagePageOut(PageOut):
    """Samples, oldest first."""

    items: list[JobUsageOut]
