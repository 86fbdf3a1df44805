"""How capacity is packed: against the mix of what was asked for lately, once there is enough of it to learn from.

The prices of capacity take a second to work out, so a background task does it now and then; cycles only read the row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

import structlog
from django.db.models import Count, Exists, QuerySet

from core import clock, ids, leases
from core.models import Lease
from scheduler.engine.rules import packing
from scheduler.engine.snapshot import CapacityPrices, Fill
from scheduler.models import Packing, Queue, Workload
from scheduler.selectors.snapshots import find_packing, request_of

log = structlog.get_logger(__name__)

_LEASE = "scheduler.packing"
_AT_MOST_EVERY_S = 300.0
_LOOK_BACK = 20_000
"""So many of the newest workloads are looked at: one sweep does not decide alone, and last year does not count."""
ENOUGH = 50
"""Fewer GPU requests than this teach nothing."""

_MOST_SHAPES = 200
_MOVED = 0.05
_ROW = "packing_now"
_PARTS_OF_PRICES = {part.name for part in fields(CapacityPrices)}
"""Prices that an older version has worked out may lack some of them."""

Shape = Sequence[int]
"""What a request asks for (thousandths of GPUs, millicores, bytes), and how many asked for that."""


def find_due() -> list[QuerySet[Queue]]:
    """Return the queues, unless somebody has looked in the last five minutes."""
    recent = Lease.objects.filter(pk=_LEASE, lease_expires_at__gt=clock.now())
    return [Queue.objects.filter(~Exists(recent))]


def learn() -> None:
    """Work out the prices of capacity anew if what is asked for is no longer what they were learnt from.

    It may be called at any time, by any number of processes: between them it looks once in five minutes.
    """
    # The lease is not given back: as long as it lasts somebody has just looked.
    if not leases.take_named(_LEASE, holder=ids.new_id("learner", now_ms=clock.now_ms()), for_s=_AT_MOST_EVERY_S):
        return
    mix, known = _recent_mix(), find_packing()
    requests = sum(count for *_, count in mix)
    if requests < ENOUGH:
        if known is not None:
            known.delete()
            log.info("scheduler.packing", fill=Fill.PACK, requests=requests)
    elif known is None or known.prices.keys() != _PARTS_OF_PRICES or _distance(known.mix, mix) >= _MOVED:
        prices = asdict(_price(mix))
        facts = {"mix": mix, "prices": prices, "requests": requests, "learnt_at": clock.now()}
        Packing.objects.update_or_create(pk=_ROW, defaults=facts)
        log.info("scheduler.packing", fill=Fill.MIX, requests=requests)


def _recent_mix() -> list[list[int]]:
    """Return the shapes of the GPU requests among the newest workloads, the most frequent first."""
    newest = Workload.objects.order_by("-pk").values("pk")[:_LOOK_BACK]
    rows = Workload.objects.filter(pk__in=newest, gpu_milli__gt=0).order_by().values_list("pod_sets")
    counts: Counter[tuple[int, int, int]] = Counter()
    for pod_sets, count in rows.annotate(count=Count("pk")):
        for pods in pod_sets:
            if pods["gpu_milli"]:
                shape = pods["gpu_milli"], pods["cpu_millicores"], pods["memory_bytes"]
                counts[shape] += count * pods["count"]
    shapes = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [[*shape, count] for shape, count in shapes[:_MOST_SHAPES]]


def _price(mix: Sequence[Shape]) -> CapacityPrices:
    """Return what capacity is worth to a mix.

    Every workload names its only resource, so that a pool is dearer says nothing about its nodes: pools are left out.
    """
    parts = [
        (request_of(gpu_milli, cpu_millicores, memory_bytes), float(count))
        for gpu_milli, cpu_millicores, memory_bytes, count in mix
    ]
    prices = packing.price_capacity(parts, ())
    assert prices is not None  # noqa: S101 (there is always a price when somebody asks for a GPU)
    return prices


def _distance(before: Sequence[Shape], now: Sequence[Shape]) -> float:
    """Return which part of the requests would have to ask for something else to turn one mix into the other."""
    old, new = _parts(before), _parts(now)
    return sum(abs(new.get(shape, 0.0) - old.get(shape, 0.0)) for shape in old.keys() | new.keys()) / 2


def _parts(mix: Sequence[Shape]) -> Mapping[Shape, float]:
    total = sum(count for *_, count in mix)
    return {tuple(shape): count / total for *shape, count in mix}
