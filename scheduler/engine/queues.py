"""The queues of a cycle: what each holds, may hold, and should hold, from departments down to projects.

Fair share: each resource is divided by itself among the queues, quotas first, then the rest by weight. Shares are whole
units (whole GPUs), except where a queue asks for less. The rules are those of the open-sourced Run:AI scheduler.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, inf

from core.units import ONE_GPU
from scheduler.engine.snapshot import JobView, QueueView, WorkRules

RESOURCES, GPU = 3, 0
UNITS = (ONE_GPU, 1, 1_000_000)
"""Fair shares are whole devices, millicores and megabytes."""

Vector = list[float]


class QueueState:
    """One queue with what it holds now. `held` includes reservations; `firm` is the part that is not preemptible.

    `path` leads down to it from its topmost ancestor, `line` up again. `largest` is the most GPU, in thousandths, that
    any job of it can give up at once. The rules for `training` and for `interactive` work are those that hold in the
    end, with what the queues above rule.
    """

    __slots__ = (
        "children",
        "fair",
        "firm",
        "held",
        "interactive",
        "largest",
        "limit",
        "line",
        "may_hold",
        "parent",
        "path",
        "quota",
        "training",
        "version",
        "view",
        "waiting",
    )

    def __init__(self, view: QueueView, parent: "QueueState | None") -> None:
        self.view = view
        self.parent = parent
        self.path: tuple[QueueState, ...] = (*parent.path, self) if parent is not None else (self,)
        self.line: tuple[QueueState, ...] = self.path[::-1]
        self.children: list[QueueState] = []
        self.quota: Vector = [inf if bound is None else bound for bound in view.quota]
        self.limit: Vector = [inf if bound is None else bound for bound in view.limit]
        self.held: Vector = [0, 0, 0]
        self.firm: Vector = [0, 0, 0]
        self.waiting: Vector = [0, 0, 0]
        self.largest = 0
        self.version = 0
        self.fair: Vector = [0, 0, 0]
        self.may_hold: Vector = [0, 0, 0]
        self.training, self.interactive = view.training, view.interactive
        if parent is not None:
            parent.children.append(self)
            self.training = view.training.or_else(parent.training)
            self.interactive = view.interactive.or_else(parent.interactive)

    @property
    def has_time_limits(self) -> bool:
        """Whether any of its work may run, or stand idle, for so long only."""
        return any(
            rules.run_at_most_s is not None or rules.idle_at_most_s is not None
            for rules in (self.training, self.interactive)
        )

    @property
    def wants_more_than_its_share(self) -> bool:
        """Whether its jobs hold and wait for more of anything than its fair share."""
        return any(self.requested(resource) > self.fair[resource] for resource in range(RESOURCES))

    def rules_for(self, job: JobView) -> WorkRules:
        """Return the rules for the kind of work that a job is."""
        return self.training if job.is_preemptible else self.interactive

    def add_held(self, amounts: Sequence[int], sign: int, *, is_firm: bool) -> None:
        """Count what a pod holds, or holds no longer."""
        held = self.held
        held[0] += sign * amounts[0]
        held[1] += sign * amounts[1]
        held[2] += sign * amounts[2]
        if is_firm:
            firm = self.firm
            firm[0] += sign * amounts[0]
            firm[1] += sign * amounts[1]
            firm[2] += sign * amounts[2]
        self.version += 1

    def add_waiting(self, amounts: Sequence[int], sign: int) -> None:
        """Count what a pod waits for, or waits for no longer."""
        waiting = self.waiting
        waiting[0] += sign * amounts[0]
        waiting[1] += sign * amounts[1]
        waiting[2] += sign * amounts[2]

    def requested(self, resource: int) -> float:
        """Return what the jobs of the queue hold and wait for."""
        return self.held[resource] + self.waiting[resource]


def build_queues(views: Sequence[QueueView]) -> dict[str, QueueState]:
    """Return the queues by id, each linked to its parent and children."""
    by_id = {view.id: view for view in views}
    built: dict[str, QueueState] = {}

    def build(view: QueueView) -> QueueState:
        if view.id not in built:
            parent = build(by_id[view.parent_id]) if view.parent_id in by_id and view.parent_id is not None else None
            built[view.id] = QueueState(view, parent)
        return built[view.id]

    for view in sorted(views, key=lambda queue: (queue.rank, queue.id)):
        build(view)
    return built


def share_out(queues: dict[str, QueueState], total: Sequence[float], *, usage_pull: float = 0.0) -> None:
    """Give every queue its fair share: the total among the topmost, each one's share among its children."""
    _divide([queue for queue in queues.values() if queue.parent is None], total, usage_pull)


