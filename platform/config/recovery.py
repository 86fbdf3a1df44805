"""Going on at once where a killed process left off, in the one installation in which no other process can live."""

from django.conf import settings

from compute.workers import launches
from core.models import Lease
from datasets.workers import cache_leases
from flows.workers import leases


def void_leases() -> None:
    """End every lease that a process took which no longer lives. Call it with the lock on the home folder held.

    The lock proves that nobody else works on a database in that folder. A database elsewhere may have other users,
    whose leases are fences: those run out by themselves.
    """
    if settings.NEARLINE.database_url:
        return
    Lease.objects.all().delete()
    cache_leases.void_leases()
    launches.void_leases()
    leases.void_leases()
