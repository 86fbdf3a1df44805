"""What queues held lately, worked out from when their workloads were placed and released."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain

from django.db.models import Q

from scheduler.engine.states import HOLDING
from scheduler.models import PastPlacement, Queue, Workload


def gpus_over_time(
    queues: Iterable[Queue], *, until: datetime, span: timedelta, points: int
) -> dict[str, Sequence[int]]:
    """Return the GPUs (in thousandths) that each queue held at evenly spaced moments, oldest first; idle ones left out.

    Each placement of a workload counts from the first of these moments at which it holds its capacity to the last one
    before it releases it.
    """
    since, step = until - span, span / (points - 1)
    changes: dict[str, list[int]] = {}
    held = Q(state__in=sorted(HOLDING)) | Q(released_at__gt=since)
    ids = [queue.pk for queue in queues]
    rows = Workload.objects.filter(held, queue__in=ids, gpu_milli__gt=0, placed_at__lte=until)
    past_placements = PastPlacement.objects.filter(
        released_at__gt=since, queue__in=ids, gpu_milli__gt=0, placed_at__lte=until
    )
    fields = "queue_id", "gpu_milli", "placed_at", "released_at"
    for queue_id, milli, placed_at, released_at in chain(
        rows.values_list(*fields).iterator(), past_placements.values_list(*fields).iterator()
    ):
        change = changes.setdefault(queue_id, [0] * points)
        change[-((since - max(since, placed_at or since)) // step)] += milli
        if released_at is not None and released_at <= until:
            change[-((since - released_at) // step)] -= milli
    return {queue_id: list(accumulate(change)) for queue_id, change in changes.items()}
