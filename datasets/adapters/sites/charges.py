"""What is settled when a copy leaves a site whose copies are clones of one another."""

from django.db.models import Max, QuerySet, Sum

from datasets.models import CachedCommit


def freed_bytes(copies: "QuerySet[CachedCommit]", copy_id: str) -> int:
    """Return what the removal of one of a site's copies frees: its charge, less what was cloned from it and stays."""
    charged: int = copies.filter(pk=copy_id).aggregate(total=Sum("reserved_bytes"))["total"] or 0
    cloned: int = copies.filter(base=copy_id).aggregate(most=Max("bytes_shared"))["most"] or 0
    return max(0, charged - cloned)
