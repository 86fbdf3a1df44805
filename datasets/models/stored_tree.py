"""Trees that are no commits, such as outputs of jobs: they stay in their project while someone holds them."""

from django.db import models

from core import clock
from core.orm import BaseModel
from datasets.models.dataset import Dataset
from datasets.models.upload import ManifestRange, Pack


class StoredTree(BaseModel):
    """A file tree by its root. It has no history, no name and no author; equal trees of a project are one row.

    `touched_at`: when someone stored it last. `due_at`: it is being deleted and nobody can hold it; another worker may
    go on with that from then on.
    """

    id_prefix = "tree"

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="stored_trees")
    root = models.CharField(max_length=64)
    files = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    touched_at = models.DateTimeField(default=clock.now)
    due_at = models.DateTimeField(null=True)
    ranges = models.ManyToManyField(ManifestRange, related_name="stored_trees")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "root"], name="one_stored_tree_per_root")]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What error messages call it."""
        return f"tree {self.root[:8]}"


class TreeHold(BaseModel):
    """Why a stored tree must stay, such as the job that left it. A holder holds one tree."""

    id_prefix = "thold"

    tree = models.ForeignKey(StoredTree, on_delete=models.CASCADE, related_name="holds")
    holder = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.holder


class StoredBlob(models.Model):
    """Where a blob of a stored tree lies, so that equal content is stored once. It goes with its pack.

    `key` is a hash of the dataset's id and the blob's content id, so that one index serves all projects.
    """

    id = models.BigAutoField(primary_key=True)
    pack = models.ForeignKey(Pack, on_delete=models.CASCADE, related_name="blobs")
    key = models.BinaryField(max_length=16)
    offset = models.IntegerField()
    size = models.IntegerField()

    class Meta:
        indexes = [models.Index(fields=["key"], name="stored_blob_by_key")]

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.offset} of {self.pack_id}"
