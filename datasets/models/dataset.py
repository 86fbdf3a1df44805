"""Datasets, which are named file trees, and their history: commits, and the branches and tags that name them."""

from enum import StrEnum

from django.conf import settings
from django.db import models

from core import clock
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


class CommitSource(StrEnum):
    """The interface through which a commit was recorded. What a query selected is on no branch."""

    CLI = "cli"
    SDK = "sdk"
    WEB = "web"
    REVERT = "revert"
    FLOW = "flow"
    MERGE = "merge"
    QUERY = "query"
    IMPORT = "import"


class Commit(models.Model):
    """One version of a dataset's file tree. Never changed; its id is the hash of what it says.

    `files` and `size_bytes` describe the whole tree; `added`, `removed` and `changed` count files against the parent.
    `merged` is the commit whose changes a merge brought in.
    """

    id = models.CharField(primary_key=True, max_length=64, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="commits")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    merged = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="merges")
    root = models.CharField(max_length=64)
    message = models.TextField(blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    author_name = models.CharField(max_length=200)
    source = models.CharField(max_length=10, choices=[(source.value, source.value) for source in CommitSource])
    idempotency_key = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(default=clock.now, editable=False, db_index=True)
    files = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    added = models.BigIntegerField()
    removed = models.BigIntegerField()
    changed = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["dataset", "root"], name="commit_by_root")]
        constraints = [
            models.UniqueConstraint(
                fields=["dataset", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="one_commit_per_idempotency_key",
            )
        ]

    def __str__(self) -> str:
        return self.short

    @property
    def short(self) -> str:
        """The first eight digits of the id, for people."""
        return self.id[:8]

    @property
    def label(self) -> str:
        """What error messages call it."""
        return f"commit {self.short}"


class Branch(BaseModel):
    """A name whose commit moves forward. `head` is null until the first commit."""

    id_prefix = "br"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="branches")
    name = models.CharField(max_length=100)
    head = models.ForeignKey(Commit, on_delete=models.PROTECT, null=True, related_name="branches")
    updated_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "name"], name="one_branch_per_name")]

    def __str__(self) -> str:
        return self.name


class Tag(BaseModel):
    """A name that stays with its commit."""

    id_prefix = "tag"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=100)
    commit = models.ForeignKey(Commit, on_delete=models.PROTECT, related_name="tags")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "name"], name="one_tag_per_name")]

    def __str__(self) -> str:
        return self.name
