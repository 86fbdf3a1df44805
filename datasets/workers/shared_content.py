"""What copies will share with those that are on their sites already: worked out before anybody asks for them.

So it is known of each site how much of a commit has yet to be moved there, also where no copy is on its way.
"""

from django.db.models import Max, Q

from core import clock, hosts, isolation
from datasets.engine.cache_states import CURRENT, UNFINISHED, CacheState
from datasets.models import CachedCommit, CacheSite, Commit, SharedContent
from datasets.selectors import cache_plans, failures

_NOT_BEGUN = frozenset({CacheState.QUEUED, CacheState.FAILED})


def measure_shared() -> None:
    """Work out what is not known yet of the sites of this host. What cannot be read stops none of the others."""
    isolation.for_each(
        failures.MEASURE_SHARED,
        _find_unmeasured(),
        lambda pair: _measure(*pair),
        key=lambda pair: f"{pair[0].pk}:{pair[1].pk}",
    )


def _find_unmeasured() -> list[tuple[CacheSite, Commit]]:
    """Return sites with ready copies, and commits of the same datasets: heads of branches and what is on its way."""
    ready = CachedCommit.objects.filter(state=CacheState.READY, ready_at__isnull=False, site__host__in=hosts.here())
    newest = ready.order_by("site", "dataset").values_list("site", "dataset").annotate(newest_at=Max("ready_at"))
    changed_at = {(site_id, dataset_id): at for site_id, dataset_id, at in newest}
    if not changed_at:
        return []
    live_commits = Commit.objects.filter(dataset__in={id_ for _, id_ in changed_at}, dataset__deleted_at=None)
    is_wanted = Q(branches__isnull=False) | Q(cached_commits__state__in=sorted(UNFINISHED))
    commits = list(live_commits.filter(is_wanted).select_related("dataset__store").order_by("pk").distinct())
    begun = CachedCommit.objects.filter(commit__in=commits, state__in=sorted(CURRENT - _NOT_BEGUN)).order_by()
    known = SharedContent.objects.filter(Q(base=None) | Q(base__state=CacheState.READY), commit__in=commits).order_by()
    is_begun = set(begun.values_list("site", "commit"))
    measured_at = {
        (site_id, commit_id): at for site_id, commit_id, at in known.values_list("site", "commit", "measured_at")
    }
    sites = CacheSite.objects.in_bulk({id_ for id_, _ in changed_at})
    return [
        (sites[site_id], commit)
        for (site_id, dataset_id), at in changed_at.items()
        for commit in commits
        if commit.dataset_id == dataset_id and (site_id, commit.pk) not in is_begun
        if (site_id, commit.pk) not in measured_at or measured_at[site_id, commit.pk] < at
    ]


def _measure(site: CacheSite, commit: Commit) -> None:
    now = clock.now()  # what becomes ready meanwhile is looked at again
    plan = cache_plans.plan_hydration(commit, site)
    SharedContent.objects.update_or_create(
        site=site,
        commit=commit,
        defaults={"base_id": plan.base_id, "shared_bytes": plan.shared_bytes, "measured_at": now},
    )
