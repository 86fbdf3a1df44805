"""Reads about where the bytes of commits lie, for apps above that have checked who may know.

What a new copy will share with the copies on a site counts as there once it was worked out (`workers/site_checks`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import FilteredRelation, Q

from datasets.adapters.sites.registry import get_kind
from datasets.engine.cache_states import CURRENT, UNFINISHED, CacheState
from datasets.engine.locality import CommitCopies, DataArrival, SiteCopy, SiteTraffic, measure_arrival
from datasets.models import CachedCommit, CacheSite, Commit, SharedContent
from datasets.selectors import cache_plans, caches

__all__ = ["DataArrival", "Locality", "locate_commits", "read_locality"]


@dataclass(frozen=True)
class Locality:
    """Where some commits lie, by id, and what the sites that may get them are filling, by name."""

    commits: Mapping[str, CommitCopies]
    traffic: Mapping[str, SiteTraffic]

    def arrival(self, commit_ids: Sequence[str], sites: Sequence[str]) -> DataArrival:
        """Return how far commits are on sites, the nearest first. Commits that are deleted are left out."""
        commits = [self.commits[id_] for id_ in dict.fromkeys(commit_ids) if id_ in self.commits]
        return measure_arrival(commits, sites, self.traffic)


def locate_commits(commit_ids: Collection[str]) -> Mapping[str, CommitCopies]:
    """Return these commits with their copies, in two queries."""
    current = FilteredRelation("cached_commits", condition=Q(cached_commits__state__in=sorted(CURRENT)))
    rows = Commit.objects.filter(pk__in=commit_ids).annotate(copy=current).order_by("pk", "copy__pk")
    columns = ("pk", "dataset__name", "size_bytes", "copy__pk", "copy__site__name", "copy__state")
    located: dict[str, tuple[str, int, dict[str, SiteCopy]]] = {}
    shared_bytes = _shared_bytes(commit_ids)
    for pk, name, size_bytes, copy_id, site, state, done, rate in rows.values_list(
        *columns, "copy__bytes_done", "copy__rate_bytes_s"
    ):
        shared = shared_bytes.get(pk, {})
        *_, copies = located.setdefault(pk, (name, size_bytes, {on: SiteCopy(part) for on, part in shared.items()}))
        if copy_id is not None:
            copies[site] = SiteCopy(
                bytes_done=min(size_bytes, max(done, shared.get(site, 0))),
                is_ready=state == CacheState.READY,
                is_coming=state in UNFINISHED,
                id=copy_id,
                rate_bytes_s=rate,
            )
    return {pk: CommitCopies(*facts) for pk, facts in located.items()}


def read_locality(commit_ids: Collection[str], sites: Collection[str]) -> Locality:
    """Return where commits lie and what these sites are filling."""
    return Locality(locate_commits(commit_ids), _traffic_of(sites))


def _shared_bytes(commit_ids: Collection[str]) -> Mapping[str, Mapping[str, int]]:
    """Return what new copies of these commits share with what is on a site, by commit and site; without zeros."""
    rows = SharedContent.objects.filter(commit__in=commit_ids, base__state=CacheState.READY).order_by()
    shared: dict[str, dict[str, int]] = {}
    for commit_id, site, size_bytes in rows.values_list("commit", "site__name", "shared_bytes"):
        shared.setdefault(commit_id, {})[site] = size_bytes
    return shared


def _traffic_of(sites: Collection[str]) -> Mapping[str, SiteTraffic]:
    rows = list(CacheSite.objects.filter(name__in=sites).order_by("pk"))
    queues: dict[str, list[tuple[bool, bool, str, int]]] = {row.pk: [] for row in rows}
    coming = CachedCommit.objects.filter(site__in=rows, state__in=sorted(UNFINISHED)).select_related("site")
    unfinished = list(coming.annotate(is_ahead=caches.only_ahead()))
    shared_bytes = _shared_bytes({copy.commit_id for copy in unfinished}) if unfinished else {}
    for copy in unfinished:
        there = max(copy.bytes_done, shared_bytes.get(copy.commit_id, {}).get(copy.site.name, 0))
        missing_bytes = max(0, copy.bytes_total - there)
        queues[copy.site_id].append((copy.is_ahead, copy.state == CacheState.QUEUED, copy.pk, missing_bytes))
    ahead = frozenset(copy.pk for copy in unfinished if copy.is_ahead)
    rates = cache_plans.expect_rates(rows)
    return {
        row.name: SiteTraffic(
            rate_bytes_s=rates[row.pk].bytes_s,
            is_assumed=rates[row.pk].is_assumed,
            is_serial=get_kind(row.kind).parallel_copies == 1,
            # What is being filled goes before what waits for that.
            queue={pk: missing_bytes for _, _, pk, missing_bytes in sorted(queues[row.pk])},
            ahead=ahead,
            is_away=row.absence != "",
        )
        for row in rows
    }
