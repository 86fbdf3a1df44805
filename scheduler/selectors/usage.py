"""What queues held and waited for over time: for charts, for what projects consumed, and for what that does to shares.

Samples of them say it, or, for the last hours of a few queues, when their workloads were placed and released.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import accumulate, chain
from typing import TypeVar

from django.db.models import Max, Q, QuerySet, Sum

from accounts.permissions import Actor
from accounts.selectors import get_project
from core import clock
from core.units import ONE_GPU
from scheduler.engine.queues import shares_if_all_ask
from scheduler.engine.sharing import SharingRules
from scheduler.engine.spans import LEVELS, Level, level_for
from scheduler.engine.states import HOLDING
from scheduler.models import PastPlacement, Placement, Pool, PoolSample, Queue, QueueSample, Workload
from scheduler.selectors.nodes import find_simulated_pools
from scheduler.selectors.queues import list_queues
from scheduler.selectors.snapshots import parts_used, view_queue

S = TypeVar("S", PoolSample, QueueSample)


@dataclass(frozen=True)
class Consumption:
    """What a project consumed in a pool: seconds of one GPU, and what that cost, of what has a price.

    `has_simulated`: some nodes of the pool are simulated.
    """

    project: str
    pool: str
    gpu_s: float
    price: float
    has_simulated: bool = False

    @property
    def gpu_hours(self) -> float:
        """The same in hours."""
        return self.gpu_s / 3600


@dataclass(frozen=True)
class Line:
    """The GPUs of a project on average over each span: held, waited for, and guaranteed at its end (None: idle)."""

    project: str
    held: Sequence[float]
    pending: Sequence[float]
    quota: Sequence[float | None]


@dataclass(frozen=True)
class Usage:
    """A pool over time. `ends_at` are the ends of the spans, oldest first; `capacity` and `held` are GPUs on average.

    `held` counts all projects, also those that the reader may not see; `lines` are those who held or waited for most.
    """

    span: timedelta
    ends_at: Sequence[datetime] = ()
    capacity: Sequence[float] = ()
    held: Sequence[float] = ()
    lines: Sequence[Line] = field(default_factory=list)


def read_usage(*, actor: Actor, pool: str, past: timedelta, project: str | None = None, most: int = 7) -> Usage:
    """Return how a pool was used in the past so long: of one project, or of the `most` that used it most."""
    level, since = level_for(past), clock.now() - past
    spans: dict[datetime, PoolSample] = {}
    for row in _samples(PoolSample.objects.filter(pool__name=pool), level, since):
        end = _end_of(level, row.ends_at)
        total = spans.setdefault(end, PoolSample(seconds=0.0, capacity_gpu_s=0.0))
        total.seconds += row.seconds
        total.capacity_gpu_s += row.capacity_gpu_s
    if not spans:
        return Usage(level.span)
    ends = sorted(spans)
    of_pool = QueueSample.objects.filter(queue__pool__name=pool)
    held: dict[datetime, float] = defaultdict(float)
    for rows in _parts_of(of_pool, level, since):
        for ends_at, gpu_s in rows.order_by().values_list("ends_at").annotate(Sum("held_gpu_s")):
            held[_end_of(level, ends_at)] += gpu_s
    lines = [
        _line(queue_label, rows, level, ends, spans)
        for queue_label, rows in _shown(actor, pool, of_pool, level, since, project, most)
    ]
    return Usage(
        level.span,
        ends,
        [spans[end].capacity_gpu_s / spans[end].seconds for end in ends],
        [held[end] / spans[end].seconds for end in ends],
        lines,
    )


def list_consumption(
    *, actor: Actor, since: datetime, until: datetime | None = None, project: str | None = None
) -> list[Consumption]:
    """Return what the projects that the actor may see consumed between two moments, the most first.

    The times are those of samples: exact to a minute within the last day, to 15 minutes within 14 days, else to 6
    hours.
    """
    now = clock.now()
    level = level_for(now - since)
    # What deleted projects consumed stays in the sums of site admins.
    visible = Queue.objects.filter(project__isnull=False)
    if not actor.is_site_admin:
        visible = visible.filter(project_id__in=actor.project_ids)
    names = {
        pk: (name, pool_name)
        for pk, name, pool_name in visible.values_list("pk", "project__name", "pool__name")
        if project in {None, name}
    }
    if project is not None and not names:
        get_project(actor=actor, name=project)
    totals: dict[str, tuple[float, float]] = {}
    for rows in _parts_of(QueueSample.objects.filter(ends_at__lte=until or now), level, since):
        for pk, gpu_s, price in rows.order_by().values_list("queue").annotate(Sum("held_gpu_s"), Sum("price")):
            if pk in names:
                before = totals.get(pk, (0.0, 0.0))
                totals[pk] = (before[0] + gpu_s, before[1] + price)
    simulated = find_simulated_pools()
    consumption = [
        Consumption(*names[pk], gpu_s, price, has_simulated=names[pk][1] in simulated)
        for pk, (gpu_s, price) in totals.items()
        if gpu_s or price
    ]
    return sorted(consumption, key=lambda each: (-each.gpu_s, each.project, each.pool))


def _shown(  # noqa: PLR0917 (the parts of one question)
    actor: Actor,
    pool: str,
    of_pool: QuerySet[QueueSample],
    level: Level,
    since: datetime,
    project: str | None,
    most: int,
) -> Iterator[tuple[str, list[QueueSample]]]:
    """Yield the samples of the projects that are shown, with their names, in the order of these."""
    visible = list_queues(actor=actor, pool=pool).order_by()
    labels = {queue.pk: queue.label for queue in visible if project in {None, queue.label}}
    totals: dict[str, float] = defaultdict(float)
    for rows in _parts_of(of_pool, level, since):
        sums = rows.order_by().values_list("queue").annotate(Sum("held_gpu_s"), Sum("pending_gpu_s"))
        for pk, gpu_s, pending_gpu_s in sums:
            if pk in labels:
                totals[pk] += gpu_s + pending_gpu_s
    chosen = sorted(totals, key=lambda pk: (-totals[pk], pk))[:most]
    samples: dict[str, list[QueueSample]] = {pk: [] for pk in chosen}
    for row in _samples(of_pool.filter(queue__in=chosen), level, since):
        samples[row.queue_id].append(row)
    for pk in sorted(chosen, key=labels.__getitem__):
        yield labels[pk], samples[pk]


def _line(
    label: str,
    rows: Collection[QueueSample],
    level: Level,
    ends: Sequence[datetime],
    spans: Mapping[datetime, PoolSample],
) -> Line:
    held: dict[datetime, float] = defaultdict(float)
    pending: dict[datetime, float] = defaultdict(float)
    quotas: dict[datetime, float] = {}
    for row in rows:
        end = _end_of(level, row.ends_at)
        held[end] += row.held_gpu_s
        pending[end] += row.pending_gpu_s
        quotas[end] = row.gpu_quota_milli / ONE_GPU
    return Line(
        label,
        [held[end] / spans[end].seconds for end in ends],
        [pending[end] / spans[end].seconds for end in ends],
        [quotas.get(end) for end in ends],
    )


def _end_of(level: Level, ends_at: datetime) -> datetime:
    """Return the end of the span of a level in which a sample ends; those of level 0 stay as they are."""
    return ends_at if level.number == 0 else level.begin_before(ends_at) + level.span


def _samples(rows: QuerySet[S], level: Level, since: datetime) -> list[S]:
    return [row for part in _parts_of(rows, level, since) for row in part.order_by("ends_at", "pk")]


def _parts_of(rows: QuerySet[S], level: Level, since: datetime) -> list[QuerySet[S]]:
    """Return the samples of a level since a moment, and of the levels below those that are not summed up yet."""
    parts = []
    for each in reversed(LEVELS[: level.number + 1]):
        parts.append(rows.filter(Q(level=each.number, ends_at__gt=since)))
        done = PoolSample.objects.filter(level=each.number).aggregate(end=Max("ends_at"))["end"]
        since = max(since, done) if done is not None else since
    return parts


@dataclass(frozen=True)
class PastUse:
    """What a queue used lately, its part among its siblings, and its share without and with that.

    Shares are those if all asked for more than there is, in thousandths of GPUs.
    """

    used_gpu_s: float
    part: float
    plain_milli: int
    pulled_milli: int

    @property
    def percent(self) -> int:
        """Its part in hundredths."""
        return round(100 * self.part)


def find_past_use(pool: Pool, rules: SharingRules, gpu_milli: int) -> Mapping[str, PastUse]:
    """Return by queue what past use does under some rules. For callers that show only what a reader may see."""
    queues = list(Queue.objects.filter(pool=pool, project__removed_at=None).select_related("project").order_by("pk"))
    parts = parts_used(queues)
    views = [replace(view_queue(queue), used=(parts[queue.pk], 0.0, 0.0)) for queue in queues]
    plain = shares_if_all_ask(views, gpu_milli, usage_pull=0.0)
    pulled = shares_if_all_ask(views, gpu_milli, usage_pull=rules.usage_pull)
    return {queue.pk: PastUse(queue.used_gpu_s, parts[queue.pk], plain[queue.pk], pulled[queue.pk]) for queue in queues}


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
    rows = chain(*placements, _held_by_pods(ids, until))
    for queue_id, milli, placed_at, released_at in rows:
        change = changes.setdefault(queue_id, [0] * points)
        change[-((since - max(since, placed_at or since)) // step)] += milli
        if released_at is not None and released_at <= until:
            change[-((since - released_at) // step)] -= milli
    return {queue_id: list(accumulate(change)) for queue_id, change in changes.items()}


def _held_by_pods(queue_ids: Sequence[str], until: datetime) -> Iterator[tuple[str, int, datetime, None]]:
    """Yield what the pods of workloads of several pods hold now: they come and go singly."""
    held = Workload.objects.filter(queue__in=queue_ids, state__in=sorted(HOLDING), has_many_pods=True)
    placements = Placement.objects.filter(workload__in=held, created_at__lte=until)
    for queue_id, gpus, placed_at in placements.values_list("workload__queue_id", "gpus", "created_at"):
        if gpus:
            yield queue_id, sum(milli for _, milli in gpus), placed_at, None
