"""Where packs and manifests are kept, and how much of it a project may use."""

from enum import StrEnum

from django.db import models

from core.orm import BaseModel
from datasets.engine.ports import PutProof


class StoreKind(StrEnum):
    """The technology behind a store."""

    FOLDER = "folder"
    S3 = "s3"


class Store(BaseModel):
    """An object store. `location` is a folder, or `s3://bucket/prefix?endpoint=…&region=…`.

    `credentials` is encrypted JSON, empty for a folder. `mark` is what a folder must have at its top to be this store
    (`adapters.folder_marks`); empty for a bucket, and for a folder of an earlier version that was not there since.
    `put_proof` is what a probe found out when the store was registered. New datasets go to the default store; the
    others keep what they hold.
    """

    id_prefix = "st"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in StoreKind])
    location = models.CharField(max_length=1000)
    credentials = models.BinaryField(default=bytes)
    mark = models.CharField(max_length=64, default="", blank=True)
    put_proof = models.CharField(max_length=20, choices=[(proof.value, proof.value) for proof in PutProof])
    is_default = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=models.Q(is_default=True), name="one_default_store"
            )
        ]

    def __str__(self) -> str:
        return self.name


class StorageLimit(BaseModel):
    """The most bytes that a project's datasets may have in their stores. A project without one is not limited."""

    id_prefix = "slim"

    project = models.OneToOneField("accounts.Project", on_delete=models.CASCADE, related_name="storage_limit")
    limit_bytes = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(limit_bytes__gte=0), name="sane_storage_limit")]

    def __str__(self) -> str:
        return f"{self.limit_bytes} bytes"
