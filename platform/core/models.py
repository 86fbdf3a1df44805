"""The tables of the kernel: leases, by which one process among many leads; shared keys; failures of background work."""

from django.db import models

from core.orm import BaseModel, Leased


class Lease(Leased):
    """A lease by name, for what has no row of its own. Its token is the name of its holder."""

    name = models.CharField(primary_key=True, max_length=100)

    def __str__(self) -> str:
        return f"{self.name} held by {self.lease_token}"


class KnownKey(models.Model):
    """A key that all processes of the installation share, by the name of its setting and a slow hash."""

    name = models.CharField(primary_key=True, max_length=50)
    digest = models.CharField(max_length=128)

    def __str__(self) -> str:
        return self.name


class Failure(BaseModel):
    """Background work on one item that failed, and when it is tried again. Written by `core.isolation` (see there).

    Its id is the one under which the log has the whole error. A row is deleted once the work succeeds.
    """

    id_prefix = "fail"

    kind = models.CharField(max_length=50)
    item_id = models.CharField(max_length=200)
    attempts = models.PositiveIntegerField(default=0)
    error = models.TextField()
    failed_at = models.DateTimeField()
    next_try_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "item_id"], name="one_failure_per_item")]

    def __str__(self) -> str:
        return f"{self.kind} {self.item_id}: {self.error}"
