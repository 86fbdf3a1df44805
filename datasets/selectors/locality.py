"""Reads about where the bytes of commits lie, for apps above that have checked who may know.

A copy counts for its own commit. What it shares with another commit is known once its filling begins.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import FilteredRelation, Q

from datasets.adapters.sites.registry import get_kind
from datasets.engine.cache_states import CURRENT, UNFINISHED, CacheState
from datasets.engine.locality import CommitCopies, DataArrival, SiteCopy, SiteTraffic, measure_arrival
from datasets.models import CachedCommit, CacheSite, Commit
from datasets.selectors import cache_plans

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
    """Return these commits with their copies, in one query."""
    current = FilteredRelation("cached_commits", condition=Q(cached_commits__state__in=sorted(CURRENT)))
    rows = Commit.objects.filter(pk__in=commit_ids).annotate(copy=current).order_by("pk", "copy__pk")
    columns = ("pk", "dataset__name", "size_bytes", "copy__pk", "copy__site__name", "copy__state")
    located: dict[str, tuple[str, int, dict[str, SiteCopy]]] = {}
    for pk, name, size_bytes, copy_id, site, state, done, rate in rows.values_list(
        *columns, "copy__bytes_done", "copy__rate_bytes_s"
    ):
        *_, copies = located.setdefault(pk, (name, size_bytes, {}))
        if copy_id is not None:
            copies[site] = SiteCopy(
                bytes_done=min(size_bytes, done),
                is_ready=state == CacheState.READY,
                is_coming=state in UNFINISHED,
                id=copy_id,
                rate_bytes_s=rate,
            )
    return {pk: CommitCopies(*facts) for pk, facts in located.items()}


def read_locality(commit_ids: Collection[str], sites: Collection[str]) -> Locality:
    """Return where commits lie and what these sites are filling."""
    return Locality(locate_commits(commit_ids), _traffic_of(sites))


def _traffic_of(sites: Collection[str]) -> Mapping[str, SiteTraffic]:
    rows = list(CacheSite.objects.filter(name__in=sites).order_by("pk"))
    queues: dict[str, list[tuple[bool, str, int]]] = {row.pk: [] for row in rows}
    unfinished = CachedCommit.objects.filter(site__in=rows, state__in=sorted(UNFINISHED)).order_by()
    for site_id, state, pk, total, done in unfinished.values_list("site", "state", "pk", "bytes_total", "bytes_done"):
        queues[site_id].append((state == CacheState.QUEUED, pk, max(0, total - done)))
    return {
        row.name: SiteTraffic(
            rate_bytes_s=row.config.get("rate_bytes_s") or cache_plans.last_rate(row),
            is_serial=get_kind(row.kind).parallel_copies == 1,
            # What is being filled goes before what waits for that.
            queue={pk: missing_bytes for _, pk, missing_bytes in sorted(queues[row.pk])},
        )
        for row in rows
    }