def shares_if_all_ask(views: Sequence[QueueView], total_milli: int, *, usage_pull: float) -> dict[str, int]:
    """Return by its id the GPUs that each queue would have if all asked for more than there is, in thousandths."""
    queues = build_queues(views)
    for queue in queues.values():
        queue.waiting[GPU] = total_milli
    share_out(queues, [total_milli, 0, 0], usage_pull=usage_pull)
    return {queue.view.id: int(queue.fair[GPU]) for queue in queues.values()}


def _divide(siblings: list[QueueState], total: Sequence[float], usage_pull: float) -> None:
    if not siblings:
        return
    for resource, unit in enumerate(UNITS):
        claims = [
            ShareRequest(
                queue.view.id,
                queue.view.quota[resource],
                int(min(queue.limit[resource], queue.requested(resource))),
                queue.view.weights[resource],
                (queue.view.rank, queue.view.id),
                queue.view.priority,
                queue.view.used[resource],
            )
            for queue in siblings
        ]
        shares = divide(int(total[resource]), claims, unit=unit, usage_pull=usage_pull)
        for queue in siblings:
            queue.fair[resource] = shares[queue.view.id]
            ceiling = max(inf if queue.view.quota[resource] is None else queue.quota[resource], queue.fair[resource])
            queue.may_hold[resource] = min(queue.limit[resource], ceiling)
    for queue in siblings:
        _divide(queue.children, queue.fair, usage_pull)


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """What one queue may count on and asks for. `quota` None is without bound; equal claims go by `rank`.

    `used` is the queue's part (0 to 1) of what was used lately, where past use counts.
    """

    queue_id: str
    quota: int | None
    requested: int
    weight: float
    rank: tuple[object, ...] = ()
    priority: int = 100
    used: float = 0.0


def divide(total: int, claims: Sequence[ShareRequest], *, unit: int = 1, usage_pull: float = 0.0) -> dict[str, int]:
    """Return each queue's fair share of `total`: never more than it requests.

    Quotas are given even when they add up to more than there is; then nothing is left to divide by weight.
    """
    shares = {claim.queue_id: min(claim.requested, total if claim.quota is None else claim.quota) for claim in claims}
    return divide_surplus(total - sum(shares.values()), claims, shares, unit=unit, usage_pull=usage_pull)


def divide_surplus(
    pool: int, claims: Sequence[ShareRequest], shares: Mapping[str, int], *, unit: int = 1, usage_pull: float = 0.0
) -> dict[str, int]:
    """Return `shares` raised by what `pool` holds, poured out by weight, higher priorities first.

    What rounding to whole units leaves at one priority is offered to the lower ones; what nobody takes goes unit by
    unit to the largest remainders.
    """
    result = dict(shares)
    ordered = sorted((claim for claim in claims if claim.weight > 0), key=lambda claim: (claim.rank, claim.queue_id))
    ordered.sort(key=lambda claim: -claim.priority)
    crumbs: list[list[tuple[float, ShareRequest]]] = []
    for _, level in groupby(ordered, key=lambda claim: claim.priority):
        pool, remainders = _pour(pool, list(level), result, unit, usage_pull)
        crumbs.append(sorted(remainders, key=lambda pair: -pair[0]))
    for _, claim in (pair for level in crumbs for pair in level):
        given = min(unit, pool, claim.requested - result[claim.queue_id])
        result[claim.queue_id] += given
        pool -= given
    return result


def _pour(
    pool: int, level: list[ShareRequest], result: dict[str, int], unit: int, usage_pull: float
) -> tuple[int, list[tuple[float, ShareRequest]]]:
    """Raise the shares of one priority in rounds; return the rest, and which request was rounded down by how much."""
    remainders: dict[str, tuple[float, ShareRequest]] = {}
    while pool > 0 and (level := [claim for claim in level if claim.requested > result[claim.queue_id]]):
        weights = _pulled(level, usage_pull)
        total_weight = sum(weights)
        if total_weight <= 0:
            break
        poured, has_leftover = 0, False
        for claim, weight in zip(level, weights, strict=True):
            missing = claim.requested - result[claim.queue_id]
            fair = pool * weight / total_weight
            given = missing if missing <= fair else floor(fair / unit) * unit
            remainders.pop(claim.queue_id, None)
            if missing > fair > given:
                remainders[claim.queue_id] = (fair - given, claim)
            has_leftover |= missing < fair
            result[claim.queue_id] += given
            poured += given
        pool -= poured
        if not has_leftover:
            break
    return pool, list(remainders.values())


def _pulled(level: list[ShareRequest], usage_pull: float) -> list[float]:
    """Weights, lowered for those who used more than their part lately."""
    if not usage_pull:
        return [claim.weight for claim in level]
    total = sum(claim.weight for claim in level)
    parts = [claim.weight / total for claim in level]
    return [max(0.0, part + usage_pull * (part - claim.used)) for part, claim in zip(parts, level, strict=True)]
