"""Whether a controller leads: without one nothing starts or moves on, and what rows say of jobs and nodes grows old."""

from datetime import datetime, timedelta

from core import clock
from core.models import Lease

LEASE = "leader"
_LATE = timedelta(seconds=30)


def has_leader() -> bool:
    """Whether a controller leads, or did a moment ago."""
    lease = Lease.objects.filter(pk=LEASE).first()
    return lease is not None and lease.is_leased_at(clock.now() - _LATE)


def find_standstill() -> datetime | None:
    """Return since when no controller has led; None: one does, or none ever has."""
    late = Lease.objects.filter(pk=LEASE, lease_expires_at__lte=clock.now() - _LATE)
    return late.values_list("lease_expires_at", flat=True).first()
