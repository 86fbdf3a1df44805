"""The tables of the kernel: leases, by which one process among many leads; and failures of background work."""

from datetime import timedelta

from django.db import models

from core import clock
from core.orm import BaseModel


class Lease(models.Model):
    """A right that one holder has until it expires or is renewed."""

    name = models.CharField(primary_key=True, max_length=50)
    holder = models.CharField(max_length=100)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"


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


def take_lease(name: str, *, holder: str, for_s: float) -> bool:
    """Take or renew a lease for `holder`; False when another holds it. Safe to call from many processes at once."""
    now = clock.now()
    expires_at = now + timedelta(seconds=for_s)
    free = models.Q(holder=holder) | models.Q(expires_at__lte=now)
    if Lease.objects.filter(free, pk=name).update(holder=holder, expires_at=expires_at):
        return True
    _, was_made = Lease.objects.get_or_create(pk=name, defaults={"holder": holder, "expires_at": expires_at})
    return was_made


def renew_lease(name: str, *, holder: str, for_s: float) -> bool:
    """Lengthen a lease if nobody took it since `holder` did, even after its expiry; else False.

    Inside a transaction the row stays locked until its end, so nobody can take the lease in between.
    """
    return Lease.objects.filter(pk=name, holder=holder).update(expires_at=clock.now() + timedelta(seconds=for_s)) == 1


def give_back_lease(name: str, *, holder: str) -> None:
    """End a lease early, so that a successor need not wait for its expiry."""
    Lease.objects.filter(pk=name, holder=holder).update(expires_at=clock.now())
