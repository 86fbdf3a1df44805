"""How much a project may store."""

from django.db import models

from core.orm import BaseModel


class StorageLimit(BaseModel):
    """The most bytes that a project's datasets may have in their stores. A project without one is not limited."""

    id_prefix = "slim"

    project = models.OneToOneField("accounts.Project", on_delete=models.CASCADE, related_name="storage_limit")
    limit_bytes = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(limit_bytes__gte=0), name="sane_storage_limit")]

    def __str__(self) -> str:
        return f"{self.limit_bytes} bytes"
