"""Noting that a dataset's names, branches or tags changed, so that its record in the store is written anew."""

from django.db.models import F

from core import tasks
from datasets.models import Dataset


def note_change(dataset_id: str) -> None:
    """Note a change of a dataset, in the transaction that makes it; its record follows once that has committed."""
    Dataset.objects.filter(pk=dataset_id).update(state_version=F("state_version") + 1)
    tasks.enqueue_on_commit("datasets.write_records")
