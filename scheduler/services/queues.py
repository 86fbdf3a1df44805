"""Queues: one for each project, and what is guaranteed to it."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db import transaction

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require_site_admin
from core import doorbell
from scheduler.errors import InvalidQuota
from scheduler.models import Queue


@dataclass(frozen=True)
class Quota:
    """What a queue is guaranteed. None means: CPU and memory without bound; a weight in proportion to the GPU quota."""

    gpu_milli: int
    cpu_millicores: int | None
    memory_bytes: int | None
    over_quota_weight: float | None


def ensure_queues(project_ids: Collection[str]) -> Mapping[str, str]:
    """Return the id of each project's queue, creating those that are missing with no GPUs of their own."""
    found = dict(Queue.objects.filter(project__in=project_ids).values_list("project_id", "id"))
    missing = sorted(set(project_ids) - set(found))
    if missing:
        Queue.objects.bulk_create([Queue(project_id=project_id) for project_id in missing], ignore_conflicts=True)
        found |= dict(Queue.objects.filter(project__in=missing).values_list("project_id", "id"))
    return found


def ensure_queue(*, project_id: str) -> str:
    """Return the id of a project's queue, creating it if it is missing."""
    return ensure_queues([project_id])[project_id]


@transaction.atomic
def set_quota(*, actor: Actor, queue: Queue, quota: Quota) -> Queue:
    """Change what a queue is guaranteed; the next cycle works with it. Raises InvalidQuota."""
    require_site_admin(actor, "set quotas")
    amounts = [quota.gpu_milli, quota.cpu_millicores, quota.memory_bytes, quota.over_quota_weight]
    if any(amount is not None and not (math.isfinite(amount) and amount >= 0) for amount in amounts):
        raise InvalidQuota("A quota or a weight is below zero or not a number.")
    queue.gpu_quota_milli = quota.gpu_milli
    queue.cpu_quota_millicores = quota.cpu_millicores
    queue.memory_quota_bytes = quota.memory_bytes
    queue.over_quota_weight = quota.over_quota_weight
    queue.save(update_fields=["gpu_quota_milli", "cpu_quota_millicores", "memory_quota_bytes", "over_quota_weight"])
    audit.record(
        actor,
        "scheduler.set_quota",
        queue,
        gpu_milli=quota.gpu_milli,
        cpu_millicores=quota.cpu_millicores,
        memory_bytes=quota.memory_bytes,
        over_quota_weight=quota.over_quota_weight,
    )
    doorbell.enqueue_on_commit("scheduler.cycle")
    return queue
