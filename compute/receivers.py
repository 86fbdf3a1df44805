"""Answers of compute to the scheduler's signals, and to processes of other hosts (`adapters.local.elsewhere`)."""

from typing import Any

from django.dispatch import receiver

from compute.adapters import drivers
from compute.adapters.local import questions
from compute.models import Resource
from compute.workers import launches
from core.hosts import answers
from scheduler.selectors.workloads import ClaimedPlacement
from scheduler.signals import workload_placing


@receiver(workload_placing, dispatch_uid="compute.workload_placing")
def claim_placed(placement: ClaimedPlacement, **_signal: object) -> bool:
    """Claim a placement whose job this process starts next."""
    return launches.claim_placed(placement)


@answers(questions.READ_LOG)
def read_log(*, resource_id: str, name: str, offset: int, limit: int) -> dict[str, Any]:
    """Return part of a log."""
    driver = drivers.driver_of(Resource.objects.get(pk=resource_id))
    return questions.chunk_to_json(driver.read_log(name, offset, limit))


@answers(questions.READ_USAGE)
def read_usage(*, resource_id: str, name: str, after: str | None) -> dict[str, Any]:
    """Return samples of what a job used."""
    driver = drivers.driver_of(Resource.objects.get(pk=resource_id))
    return questions.samples_to_json(driver.read_usage(name, questions.moment_from_json(after)))
