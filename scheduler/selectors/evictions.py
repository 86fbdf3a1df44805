"""Reads about evictions: their receipts, limited to the projects of the actor, without the names of strangers."""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import TruncWeek

from accounts.permissions import Actor
from accounts.selectors import get_project
from scheduler.engine.receipts import Held, explain_rule, explain_why_not
from scheduler.models import CycleDump, Eviction, Workload
from scheduler.selectors.nodes import find_simulated_pools
from scheduler.selectors.pools import require_pool

STRANGERS_JOB, STRANGER = "a job of another project", "another project"
DELETED_JOB, DELETED = "a job of a deleted project", "a deleted project"


@dataclass(frozen=True)
class NamedJob:
    """A job that a receipt names. Without a `name` the reader is no member of its project, or that is deleted."""

    name: str
    label: str
    project: str


@dataclass(frozen=True)
class AlternativeView:
    """A job that could have been evicted instead; what it would have freed and lost, and why it was not."""

    job: NamedJob
    gpu_milli: int
    lost_gpu_s: float
    why: str
    why_text: str


@dataclass(frozen=True)
class EvictionView:
    """The receipt of an eviction as the reader may see it. `claimant` is None where the work was over, or stale.

    The shares are `engine.receipts.Held` as JSON, empty without a claimant. `has_simulated`: some nodes of its pool are
    simulated.
    """

    row: Eviction
    job: NamedJob
    claimant: NamedJob | None
    rule: str
    alternatives: Sequence[AlternativeView]
    has_simulated: bool = False

    @property
    def since_saved_s(self) -> float:
        """The seconds of work that were lost."""
        return (self.row.at - self.row.saved_at).total_seconds()

    @property
    def had_checkpoint(self) -> bool:
        """Whether it had saved its work after its start."""
        return self.row.saved_at > self.row.placed_at


@dataclass(frozen=True)
class EvictionWeek:
    """The evictions of a project in the week that begins then, those that moved to another node among them."""

    project: str
    begins_at: datetime
    evictions: int
    moves: int
    lost_gpu_s: float


def list_evictions(
    *,
    actor: Actor,
    project: str | None = None,
    job: str | None = None,
    pool: str | None = None,
    resource_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Eviction]:
    """Return the evictions of jobs that the actor may see, newest first.

    Where asked for, those of one project, job, pool or resource, decided at `since` or later, and before `until`.
    """
    rows = Eviction.objects.select_related("pool", "workload__project", "claimant__project").order_by("-pk")
    if not actor.sees_everything:
        rows = rows.filter(project_id__in=actor.project_ids)
    if project is not None:
        rows = rows.filter(project=get_project(actor=actor, name=project))
    if job is not None:
        # One that was resumed has another workload, whose name ends with a number behind this sign.
        rows = rows.filter(Q(workload__name=job) | Q(workload__name__startswith=f"{job}~"))
    if pool is not None:
        require_pool(actor=actor, name=pool)
        rows = rows.filter(pool__name=pool)
    if resource_id is not None:
        rows = rows.filter(workload__resource_id=resource_id)
    if since is not None:
        rows = rows.filter(at__gte=since)
    return rows if until is None else rows.filter(at__lt=until)


def view_evictions(*, actor: Actor, rows: Iterable[Eviction]) -> list[EvictionView]:
    """Return receipts as the actor may read them, in two queries."""
    rows = list(rows)
    ids = {each["workload_id"] for row in rows for each in row.alternatives}
    columns = ("name", "title", "project__name", "project__deleted_at")
    others = Workload.objects.select_related("project").only(*columns).in_bulk(ids)
    simulated = find_simulated_pools()
    views = [_view(actor, row, others) for row in rows]
    return [
        replace(view, has_simulated=view.row.pool is not None and view.row.pool.name in simulated) for view in views
    ]


def list_weeks(*, actor: Actor, project: str | None = None) -> list[EvictionWeek]:
    """Return by project and week what was evicted, the newest week first."""
    rows = list_evictions(actor=actor, project=project).order_by()
    weeks = rows.annotate(week=TruncWeek("at")).values("week", name=F("project__name"))
    weeks = weeks.annotate(count=Count("pk"), moves=Count("pk", filter=Q(is_moved=True)), lost=Sum("lost_gpu_s"))
    return [
        EvictionWeek(each["name"], each["week"], each["count"], each["moves"], each["lost"])
        for each in weeks.order_by("-week", "name")
    ]


def read_dump(cycle: str) -> Mapping[str, Any]:
    """Return the dump of a cycle. Raises LookupError. For the platform itself."""
    row = CycleDump.objects.filter(pk=cycle).first()
    if row is None:
        raise LookupError("no such dump is stored, or not any more")
    dump: dict[str, Any] = json.loads(zlib.decompress(row.data))
    return dump


def _view(actor: Actor, row: Eviction, others: Mapping[str, Workload]) -> EvictionView:
    alternatives = [
        AlternativeView(
            _named(actor, others.get(each["workload_id"])),
            each["gpu_milli"],
            each["lost_gpu_s"],
            each["why"],
            explain_why_not(each["why"]),
        )
        for each in row.alternatives
    ]
    claimant = None if not row.claim_class else _named(actor, row.claimant)
    claimant_share = Held(**row.claimant_share) if row.claimant_share else None
    rule = explain_rule(
        row.code,
        row.claim_class,
        Held(**row.victim_share),
        claimant_share,
        claim_delay_s=row.claim_delay_s,
        min_runtime_s=row.min_runtime_s,
    )
    return EvictionView(row, _name_of(row.workload), claimant, rule, alternatives)


def _named(actor: Actor, workload: Workload | None) -> NamedJob:
    """Return the names of a job; those of a stranger, and of one whose project is deleted, are not told.

    Workloads go with their project only.
    """
    if workload is None or workload.project.deleted_at is not None:
        return NamedJob("", DELETED_JOB, DELETED)
    if actor.level_in(workload.project_id) is None:
        return NamedJob("", STRANGERS_JOB, STRANGER)
    return _name_of(workload)


def _name_of(workload: Workload) -> NamedJob:
    return NamedJob(workload.name.partition("~")[0], str(workload), workload.project.name)
