"""What the routes of caching take and answer."""

from datetime import datetime
from typing import Annotated, Any

from ninja import Field, Schema

from accounts.permissions import Actor
from core import bounds
from core.bodies import BodySchema
from datasets.engine.eviction import Copy, EvictionPlan
from datasets.models import CachedCommit, CachedCommitEvent, CacheSite, SiteArray
from datasets.selectors import caches, site_readers

_VOLUMES = "How many volumes the site has or has promised; null: its copies are no volumes of their own."


class CacheSiteIn(BodySchema):
    """A new site. Kind `folder` needs `root`, a folder of the server.

    Where there are several hosts, it needs their `host` too, and a capacity unless that is the host which answers.
    Kind `simulated` does not exist; its `config` needs `size_bytes` and `rate_bytes_s`. On an attached cluster,
    `volume` needs the `resource` (an id), `storage_class` and `size_bytes`, and `sharing` of `pool` for one volume for
    all, or `max_volumes` where there is a limit; `nfs` needs `resource`, `server`, `path` and `size_bytes`. On a host
    that is attached by SSH, `ssh` needs its `resource`, and a folder there as `root`. Without a capacity a folder may
    fill four fifths of what is free there, and any other site all of its size.
    """

    name: bounds.Name
    kind: bounds.Name = "folder"
    root: str = Field("", max_length=1000)
    host: bounds.Name = ""
    config: Annotated[dict[bounds.Name, bounds.Quantity | bounds.Line], Field(max_length=20)] = {}
    capacity_bytes: bounds.Bytes | None = None
    idle_days: bounds.Days = 1


class CacheSiteChangeIn(BodySchema):
    """What to change; what is left out stays. `idle_days` of 0: idleness never evicts.

    Of the `config` of a site on a cluster `fill_pods` and `bytes_per_pod` can be changed and, with a volume for each
    commit, `max_volumes`; null: as usual, which is any number of volumes.
    """

    capacity_bytes: bounds.Bytes | None = None
    idle_days: bounds.Days | None = None
    config: Annotated[dict[bounds.Name, bounds.Quantity | None], Field(max_length=20)] = {}


class CacheSiteOut(Schema):
    """A site and its capacity. A file that several copies share counts once."""

    id: str
    name: str
    kind: str
    is_simulated: bool
    config: dict[str, Any]
    idle_days: float
    capacity_bytes: int
    committed_bytes: int
    used_bytes: int
    free_bytes: int
    volumes: int | None = Field(description=_VOLUMES)
    max_volumes: int | None
    error: str = Field(description="Why its cluster or host does not answer, or its folder is away; else empty.")
    warning: str = Field(description="What keeps it from working as well as it could; empty: nothing that is known.")
    created_at: datetime

    @classmethod
    def of(cls, actor: Actor, row: CacheSite) -> "CacheSiteOut":
        """Describe a site to somebody."""
        capacity = caches.measure_capacity(row)
        return cls(
            id=row.id,
            name=row.name,
            kind=row.kind,
            is_simulated=row.is_simulated,
            config=row.config,
            idle_days=row.idle_days,
            capacity_bytes=capacity.total_bytes,
            committed_bytes=capacity.committed_bytes,
            used_bytes=capacity.used_bytes,
            free_bytes=capacity.free_bytes,
            volumes=capacity.volumes,
            max_volumes=capacity.max_volumes,
            error=site_readers.find_fault(actor, row, site_readers.list_readers([row.name])[row.name]),
            warning=row.warning,
            created_at=row.created_at,
        )


class SiteArrayIn(BodySchema):
    """The storage array behind a site: the address of its management interface, and an account that may only read.

    `volumes` is the pattern of the names of volumes that count, such as `trident_*`; empty: all of the SVM.
    `certificate` is PEM, of the array or of who signed for it; empty: one that this host trusts. The account is kept
    encrypted and never told.
    """

    url: bounds.Line
    svm: bounds.Line
    user: bounds.Line
    password: bounds.Line
    volumes: bounds.Line = ""
    certificate: str = Field("", max_length=100_000)


class SpaceOut(Schema):
    """The space of one thing on an array, and the route that told it. Null: the array does not tell.

    `logical_bytes` is what was written, `physical_bytes` what that takes after storage efficiency; `count` is of how
    many volumes it is the sum.
    """

    what: str
    source: str
    size_bytes: int | None
    used_bytes: int | None
    available_bytes: int | None
    snapshot_bytes: int | None
    logical_bytes: int | None
    physical_bytes: int | None
    count: int | None


class SiteArrayOut(Schema):
    """What a storage array told at `read_at`. Since `unknown_since` it could not be read, because of `error`."""

    site: str
    url: str
    svm: str
    volumes: str
    space: list[SpaceOut]
    read_at: datetime
    unknown_since: datetime | None
    error: str | None

    @classmethod
    def of(cls, row: SiteArray) -> "SiteArrayOut":
        """Describe an array."""
        return cls(
            site=row.site.name,
            url=row.url,
            svm=row.svm,
            volumes=row.volumes,
            space=[SpaceOut(**space) for space in row.space],
            read_at=row.read_at,
            unknown_since=row.failed_at,
            error=row.error or None,
        )


