"""Resuming at once where a killed process stopped, in the one installation in which no other process can live."""

from django.apps import apps
from django.conf import settings

from compute.workers import launches
from core import leases
from core.orm import Leased


def void_leases() -> None:
    """End every lease of a process that no longer lives. Call it with the lock on the home folder held.

    The lock proves that nobody else works on a database in that folder. A database elsewhere may have other users,
    whose leases are fences: those run out by themselves.
    """
    if settings.NEARLINE.database_url:
        return
    for model in apps.get_models():
        if issubclass(model, Leased):
            leases.void(model._default_manager.all())
    launches.void_leases()
