"""Whether a project may store more: asked when an upload begins and before packs are sent.

Outputs of jobs are stored beyond the limit, so that no job loses what it made; uploads wait until there is space again.
"""

from collections.abc import Mapping
from datetime import datetime

from core import clock
from core.units import format_bytes
from datasets.errors import StorageLimitReached
from datasets.models import Dataset, StorageLimit
from datasets.selectors import storage

_NAMED = 3


def require_some_space(dataset: Dataset) -> None:
    """Raise StorageLimitReached when the dataset's project can store nothing more."""
    limit = StorageLimit.objects.filter(project=dataset.project_id).first()
    if limit is not None and (used := storage.used_bytes(dataset.project_id)) >= limit.limit_bytes:
        raise _reached(limit, used, needed=0)


def require_space(dataset: Dataset, sizes: Mapping[str, int]) -> None:
    """Raise StorageLimitReached unless the project may store these packs, by name; those that it has cost nothing.

    Called in the transaction that claims them, so that two uploads at once do not share the same space.
    """
    limit = StorageLimit.objects.select_for_update().filter(project=dataset.project_id).first()
    if limit is None:
        return
    known = storage.counted(clock.now()).filter(dataset=dataset, sha256__in=sizes)
    needed = sum(sizes.values()) - sum(sizes[name] for name in known.values_list("sha256", flat=True))
    used = storage.used_bytes(dataset.project_id)
    if needed and used + needed > limit.limit_bytes:
        raise _reached(limit, used, needed=needed)


def _reached(limit: StorageLimit, used: int, *, needed: int) -> StorageLimitReached:
    parts = storage.largest_parts([limit.project_id])[limit.project_id][:_NAMED]
    most = ", ".join(f"{part.label} ({format_bytes(part.stored_bytes)})" for part in parts)
    # In the midst of an upload that is what it has sent so far.
    unused = None if needed else storage.measure_unused([limit.project_id]).get(limit.project_id)
    return StorageLimitReached(
        f"{limit.project.name} stores {format_bytes(used)} and may store {format_bytes(limit.limit_bytes)}."
        + (f" This needs {format_bytes(needed)} more." if needed else "")
        + (f" Most is taken by {most}." if most else "")
        + (f" {_say_unused(*unused)}" if unused else ""),
        used_bytes=used,
        limit_bytes=limit.limit_bytes,
        needed_bytes=needed,
        largest=[{"name": part.name, "is_dataset": part.is_dataset, "bytes": part.stored_bytes} for part in parts],
    )


def _say_unused(size_bytes: int, until: datetime) -> str:
    when = f"{until:%Y-%m-%d %H:%M} UTC"
    return f"{format_bytes(size_bytes)} are of uploads that no commit uses; they are freed by {when}."