class CacheSitesOut(Schema):
    """A page of sites."""

    items: list[CacheSiteOut]
    next_cursor: str | None


class CacheIn(BodySchema):
    """Where to cache a commit; without a site on the local one."""

    site: bounds.Name = ""


class PinIn(BodySchema):
    """Whether a copy is kept, whoever needs space."""

    pinned: bool


class CachedCommitOut(Schema):
    """A commit on a site: how far it is, where it lies, and when it goes.

    `bytes_moved` came from the store, `bytes_copied` from another site, `bytes_shared` was there already. `waits_for`
    says what must come first while it is queued. With `is_simulated` neither the site nor its files exist.
    """

    id: str
    dataset: str
    commit: str
    site: str
    is_simulated: bool
    state: str
    waits_for: str
    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    bytes_moved: int
    bytes_shared: int
    bytes_copied: int
    reserved_bytes: int
    percent: int
    rate_bytes_s: float | None
    eta_s: float | None
    path: str | None
    pinned: bool
    users: list[str]
    requested_by: str
    created_at: datetime
    ready_at: datetime | None
    last_used_at: datetime
    last_used_by: str
    scrubbed_at: datetime | None
    evicts_at: datetime | None
    error: str | None
    error_code: str | None
    error_hint: str | None

    @classmethod
    def of(cls, row: CachedCommit) -> "CachedCommitOut":
        """Describe a cached commit."""
        return cls(
            id=row.id,
            dataset=f"{row.dataset.project.name}/{row.dataset.name}",
            commit=row.commit_id,
            site=row.site.name,
            is_simulated=row.site.is_simulated,
            state=row.state,
            waits_for=row.waits_for,
            files_done=row.files_done,
            files_total=row.files_total,
            bytes_done=row.bytes_done,
            bytes_total=row.bytes_total,
            bytes_moved=row.bytes_moved,
            bytes_shared=row.bytes_shared,
            bytes_copied=row.bytes_copied,
            reserved_bytes=row.reserved_bytes,
            percent=row.percent,
            rate_bytes_s=row.rate_bytes_s,
            eta_s=row.eta_s,
            path=row.path,
            pinned=row.is_pinned,
            users=sorted(hold.why or hold.holder for hold in row.holds.all()),
            requested_by=row.requested_by,
            created_at=row.created_at,
            ready_at=row.ready_at,
            last_used_at=row.last_used_at,
            last_used_by=row.last_used_by,
            scrubbed_at=row.scrubbed_at,
            evicts_at=caches.evicts_at(row),
            error=row.error or None,
            error_code=row.error_code or None,
            error_hint=row.error_hint or None,
        )


class CachedCommitsOut(Schema):
    """A page of cached commits, newest first."""

    items: list[CachedCommitOut]
    next_cursor: str | None


class CacheEventOut(Schema):
    """Something that happened to a cached commit."""

    id: str
    at: datetime
    kind: str
    state: str
    message: str
    facts: dict[str, object]

    @classmethod
    def of(cls, row: CachedCommitEvent) -> "CacheEventOut":
        """Describe an event."""
        return cls(id=row.id, at=row.created_at, kind=row.kind, state=row.state, message=row.message, facts=row.facts)


class CacheEventsOut(Schema):
    """A page of events, oldest first."""

    items: list[CacheEventOut]
    next_cursor: str | None


class VictimOut(Schema):
    """A copy that would leave."""

    id: str
    label: str
    charged_bytes: int
    last_used_at: datetime


class ObstacleOut(Schema):
    """A copy that may not leave, and why."""

    id: str
    label: str
    charged_bytes: int
    reason: str


class EvictionPlanOut(Schema):
    """What would be evicted, and that frees `freed_bytes` at least.

    With `missing_bytes` or `missing_volumes` above 0 nothing would leave, and the obstacles say why.
    """

    site: str
    need_bytes: int
    free_bytes: int
    freed_bytes: int
    missing_bytes: int
    volumes: int | None = Field(description=_VOLUMES)
    max_volumes: int | None
    missing_volumes: int
    victims: list[VictimOut]
    obstacles: list[ObstacleOut]

    @classmethod
    def of(cls, site: CacheSite, plan: EvictionPlan, copies: dict[str, Copy]) -> "EvictionPlanOut":
        """Describe a plan; `copies` are those that it was made from."""
        return cls(
            site=site.name,
            need_bytes=plan.need_bytes,
            free_bytes=plan.free_bytes,
            freed_bytes=plan.freed_bytes,
            missing_bytes=plan.missing_bytes,
            volumes=len(copies) if site.has_volumes else None,
            max_volumes=site.max_volumes,
            missing_volumes=plan.missing_volumes,
            victims=[
                VictimOut(
                    id=id_,
                    label=copies[id_].label,
                    charged_bytes=copies[id_].charged_bytes,
                    last_used_at=copies[id_].last_used_at,
                )
                for id_ in plan.victims
            ],
            obstacles=[
                ObstacleOut(id=item.id, label=item.label, charged_bytes=item.charged_bytes, reason=item.reason)
                for item in plan.obstacles
            ],
        )
