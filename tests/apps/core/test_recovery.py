"""Leases of a dead process are void where it is known to be dead, and hold where another process may live."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.apps import apps

from compute.engine.states import JobState
from compute.models import Job
from config import recovery
from core import clock, leases
from core.orm import Leased


@pytest.mark.parametrize(
    ("database_url", "is_free"), [("", True), ("postgresql://elsewhere/nearline", False)], ids=["at home", "elsewhere"]
)
def test_only_the_home_folders_lock_proves_that_nobody_holds_a_lease(db, settings, database_url, is_free):
    settings.NEARLINE = replace(settings.NEARLINE, database_url=database_url)
    leases.take_named("leader", holder="killed", for_s=60)

    recovery.void_leases()

    assert leases.take_named("leader", holder="next", for_s=60) is is_free


def test_the_leases_of_every_kind_of_row_are_void(db, settings, everything):
    settings.NEARLINE = replace(settings.NEARLINE, database_url="")
    leased = [model for model in apps.get_models() if issubclass(model, Leased)]
    later = clock.now() + timedelta(days=1)
    for model in leased:
        model.objects.update(lease_token="killed", lease_expires_at=later)

    recovery.void_leases()

    assert {model.__name__ for model in leased} == {"Lease", "CachedCommit", "Run", "AttemptInput"}
    for model in leased:
        assert not model.objects.filter(lease_expires_at=later).exists(), model


def test_a_platform_that_dies_again_before_it_repaired_anything_starts_once_more(db, settings, everything):
    settings.NEARLINE = replace(settings.NEARLINE, database_url="")
    job = Job.objects.all()[:1]
    Job.objects.filter(pk__in=job).update(state=JobState.STARTING, starts=1, lease_expires_at=clock.now())

    for _ in range(3):
        recovery.void_leases()

    assert Job.objects.get(state=JobState.STARTING).starts == 0


def test_a_platform_that_dies_twice_while_a_job_comes_up_on_its_resource_starts_once_more(db, settings, everything):
    settings.NEARLINE = replace(settings.NEARLINE, database_url="")
    job = Job.objects.all()[:1]
    Job.objects.filter(pk__in=job).update(state=JobState.STARTING, starts=1)

    for _ in range(2):
        Job.objects.filter(state=JobState.STARTING).update(lease_expires_at=clock.now())  # its resource tells of it
        recovery.void_leases()

    assert Job.objects.filter(state=JobState.STARTING).values_list("starts", "lease_expires_at").get() == (0, None)
