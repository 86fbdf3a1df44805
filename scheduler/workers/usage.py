"""Samples what queues hold and wait for, sums samples up, and deletes them in time.

A sample costs as much as what holds or waits for capacity, and what ended since the last one: not what ended before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Count, DateTimeField, Max, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Cast

from core import clock, leases
from core.units import ONE_GPU
from scheduler.engine.spans import LEVELS, Level
from scheduler.engine.states import HOLDING, WorkloadState
from scheduler.models import PastPlacement, Placement, Pool, PoolSample, Queue, QueueSample, Workload

_HOUR_S = 3600
_LEASE, _LEASE_S = "scheduler.usage", 60.0
_HOLDING = sorted(HOLDING)


@dataclass
class _Used:
    """What a queue held, in seconds of one GPU, and what that costs."""

    gpu_s: float = 0.0
    price: float = 0.0

    def add(self, gpu_milli: float, price_per_hour: float, seconds: float) -> None:
        self.gpu_s += gpu_milli / ONE_GPU * seconds
        self.price += price_per_hour / _HOUR_S * seconds


@transaction.atomic
def sample() -> None:
    """Store what has been held since the last sample, and sum up the spans that have ended since, or do nothing.

    Of two leaders, of which one was stopped for a while and goes on, the second waits here and finds it done.
    """
    now, token = clock.now(), leases.new_token()
    if not leases.take_named(_LEASE, holder=token, for_s=_LEASE_S):
        return
    _sample_until(now)
    leases.release_named(_LEASE, holder=token)


def _sample_until(now: datetime) -> None:
    since = _last_end(LEVELS[0]) or now - LEVELS[0].span
    if since >= now:
        return
    _sample(since, now)
    for level in LEVELS[1:]:
        if level.begin_of(since) < level.begin_of(now):
            _sum_up(level, now)


def _sample(since: datetime, now: datetime) -> None:
    seconds = (now - since).total_seconds()
    span = {"level": 0, "begins_at": since, "ends_at": now}
    used, pending = _used_between(since, now)
    asked = Q(pk__in=used.keys() | pending.keys()) | Q(used_gpu_s__gt=0)
    queues = list(Queue.objects.filter(asked).select_related("pool").order_by("pk"))
    quotas = {queue.pk: queue.gpu_quota_milli for queue in queues if queue.pk in used or queue.pk in pending}
    for queue in queues:
        rest = queue.used_gpu_s * 0.5 ** (seconds / queue.pool.usage_half_life_s)
        more = used[queue.pk].gpu_s if queue.pk in used else 0.0
        # What is less than a second of one GPU is forgotten, so that a queue nobody uses is not written for ever.
        queue.used_gpu_s = rest + more if rest + more >= 1 else 0.0
    Queue.objects.bulk_update(queues, ["used_gpu_s"], batch_size=100)
    QueueSample.objects.bulk_create(
        (
            QueueSample(
                queue_id=pk,
                held_gpu_s=used[pk].gpu_s if pk in used else 0.0,
                pending_gpu_s=pending.get(pk, 0) / ONE_GPU * seconds,
                price=used[pk].price if pk in used else 0.0,
                gpu_quota_milli=quota,
                **span,
            )
            for pk, quota in sorted(quotas.items())
        ),
        ignore_conflicts=True,
    )
    pools = Pool.objects.annotate(devices=Count("nodes__gpus", filter=Q(nodes__is_ready=True))).order_by("pk")
    PoolSample.objects.bulk_create(
        (
            PoolSample(pool_id=pk, seconds=seconds, capacity_gpu_s=devices * seconds, **span)
            for pk, devices in pools.values_list("pk", "devices")
        ),
        ignore_conflicts=True,
    )


def _used_between(since: datetime, now: datetime) -> tuple[Mapping[str, _Used], Mapping[str, int]]:
    """Return what queues held, and what they wait for."""
    used: dict[str, _Used] = defaultdict(_Used)
    pending: dict[str, int] = {}
    for queue_id, gpu_milli, price, placed_at, released_at in chain(_sums_and_parts(since), _pods_of_gangs()):
        if placed_at is None:
            pending[queue_id] = gpu_milli
            continue
        begin, end = max(placed_at, since), min(released_at or now, now)
        if begin < end:
            used[queue_id].add(gpu_milli, price, (end - begin).total_seconds())
    return used, pending


_Part = tuple[str, int, float, datetime | None, datetime | None]
"""What a queue holds, at what price, and from when until when; from None: it waits for that."""


def _sums_and_parts(since: datetime) -> QuerySet[Any, _Part]:
    """Return, in one statement, what queues held all the time and wait for, and what began or ended since.

    Of what waits and what held all the time the database makes one row for each queue.
    """
    held = Workload.objects.filter(state__in=_HOLDING, has_many_pods=False).order_by()
    ended = Workload.objects.filter(released_at__gt=since, has_many_pods=False, placed_at__isnull=False).order_by()
    past = PastPlacement.objects.filter(released_at__gt=since).order_by()
    pending = Workload.objects.filter(state=WorkloadState.PENDING).order_by()
    never = Cast(Value(None), DateTimeField())
    fields = "queue_id", "gpu_milli", "price_per_hour", "placed_at"
    sums = Sum("gpu_milli"), Sum("price_per_hour")
    return (
        held.filter(placed_at__lte=since)
        .values_list("queue_id", *sums, Min("placed_at"), never)
        .union(
            held.filter(placed_at__gt=since).values_list(*fields, never),
            ended.values_list(*fields, "released_at"),
            past.values_list(*fields, "released_at"),
            pending.values_list("queue_id", *sums, never, never),
            all=True,
        )
    )


def _pods_of_gangs() -> Iterator[_Part]:
    for pod in Placement.objects.filter(workload__has_many_pods=True).select_related("workload").order_by("pk"):
        gpu_milli = sum(milli for _, milli in pod.gpus)
        yield pod.workload.queue_id, gpu_milli, pod.workload.price_per_pod_hour, pod.created_at, None


def _sum_up(level: Level, now: datetime) -> None:
    """Sum up the samples of the level below over the spans that are over, and delete what is kept no longer."""
    until = level.begin_of(now)
    done = _last_end(level)
    if done is not None and done >= until:
        return
    below = LEVELS[level.number - 1]
    ended = Q(level=below.number, ends_at__lte=until) & (Q(ends_at__gt=done) if done is not None else Q())
    pools: dict[tuple[str, datetime], PoolSample] = {}
    for row in PoolSample.objects.filter(ended).order_by("ends_at"):
        begin = level.begin_before(row.ends_at)
        fresh = PoolSample(pool_id=row.pool_id, seconds=0.0, capacity_gpu_s=0.0, **_span(level, begin))
        total = pools.setdefault((row.pool_id, begin), fresh)
        total.seconds += row.seconds
        total.capacity_gpu_s += row.capacity_gpu_s
    queues: dict[tuple[str, datetime], QueueSample] = {}
    for part in QueueSample.objects.filter(ended).order_by("ends_at"):
        begin = level.begin_before(part.ends_at)
        empty = QueueSample(queue_id=part.queue_id, held_gpu_s=0.0, pending_gpu_s=0.0, price=0.0, **_span(level, begin))
        whole = queues.setdefault((part.queue_id, begin), empty)
        whole.held_gpu_s += part.held_gpu_s
        whole.pending_gpu_s += part.pending_gpu_s
        whole.price += part.price
        whole.gpu_quota_milli = part.gpu_quota_milli
    QueueSample.objects.bulk_create(queues.values(), ignore_conflicts=True, batch_size=100)
    PoolSample.objects.bulk_create(pools.values(), ignore_conflicts=True, batch_size=100)
    for each in (below, level):
        for samples in (PoolSample, QueueSample):
            samples.objects.filter(level=each.number, ends_at__lt=now - each.retention).delete()


def _span(level: Level, begin: datetime) -> dict[str, object]:
    return {"level": level.number, "begins_at": begin, "ends_at": begin + level.span}


def _last_end(level: Level) -> datetime | None:
    end: datetime | None = PoolSample.objects.filter(level=level.number).aggregate(end=Max("ends_at"))["end"]
    return end
