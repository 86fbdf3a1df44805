"""How a commit would come to a site: what it can share with copies there and what must be moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q, QuerySet

from core import clock
from datasets.adapters.sites.registry import KINDS, get_kind, open_site
from datasets.engine import hydration_plan
from datasets.engine.cache_ports import Sharing
from datasets.engine.cache_states import UNFINISHED, WORKING, CacheState
from datasets.engine.hydration_plan import HydrationPlan
from datasets.errors import CacheSiteUnavailable
from datasets.models import CachedCommit, CacheSite, CacheSiteKind, Commit
from datasets.selectors import caches
from datasets.selectors.trees import TreeReader

# An exact plan reads the ranges that differ, so only the most promising copies get one.
_EXACT_PLANS = 3
_LEADER_BEGINS_WITHIN = timedelta(seconds=30)
# A small copy takes as long as its claim, its process and its requests do, which says nothing of a big one. Of several
# together, the big ones decide.
_COPIES_OF_A_RATE = 20
_BYTES_OF_A_RATE = 16 * 2**20
ASSUMED_BYTES_S = 50e6
"""What is assumed of a site while too little has come to any: less than a disk writes and a gigabit link brings."""


@dataclass(frozen=True)
class ExpectedRate:
    """At how many bytes a second copies will come to a site. `is_assumed`: neither declared nor measured there."""

    bytes_s: float
    is_assumed: bool = False


def plan_hydration(commit: Commit, site: CacheSite, reader: TreeReader | None = None) -> HydrationPlan:
    """Return the cheapest way to fill a copy of `commit` on `site`: the fewest bytes from the store.

    `commit.dataset` and its store should be loaded. `reader` reads its manifests, if the caller has one. Raises
    ContentCorrupt, BlobMissing, StoreUnreachable and CacheSiteUnavailable.
    """
    reader = reader or TreeReader(commit.dataset)
    ranges = reader.read_root(commit.root)
    full = hydration_plan.plan_full(ranges)
    if open_site(site).sharing is Sharing.NONE:
        return full
    siblings = {row.pk: row for row in caches.list_ready_siblings(site, commit.dataset)}
    roots = {id_: reader.read_root(row.commit.root) for id_, row in siblings.items()}
    plans = [
        hydration_plan.plan_from_base(ranges, base_id=id_, base_ranges=roots[id_], load_range=reader.load_range)
        for id_ in hydration_plan.rank_bases(ranges, roots)[:_EXACT_PLANS]
    ]
    best = min(plans, key=lambda plan: plan.write_bytes, default=full)
    return best if best.shared_bytes else full


def find_donor(commit: Commit, site: CacheSite) -> CachedCommit | None:
    """Return the copy of `commit` on another site from which it comes to `site`; None: the store must give it.

    That is the oldest ready one that `site` can read, on its own host rather than on another, else the oldest one that
    is being filled and can be read meanwhile: of several sites that are filled at once, one reads the store.
    """
    own = CachedCommit.objects.filter(commit=commit, site=site, state__in=UNFINISHED).values("pk")[:1]
    others = CachedCommit.objects.filter(commit=commit).exclude(site=site)
    # In this order, or a copy that becomes ready between the two statements would be neither.
    coming = _first_readable(site, others.filter(being_filled(), pk__lt=own), is_early=True)
    return _first_readable(site, others.filter(state=CacheState.READY)) or coming


def being_filled() -> Q:
    """Return the condition that a worker fills a copy, or a site that works alone and is not held up."""
    works_alone = Q(site__kind__in=[kind.name for kind in KINDS.values() if kind.works_alone])
    is_at_work = Q(works_alone, waits_for="") | Q(~works_alone, lease_expires_at__gt=clock.now())
    return Q(is_at_work, state__in=WORKING)


def find_leader(row: CachedCommit) -> CachedCommit | None:
    """Return an older copy of the same commit that is about to be filled, and from which this one can be then."""
    about_to_begin = CachedCommit.objects.filter(
        commit=row.commit,
        state=CacheState.QUEUED,
        waits_for="",
        created_at__gt=clock.now() - _LEADER_BEGINS_WITHIN,
        pk__lt=row.pk,
    ).exclude(site=row.site)
    return _first_readable(row.site, about_to_begin, is_early=True)


def _first_readable(site: CacheSite, rows: "QuerySet[CachedCommit]", *, is_early: bool = False) -> CachedCommit | None:
    copies = sorted(rows.select_related("site").order_by("pk"), key=lambda row: row.site.cluster != site.cluster)
    for row in copies:
        if is_early and not get_kind(row.site.kind).is_read_early:
            continue
        try:
            if open_site(site).can_read(open_site(row.site)):
                return row
        except CacheSiteUnavailable:
            continue  # the next site, or the store, gives it
    return None


def measure_rate(site: CacheSite) -> float | None:
    """Return at how many bytes a second copies come to a site; None: too little has come to tell.

    That is the declared rate, else that of the copy that comes now, else that of the newest that came.
    """
    if declared := site.config.get("rate_bytes_s"):
        return float(declared)
    copies = CachedCommit.objects.filter(site=site).order_by("-pk")
    rate: float | None = copies.filter(rate_bytes_s__gt=0).values_list("rate_bytes_s", flat=True).first()
    if rate is not None:
        return rate
    filled = copies.filter(ready_at__gt=F("started_at")).annotate(moved=F("bytes_moved") + F("bytes_copied"))
    rows = filled.filter(moved__gt=0).values_list("moved", F("ready_at") - F("started_at"))[:_COPIES_OF_A_RATE]
    moved_bytes = sum(moved for moved, _ in rows)
    seconds = sum(took.total_seconds() for _, took in rows)
    return moved_bytes / seconds if moved_bytes >= _BYTES_OF_A_RATE else None


def expect_rates(sites: Sequence[CacheSite]) -> Mapping[str, ExpectedRate]:
    """Return by id how quickly copies will come to these sites.

    Where too little has come to tell, they are expected to come as slowly as to the slowest other site that exists, and
    at `ASSUMED_BYTES_S` where too little has come to any: else no job would ever have its data brought to a new one.
    """
    rates = {site.pk: measure_rate(site) for site in sites}
    if None not in rates.values():
        return {pk: ExpectedRate(rate) for pk, rate in rates.items() if rate is not None}
    others = CacheSite.objects.exclude(kind=CacheSiteKind.SIMULATED).exclude(pk__in=rates).order_by("pk")
    known = [rates[site.pk] for site in sites if not site.is_simulated] + [measure_rate(site) for site in others]
    assumed = ExpectedRate(min(filter(None, known), default=ASSUMED_BYTES_S), is_assumed=True)
    return {pk: assumed if rate is None else ExpectedRate(rate) for pk, rate in rates.items()}
