"""What queues held lately, worked out from when their workloads were placed and released."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain

from django.db.models import Q

from scheduler.engine.states import HOLDING
from scheduler.models import PastPlacement, Placement, Queue, Workload


def gpus_over_time(
    queues: Iterable[Queue], *, until: datetime, span: timedelta, points: int
) -> dict[str, Sequence[int]]:
    """Return the GPUs (in thousandths) that each queue held at evenly spaced moments, oldest first; idle ones left out.

    Each placement of a workload counts from the first of these moments at which it holds its capacity to the last one
    before it releases it.
    """
    since, step = until - span, span / (points - 1)
    changes: dict[str, list[int]] = {}
    ids = [queue.pk for queue in queues]
    asks_gpus = Q(queue__in=ids, gpu_milli__gt=0, placed_at__lte=until)
    lately = Workload.objects.filter(released_at__gt=since).order_by().values("pk")  # a query of its own for its index
    of_one_pod = Workload.objects.filter(asks_gpus, has_many_pods=False)
    held = of_one_pod.filter(state__in=sorted(HOLDING))
    released = of_one_pod.filter(pk__in=lately).exclude(state__in=sorted(HOLDING))
    past = PastPlacement.objects.filter(asks_gpus, released_at__gt=since)
    fields = "queue_id", "gpu_milli", "placed_at", "released_at"
    placements = (query.values_list(*fields).iterator() for query in (held, released, past))
    rows = chain(*placements, _pods(ids, until))
    for queue_id, milli, placed_at, released_at in rows:
        change = changes.setdefault(queue_id, [0] * points)
        change[-((since - max(since, placed_at or since)) // step)] += milli
        if released_at is not None and released_at <= until:
            change[-((since - released_at) // step)] -= milli
    return {queue_id: list(accumulate(change)) for queue_id, change in changes.items()}


def _pods(queue_ids: Sequence[str], until: datetime) -> Iterator[tuple[str, int, datetime, None]]:
    """Yield what the pods of workloads of several pods hold now: they come and go singly."""
    held = Workload.objects.filter(queue__in=queue_ids, state__in=sorted(HOLDING), has_many_pods=True)
    placements = Placement.objects.filter(workload__in=held, created_at__lte=until)
    for queue_id, gpus, placed_at in placements.values_list("workload__queue_id", "gpus", "created_at"):
        if gpus:
            yield queue_id, sum(milli for _, milli in gpus), placed_at, None
