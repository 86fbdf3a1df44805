"""How much of what jobs read each resource has yet to get: what the scheduler and flows choose by."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from compute.models import ResourceSite
from datasets.selectors import locality
from datasets.selectors.locality import DataArrival

K = TypeVar("K")


def missing_bytes(commits_of: Mapping[K, Sequence[str]]) -> dict[K, Mapping[str, int]]:
    """Return, by key, the bytes of these commits that each resource with cache sites lacks, by its id.

    Three queries for any number of keys; none where nobody reads a commit.
    """
    distinct = {key: tuple(dict.fromkeys(commits)) for key, commits in commits_of.items() if commits}
    if not distinct:
        return {}
    located = locality.locate_commits({id_ for commits in distinct.values() for id_ in commits})
    sites = sites_by_resource()
    # Thousands of jobs read the same few commits.
    sums = {
        commits: {
            resource_id: sum(located[id_].missing_bytes(names) for id_ in commits if id_ in located)
            for resource_id, names in sites.items()
        }
        for commits in set(distinct.values())
    }
    return {key: sums[commits] for key, commits in distinct.items()}


def arrivals(commit_ids: Sequence[str], resource_ids: Collection[str]) -> dict[str, DataArrival]:
    """Return how far commits are on each of these resources that reads cache sites, by its id; without commits none."""
    if not commit_ids:
        return {}
    sites = sites_by_resource(resource_ids)
    known = locality.read_locality(commit_ids, {site for names in sites.values() for site in names})
    return {resource_id: known.arrival(commit_ids, names) for resource_id, names in sites.items()}


def sites_by_resource(resource_ids: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return the cache sites, nearest first, of attached resources that read any; by default of all of them."""
    links = ResourceSite.objects.filter(resource__detached_at=None).order_by("resource", "position")
    if resource_ids is not None:
        links = links.filter(resource__in=resource_ids)
    sites: dict[str, list[str]] = {}
    for resource_id, site in links.values_list("resource_id", "site"):
        sites.setdefault(resource_id, []).append(site)
    return sites
