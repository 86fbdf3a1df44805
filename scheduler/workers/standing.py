"""How the projects of a pool stand to each other now: who uses whose quota, and who waits below its share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Min
from django.db.models.functions import Coalesce

from accounts.permissions import Actor
from core import clock
from core.units import format_gpus
from scheduler.engine.proof import Resource
from scheduler.engine.standing import STARVED_AFTER_S, Holding, Share, pair_loans
from scheduler.engine.states import HOLDING, WorkloadState
from scheduler.engine.wording import write
from scheduler.models import Queue, Workload
from scheduler.selectors import gpu_shapes, pools, queues
from scheduler.workers import cycle

STRANGERS = "other projects"
"""The name of all projects together of which the reader is no member."""


@dataclass(frozen=True)
class LoanView:
    """GPUs that one project holds of the quota of another. Without a `lender` no quota covers them."""

    lender: str | None
    borrower: str
    gpu_milli: int

    @property
    def text(self) -> str:
        """The loan as a sentence."""
        amount = write(Resource.GPU, self.gpu_milli)
        if self.lender is None:
            verb = "hold" if self.borrower == STRANGERS else "holds"
            return f"{self.borrower} {verb} {amount} that no quota covers"
        return f"{self.lender} {'lend' if self.lender == STRANGERS else 'lends'} {amount} to {self.borrower}"


@dataclass(frozen=True)
class BelowShare:
    """A project that holds less than its fair share while work waits, the oldest since `enqueued_at`.

    `is_starved`: it waits for long, within its quota, as others borrow.
    """

    project: str
    gpu_held_milli: int
    gpu_fair_milli: int
    enqueued_at: datetime
    is_starved: bool

    @property
    def text(self) -> str:
        """How far it is below, as a sentence without the time."""
        held, fair = format_gpus(self.gpu_held_milli), write(Resource.GPU, self.gpu_fair_milli)
        return f"{self.project} is below its share: it holds {held} of {fair}"


@dataclass(frozen=True)
class SmallQuota:
    """A project whose quota does not cover a job, or a department's what is below it. `needed_by` says what."""

    project: str
    gpu_quota_milli: int
    gpu_needed_milli: int
    needed_by: str
    is_department: bool = False

    @property
    def text(self) -> str:
        """What follows from it, as a sentence."""
        quota, needed = format_gpus(self.gpu_quota_milli), write(Resource.GPU, self.gpu_needed_milli)
        if self.is_department:
            return (
                f"{self.project}: its quota of {quota} does not cover {self.needed_by} with {needed} together; "
                "of what is beyond it nothing is guaranteed to them, and others can claim it back"
            )
        return (
            f"{self.project}: its quota of {quota} does not cover {self.needed_by} with {needed}; "
            "such a job runs only on what others leave idle, and they can claim it back"
        )


@dataclass(frozen=True)
class Standing:
    """The loans in a pool that a reader has part in, and whose share or quota, of the reader's projects, is amiss."""

    pool: str
    loans: Sequence[LoanView]
    below: Sequence[BelowShare]
    small_quotas: Sequence[SmallQuota]


