"""Cheap stamps of cached commits, for pages that wait for a change. They tell nothing but that there was one."""

from collections.abc import Collection, Mapping

from django.db.models import Count, Max, QuerySet, Sum

from datasets.engine.cache_states import UNFINISHED
from datasets.models import CachedCommit, CachedCommitEvent


def stamp_of_all_copies() -> str:
    """Return a stamp that is another one whenever any cached commit changed its state or got on."""
    newest = CachedCommitEvent.objects.aggregate(newest=Max("pk"))["newest"]
    moving = _moving().aggregate(files=Sum("files_done"), size=Sum("bytes_done"), count=Count("pk"))
    return f"{newest} {moving['files']} {moving['size']} {moving['count']}"


def stamps_of_copies(dataset_ids: Collection[str]) -> Mapping[str, str]:
    """Return for each of these datasets a stamp that is another one whenever a copy of its commits moved."""
    events = CachedCommitEvent.objects.filter(cached_commit__dataset__in=dataset_ids)
    newest = dict(events.values_list("cached_commit__dataset").annotate(newest=Max("pk")).order_by())
    moving = {
        row["dataset"]: f"{row['files']} {row['size']}"
        for row in _moving()
        .filter(dataset__in=dataset_ids)
        .values("dataset")
        .annotate(files=Sum("files_done"), size=Sum("bytes_done"))
        .order_by()
    }
    return {key: f"{newest.get(key)} {moving.get(key)}" for key in dataset_ids}


def _moving() -> QuerySet[CachedCommit]:
    return CachedCommit.objects.filter(state__in=sorted(UNFINISHED))
