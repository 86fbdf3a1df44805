"""The queues of a cycle: what each holds, may hold, and should hold, from departments down to projects."""

from collections.abc import Sequence
from math import inf

from core.units import ONE_GPU
from scheduler.engine.rules.fair_share import ShareRequest, divide
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
