"""The capacity page: what lies on each cache site, when it goes, and what would be evicted if space were needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpResponse
from django.shortcuts import render

from accounts.models import Project
from accounts.permissions import Level
from accounts.selectors import get_project
from accounts.web.requests import PageRequest, text
from core import clock, units
from core.isolation import FailureView
from datasets.engine.cache_states import UNFINISHED, CacheState
from datasets.engine.eviction import EvictionPlan
from datasets.models import CachedCommit, CacheSite, SiteArray
from datasets.selectors import caches, failures, site_readers
from datasets.selectors.caches import Capacity
from datasets.selectors.site_readers import SiteReader

_HUES = 7
_ROWS = 50
_SOON_S = 6 * 3600


@dataclass(frozen=True)
class CopyRow:
    """One copy: where it stands in the bar, who uses it, when it goes. `start` and `width` are of 1000."""

    copy: CachedCommit
    hue: int
    start: float
    width: float
    users: list[str]
    evicts_at: datetime | None
    goes_soon: bool
    stays_for_ever: bool
    may_change: bool


@dataclass(frozen=True)
class SiteView:
    """A site. `rows` are those of this page, up to the number `last`; `segments` all of them, which make the bar.

    `others_width` is the part of the bar that other projects take, of 1000. `fault` says why the site is lost; empty:
    it is not.
    """

    site: CacheSite
    capacity: Capacity
    readers: list[SiteReader]
    fault: str
    rows: list[CopyRow]
    segments: list[CopyRow]
    last: int
    others_bytes: int
    others_start: float
    others_width: float
    next_to_go: CopyRow | None
    is_moving: bool
    plan: EvictionPlan | None
    plan_rows: list[str]
    failures: list[FailureView]
    array: SiteArray | None

    @property
    def is_attached(self) -> bool:
        """Whether the cluster or host that the site is on is attached, or it is on none."""
        return all(reader.is_attached for reader in self.readers)


def caches_page(request: PageRequest) -> HttpResponse:
    """Show every site, or the one that `site` names; `need` asks what would leave for so many bytes."""
    need, only = text(request, "need"), text(request, "site")
    need_bytes = units.parse_bytes(need) if need else None
    sites = [site for site in caches.list_sites(actor=request.actor) if only in {None, site.name}]
    capacities = caches.measure_capacities(sites)
    name = text(request, "project")
    project = get_project(actor=request.actor, name=name) if name else None
    readers = site_readers.list_readers([site.name for site in sites])
    views = [
        _view_of(request, site, capacities[site.pk], readers[site.name], project=project, need_bytes=need_bytes)
        for site in sites
    ]
    context = {
        "views": views,
        "need": need,
        "moves": any(view.is_moving for view in views),
        "only": only,
        "project_name": name,
    }
    return render(request, "datasets/caches_live.html" if request.htmx else "datasets/caches.html", context)


def _view_of(
    request: PageRequest,
    site: CacheSite,
    capacity: Capacity,
    readers: list[SiteReader],
    *,
    project: Project | None,
    need_bytes: int | None,
) -> SiteView:
    copies = caches.list_cached_commits(actor=request.actor, site=site).order_by("pk")
    if project is not None:
        copies = copies.filter(dataset__project=project)
    rows, start = [], 0.0
    for number, copy in enumerate(copies):
        width = 1000 * copy.reserved_bytes / max(1, site.capacity_bytes)
        rows.append(_row_of(request, copy, number % _HUES, start, width))
        start += width
    others = max(0, capacity.committed_bytes - sum(row.copy.reserved_bytes for row in rows))
    going = [row for row in rows if row.evicts_at is not None]
    plan = None if need_bytes is None else caches.plan_eviction(request.actor, site, need_bytes)
    first = _first_of(request, len(rows))
    return SiteView(
        site=site,
        capacity=capacity,
        readers=readers,
        fault=site_readers.find_fault(request.actor, site, readers),
        rows=rows[first : first + _ROWS],
        segments=rows,
        last=min(first + _ROWS, len(rows)),
        others_bytes=others,
        others_start=start,
        others_width=1000 * others / max(1, site.capacity_bytes),
        next_to_go=min(going, key=lambda row: row.evicts_at or clock.now(), default=None),
        is_moving=any(row.copy.state in UNFINISHED or row.copy.state == CacheState.EVICTING for row in rows),
        plan=plan,
        plan_rows=_labels_of(plan, rows) if plan else [],
        failures=failures.list_failures([row.copy for row in rows]),
        array=next(iter(caches.list_arrays([site.name])), None),
    )


def _labels_of(plan: EvictionPlan, rows: Sequence[CopyRow]) -> list[str]:
    labels = {row.copy.pk: caches.label_of(row.copy) for row in rows}
    return [labels.get(victim, "a commit of another project") for victim in plan.victims]


def _first_of(request: PageRequest, count: int) -> int:
    """Return the first row to show; pages of rows are asked for one site at a time."""
    asked = text(request, "from") or "0"
    return int(asked) if asked.isdecimal() and int(asked) < count else 0


def _row_of(request: PageRequest, copy: CachedCommit, hue: int, start: float, width: float) -> CopyRow:
    evicts_at = caches.evicts_at(copy)
    return CopyRow(
        copy=copy,
        hue=hue,
        start=start,
        width=width,
        users=sorted(hold.why or hold.holder for hold in copy.holds.all()),
        evicts_at=evicts_at,
        goes_soon=evicts_at is not None and (evicts_at - clock.now()).total_seconds() < _SOON_S,
        stays_for_ever=caches.idle_days_of(copy) == 0,
        may_change=(request.actor.level_in(copy.dataset.project_id) or 0) >= Level.WRITE,
    )