def read_standing(*, actor: Actor, pool: str, fair: Mapping[str, int] | None = None) -> Standing:
    """Return how a pool is shared now; `fair` are the shares of `cycle.fair_shares`, where they are at hand.

    Projects that the reader may not see are named together, and told of where they lend to, or borrow from, one that
    the reader sees. Raises PoolNotFound.
    """
    pools.require_pool(actor=actor, name=pool)
    everyone = Actor.system("how a pool is shared")
    rows: list[Queue] = list(queues.list_queues(actor=everyone, pool=pool).order_by("project__name", "pk"))
    visible = {queue.pk for queue in rows}
    if not actor.sees_everything:
        visible = set(queues.list_queues(actor=actor, pool=pool).values_list("pk", flat=True))
    names = {queue.pk: queue.label if queue.pk in visible else STRANGERS for queue in rows}
    here = pools.view_pools(list(pools.list_pools(actor=actor).filter(name=pool)))
    held = {queue.pk: int(getattr(queue, "gpu_held_milli", 0)) for queue in rows}
    holdings = [Holding(queue.pk, queue.parent_id, queue.gpu_quota_milli, held[queue.pk]) for queue in rows]
    amounts: dict[tuple[str | None, str], int] = {}
    for loan in pair_loans(holdings, sum(view.gpu_milli for view in here)):
        if loan.borrower_id in visible or loan.lender_id in visible:
            pair = (None if loan.lender_id is None else names[loan.lender_id], names[loan.borrower_id])
            amounts[pair] = amounts.get(pair, 0) + loan.gpu_milli
    shares = cycle.fair_shares(pools.get_pool(actor=actor, name=pool).pk) if fair is None else fair
    known = [Share(queue.pk, held[queue.pk], queue.gpu_quota_milli, shares.get(queue.pk, 0)) for queue in rows]
    borrowers = {share.queue_id for share in known if share.is_borrowing}
    below = {share.queue_id: share for share in known if share.queue_id in visible and share.held < share.fair}
    now = clock.now()
    return Standing(
        pool,
        [LoanView(lender, borrower, amount) for (lender, borrower), amount in amounts.items()],
        [
            BelowShare(
                names[queue_id],
                held[queue_id],
                int(below[queue_id].fair),
                since,
                is_starved=(now - since).total_seconds() >= STARVED_AFTER_S
                and below[queue_id].held < (below[queue_id].quota or 0)
                and bool(borrowers - {queue_id}),
            )
            for queue_id, since in _waiting_since(list(below)).items()
        ],
        [
            *(_small_departments(rows, queues.list_departments(actor=actor, pool=pool)) if actor.is_site_admin else ()),
            *_small_quotas([queue for queue in rows if queue.pk in visible]),
        ],
    )


def _small_departments(rows: Sequence[Queue], departments: Sequence[Queue]) -> list[SmallQuota]:
    """Return which departments have a smaller quota than what is directly below them."""
    needed: dict[str | None, int] = {}
    for queue in (*rows, *departments):
        needed[queue.parent_id] = needed.get(queue.parent_id, 0) + queue.gpu_quota_milli
    return [
        SmallQuota(each.label, each.gpu_quota_milli, needed[each.pk], "the quotas below it", is_department=True)
        for each in departments
        if each.gpu_quota_milli < needed.get(each.pk, 0)
    ]


def _small_quotas(rows: Sequence[Queue]) -> list[SmallQuota]:
    """Return which quotas cover less than a job that is there, or than any template of the pool.

    One of 0 is none to be covered by: its project lives on what is idle, and knows.
    """
    rows = [queue for queue in rows if queue.gpu_quota_milli]
    if not rows:
        return []
    smallest = gpu_shapes.find_smallest(rows[0].pool_id)
    live = Workload.objects.filter(queue__in=rows, state__in=[*HOLDING, WorkloadState.PENDING], gpu_milli__gt=0)
    largest = dict(live.order_by().values("queue_id").annotate(most=Max("gpu_milli")).values_list("queue_id", "most"))
    small = []
    for queue in rows:
        quota, most = queue.gpu_quota_milli, largest.get(queue.pk, 0)
        if smallest is not None and quota < smallest.gpu_milli:
            needed_by = f"even the smallest template of the pool, {smallest.name}"
            small.append(SmallQuota(queue.label, quota, smallest.gpu_milli, needed_by))
        elif quota < most:
            small.append(SmallQuota(queue.label, quota, most, "its largest job"))
    return small


def _waiting_since(queue_ids: Sequence[str]) -> dict[str, datetime]:
    """Return since when the oldest work for GPUs waits in each of these queues, in their order."""
    waiting = Workload.objects.filter(queue__in=queue_ids, state=WorkloadState.PENDING, gpu_milli__gt=0)
    first = dict(
        waiting.order_by()
        .values("queue_id")
        .annotate(since=Min(Coalesce("requeued_at", "enqueued_at")))
        .values_list("queue_id", "since")
    )
    return {queue_id: first[queue_id] for queue_id in queue_ids if queue_id in first}
