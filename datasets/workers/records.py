"""Writes the record of each dataset that changed into its store. Records are never overwritten by older ones.

The key of a record is the version of the state that it describes. Who writes one removes the one before it, so a store
has one record of a dataset, or for a moment two: the newest counts.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import F, QuerySet

from core import isolation
from datasets.adapters.opening import open_manifests
from datasets.engine.layout import DatasetRecord, record_key
from datasets.models import Branch, Dataset, Query, Tag

WRITE: Final = "datasets.write_record"
"""The kind of failures; items are datasets."""


def find_work() -> "Sequence[QuerySet[Any]]":
    """Return the query of datasets whose record is not of their present state."""
    return [Dataset.objects.filter(recorded_version__lt=F("state_version"), purged_at=None)]


def write_records() -> None:
    """Write the records that are due."""
    due = find_work()[0].select_related("store", "project").order_by("pk")
    isolation.for_each(WRITE, due, write_record)


def describe(dataset: Dataset) -> DatasetRecord:
    """Return the record of a dataset. What changes while it is read has another version, and is written again."""
    return DatasetRecord(
        dataset=dataset.pk,
        version=dataset.state_version,
        project=dataset.project_id,
        project_name=dataset.project.name,
        name=dataset.name,
        description=dataset.description,
        kind=dataset.kind,
        is_internal=dataset.is_internal,
        default_branch=dataset.default_branch,
        idle_days=dataset.idle_days,
        created_at_ms=_milliseconds(dataset.created_at),
        deleted_at_ms=_milliseconds(dataset.deleted_at) if dataset.deleted_at else None,
        restore_ends_at_ms=_milliseconds(dataset.restore_ends_at) if dataset.restore_ends_at else None,
        branches=dict(Branch.objects.filter(dataset=dataset).order_by("name").values_list("name", "head_id")),
        tags=dict(Tag.objects.filter(dataset=dataset).order_by("name").values_list("name", "commit_id")),
        queries={
            query.name: {"ref": query.ref, "conditions": query.conditions}
            for query in Query.objects.filter(dataset=dataset).order_by("name")
        },
    )


def write_record(dataset: Dataset) -> None:
    """Write the record of a dataset as it was read, and remove the one before."""
    record, store = describe(dataset), open_manifests(dataset)
    store.put(record_key(record.version), record.encode())
    Dataset.objects.filter(pk=dataset.pk, recorded_version__lt=record.version).update(recorded_version=record.version)
    if dataset.recorded_version:
        store.delete([record_key(dataset.recorded_version)])


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
