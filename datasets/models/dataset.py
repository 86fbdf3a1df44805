"""A dataset: a named file tree with a history."""

from django.conf import settings
from django.db import models

from core.orm import BaseModel
from datasets.models.store import Store


class Dataset(BaseModel):
    """A versioned file tree of a project.

    `idle_days` overrides the idle days of cache sites (null: theirs; 0: never evicted for idleness). A deleted dataset
    is hidden at once. It can be restored until `restore_ends_at`, which is null once it was deleted for good. Its rows
    stay as a record; `purged_at` says when its bytes left the store.
    `state_version` grows with every change of its names, branches and tags; `recorded_version` is the latest that the
    store has a record of. A dataset that is being rebuilt from its store has version 0, of which there is no record.
    The internal dataset of a project holds trees that are no commits (`StoredTree`): no list and no name leads to it.
    """

    id_prefix = "ds"

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=63)
    description = models.CharField(max_length=2000, blank=True)
    kind = models.CharField(max_length=30, default="general")
    is_internal = models.BooleanField(default=False)
    default_branch = models.CharField(max_length=100, default="main")
    store = models.ForeignKey(Store, on_delete=models.PROTECT, related_name="datasets")
    idle_days = models.FloatField(null=True)
    state_version = models.BigIntegerField(default=1)
    recorded_version = models.BigIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    deleted_at = models.DateTimeField(null=True)
    deleted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    restore_ends_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=models.Q(deleted_at__isnull=True),
                name="one_dataset_per_name",
            ),
            models.UniqueConstraint(
                fields=["project"],
                condition=models.Q(is_internal=True, deleted_at__isnull=True),
                name="one_internal_dataset_per_project",
            ),
            models.CheckConstraint(
                condition=models.Q(restore_ends_at__isnull=True) | models.Q(deleted_at__isnull=False),
                name="only_deleted_datasets_are_restorable",
            ),
            models.CheckConstraint(
                condition=models.Q(idle_days__isnull=True) | models.Q(idle_days__gte=0), name="sane_idle_days"
            ),
        ]

    def __str__(self) -> str:
        return self.name
