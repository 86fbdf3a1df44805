"""What becomes of a project's datasets and their copies when it is deleted."""

from django.db.models import Count, Sum

from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import MOST_ITEMS, Effect, Item
from core.units import count_of, format_bytes
from datasets.engine.cache_states import LIVE
from datasets.models import BYTES_ON_DISK, CachedCommit, Commit, Dataset
from datasets.selectors.storage import OUTPUTS, largest_parts


def describe(*, actor: Actor, project: Project) -> list[Effect]:  # noqa: ARG001 (they are the project's own)
    """Return what a deletion does to them."""
    datasets = Dataset.objects.filter(project=project, is_internal=False, deleted_at=None)
    commits = Commit.objects.filter(dataset__in=datasets.values("pk")).count()
    parts = largest_parts([project.pk])[project.pk]
    outputs = sum(part.stored_bytes for part in parts if not part.is_dataset)
    stored = sum(part.stored_bytes for part in parts if part.is_dataset)
    copies = CachedCommit.objects.filter(dataset__project=project, state__in=sorted(LIVE))
    cached = copies.aggregate(count=Count("pk"), size=Sum(BYTES_ON_DISK))
    in_use = copies.filter(holds__isnull=False).distinct().count()
    named = {part.name: part for part in parts if part.is_dataset and not part.is_deleted}
    count = datasets.count()
    sources = list(project.file_sources.order_by("name").values_list("name", flat=True))
    return [
        Effect(
            "datasets",
            count,
            f"{count_of(count, 'dataset')} with {count_of(commits, 'commit')} and {format_bytes(stored)} in the store.",
            size_bytes=stored,
            items=[
                Item(name, format_bytes(named[name].stored_bytes) if name in named else "")
                for name in datasets.order_by("name").values_list("name", flat=True)[:MOST_ITEMS]
            ],
        ),
        Effect("outputs", int(outputs > 0), f"{format_bytes(outputs)}: {OUTPUTS}.", size_bytes=outputs),
        Effect(
            "cached_commits",
            cached["count"],
            f"{count_of(cached['count'], 'cached commit')} evicted, {format_bytes(cached['size'] or 0)}"
            + (f"; of these {in_use} in use, evicted once what reads them has ended." if in_use else "."),
            size_bytes=cached["size"] or 0,
            items=[
                Item(f"{copy.dataset.name}@{copy.commit_id[:8]}", f"on {copy.site.name}, {copy.state}")
                for copy in copies.select_related("dataset", "site").order_by("pk")[:MOST_ITEMS]
            ],
        ),
        Effect(
            "sources",
            len(sources),
            f"{count_of(len(sources), 'source')}: the permit to import ends. The files there stay.",
            items=list(map(Item, sources[:MOST_ITEMS])),
        ),
    ]
