"""Changes of a dataset's names, branches and tags, noted so that its record in the store is written anew."""

from django.db.models import F

from core import clock, tasks
from datasets.models import Branch, Commit, Dataset


def note_change(dataset_id: str) -> None:
    """Note a change of a dataset, in the transaction that makes it; its record follows once that has committed."""
    Dataset.objects.filter(pk=dataset_id).update(state_version=F("state_version") + 1)
    tasks.enqueue_on_commit("datasets.write_records")


def move_head(branch: Branch, *, expected: str | None, to: Commit) -> bool:
    """Let a branch point to `to` if it still points to `expected` (None: to nothing); say whether it did."""
    rows = Branch.objects.filter(pk=branch.pk)
    rows = rows.filter(head_id=expected) if expected else rows.filter(head__isnull=True)
    if not rows.update(head=to, updated_at=clock.now()):
        return False
    note_change(branch.dataset_id)
    return True
