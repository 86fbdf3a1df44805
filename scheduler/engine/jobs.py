"""The jobs of a cycle: their pods, how many of each pod set are up, and which pods come next."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from scheduler.engine.ledger import ACTIVE, HOLDING, NodeLedger
from scheduler.engine.queues import QueueState
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import GroupView, JobView, PodSetView, PodState, PodView, Request

_ELASTIC = 2
_ARRIVING = frozenset({PodState.STARTING, PodState.RESERVED})


@dataclass(slots=True, eq=False)
class Pod:
    """The state of one pod in this cycle. `moved_from` names the node and devices it was moved from."""

    view: PodView
    job: "Job"
    pod_set: "PodSet"
    state: PodState
    shape: Shape
    node: NodeLedger | None = None
    devices: tuple[str, ...] = ()
    moved_from: tuple[str, tuple[str, ...]] | None = None

    @property
    def id(self) -> str:
        """The name of the pod."""
        return self.view.id

    @property
    def was_evicted(self) -> bool:
        """Whether this cycle evicts it."""
        return self.state is PodState.TERMINATING and self.view.state is not PodState.TERMINATING

    def was_evicted_from_slices(self) -> bool:
        """Return whether this cycle evicts it from slices, to which only it may go back."""
        return self.was_evicted and self.node is not None and self.node.geometry is not None

    def urgency(self) -> tuple[bool, int, str]:
        """Return its place among the pods of its pod set, most urgent first."""
        urgency = self.view.urgency
        return urgency is None, 0 if urgency is None else -urgency, self.view.id


@dataclass(slots=True, eq=False)
class PodSet:
    """The pods of one kind."""

    view: PodSetView
    pods: list[Pod] = field(default_factory=list)
    active: int = 0
    reserved: int = 0

    @property
    def up(self) -> int:
        """How many pods run, start or have a reservation."""
        return self.active + self.reserved

    def is_satisfied(self) -> bool:
        """Return whether its minimum is up."""
        return self.active + self.reserved >= self.view.min_available

    def ratio(self) -> tuple[bool, float]:
        """Return how much it needs pods: those below their minimum first, then the emptier one."""
        least, up = self.view.min_available, self.active + self.reserved
        return up >= least, up / least if least else float(up)

    def available(self, *, retrial: bool) -> list[Pod]:
        """Return the pods that wait (in a trial also those that the trial evicted), most urgent first."""
        return [pod for pod in self.pods if pod.state is PodState.PENDING or (retrial and pod.was_evicted)]


@dataclass(slots=True, eq=False)
class Group:
    """Pod sets and groups of which `least` are needed."""

    view: GroupView
    children: "list[Group | PodSet]"
    least: int

    def is_satisfied(self) -> bool:
        """Return whether enough of its children have their minimum."""
        return sum(child.is_satisfied() for child in self.children) >= self.least

    def ratio(self) -> tuple[bool, float]:
        """Return how much it needs pods, as its children do."""
        satisfied = sum(child.is_satisfied() for child in self.children)
        return satisfied >= self.least, satisfied / self.least if self.least else float(satisfied)

    def pod_sets(self) -> Iterator[PodSet]:
        """Walk over all pod sets below."""
        for child in self.children:
            if isinstance(child, Group):
                yield from child.pod_sets()
            else:
                yield child


class Job:
    """The state of a job in this cycle."""

    __slots__ = ("_single", "holding", "line", "pod_sets", "pods", "queue", "reserved", "root", "view", "waiting")

    def __init__(self, view: JobView, queue: QueueState, shape_of: Callable[[Request], Shape]) -> None:
        self.view = view
        self.queue = queue
        self.line = queue.line
        self.holding = 0
        self.reserved = 0
        self.waiting = 0
        self.pod_sets: dict[str, PodSet] = {}
        self.root = self._build(view.structure)
        self.pods: list[Pod] = []
        only = next(iter(self.pod_sets.values()))
        for pod_view in sorted(view.pods, key=_id) if len(view.pods) > 1 else view.pods:
            pod_set = self.pod_sets.get(pod_view.pod_set, only)
            pod = Pod(pod_view, self, pod_set, PodState.PENDING, shape_of(pod_view.request))
            pod_set.pods.append(pod)
            self.pods.append(pod)
        for pod_set in self.pod_sets.values():
            pod_set.pods.sort(key=Pod.urgency)
        is_single = len(self.pods) == len(self.pod_sets) == only.view.min_available == self.root.least == 1
        self._single = only if is_single and self.root.children == [only] else None

    def _build(self, view: GroupView) -> Group:
        children: list[Group | PodSet] = []
        for child in view.children:
            if isinstance(child, GroupView):
                children.append(self._build(child))
            else:
                self.pod_sets[child.name] = PodSet(child)
                children.append(self.pod_sets[child.name])
        return Group(view, children, len(children) if view.min_children is None else view.min_children)

    # --- what comes next

    def next_pods(self, *, retrial: bool = False) -> list[Pod]:
        """Return what starts next, all or nothing: the missing minimum, or one pod more where the minimum is up."""
        if not self.waiting and not retrial:
            return []
        if self._single is not None:  # as most jobs are
            return self._single.available(retrial=retrial)
        if not self.root.is_satisfied():
            return _missing(self.root, retrial=retrial) or []
        return _one_more(self.root, retrial=retrial)

    def elasticity(self) -> int:
        """Return 0 below the minimum, 1 exactly at it, 2 above."""
        if self._single is not None:
            return self._single.up
        if not self.root.is_satisfied():
            return 0
        if any(_surplus(pod_set) for pod_set in self.pod_sets.values()):
            return _ELASTIC
        return _ELASTIC if self.root.least < len(self.root.children) and _spare_groups(self.root) else 1

    def order(self, *, by_priority: bool = True) -> tuple[object, ...]:
        """Return its place in its queue: priority, then those below their minimum, then age."""
        return -self.view.priority if by_priority else 0, self.elasticity(), self.view.rank, self.view.id

    # --- what can be taken from it

    def victim_order(self, *, by_priority: bool = True, by_loss: bool = True) -> tuple[object, ...]:
        """Return its place among the victims; the last is evicted first.

        In one priority those beyond their minimum go first, then (`by_loss`) who frees most at once, then who lost its
        place least often, then who was saved last; of whom that is not known goes after them. Without it the order is
        that of service.
        """
        priority, elasticity, *age = self.order(by_priority=by_priority)
        if not by_loss:
            return priority, elasticity, *age
        saved_at = -inf if self.view.saved_at is None else self.view.saved_at
        held = [pod.shape.charge()[0] for pod in self.pods if pod.state in HOLDING]
        size = max(held, default=0) if elasticity == _ELASTIC else sum(held)
        return priority, elasticity, size, -self.view.evictions, saved_at, *age

    def victim_units(self) -> list[list[Pod]]:
        """Return what evictions take, in order: pods beyond the minimum one by one, spare groups, then the rest."""
        if self._single is not None:
            return [list(self.pods)] if self._single.up else []
        left = {pod_set.view.name: [t for t in pod_set.pods if t.state in HOLDING] for pod_set in self._sets()}
        units: list[list[Pod]] = []
        while spare := [p for p in self._sets() if len(left[p.view.name]) > max(p.view.min_available, 0)]:
            fullest = max(spare, key=lambda p: (len(left[p.view.name]) / max(p.view.min_available, 1), p.view.name))
            units.append([left[fullest.view.name].pop()])
        for group in _spare_groups(self.root):
            sets = [group] if isinstance(group, PodSet) else list(group.pod_sets())
            unit = [pod for pod_set in sets for pod in left[pod_set.view.name]]
            if unit:
                units.append(unit)
            for pod_set in sets:
                left[pod_set.view.name] = []
        core = [pod for pod_set in self._sets() for pod in left[pod_set.view.name]]
        return [*units, core] if core else units

    def _sets(self) -> Iterable[PodSet]:
        return self.pod_sets.values()

    def is_whole(self) -> bool:
        """Return whether all that it needs at least is up."""
        return self._single.up > 0 if self._single is not None else self.root.is_satisfied()

    def is_arriving(self) -> bool:
        """Return whether any pod starts or has a reservation."""
        return any(pod.state in _ARRIVING for pod in self.pods)

    def active_pods(self) -> list[Pod]:
        """Return the pods that run or start."""
        return [pod for pod in self.pods if pod.state in ACTIVE]


def _id(pod: PodView) -> str:
    return pod.id


def _surplus(pod_set: PodSet) -> bool:
    return pod_set.active > 0 and pod_set.up > pod_set.view.min_available


def _spare_groups(group: Group) -> "list[Group | PodSet]":
    """Return the children that are up though enough others are, the last first."""
    up = [child for child in group.children if _is_any_up(child)]
    spare = list(reversed(up[group.least :]))
    required = [child for child in up if child not in spare]
    return spare + [deeper for child in required if isinstance(child, Group) for deeper in _spare_groups(child)]


def _is_any_up(child: "Group | PodSet") -> bool:
    return child.up > 0 if isinstance(child, PodSet) else any(pod_set.up for pod_set in child.pod_sets())


def _missing(child: "Group | PodSet", *, retrial: bool) -> list[Pod] | None:
    """Return the pods that bring a group to its minimum, or None where there are too few."""
    if isinstance(child, PodSet):
        needed = child.view.min_available - child.up
        if needed <= 0:
            return []
        waiting = child.available(retrial=retrial)
        return waiting[:needed] if len(waiting) >= needed else None
    unsatisfied = [part for part in child.children if not part.is_satisfied()]
    needed = child.least - (len(child.children) - len(unsatisfied))
    missing: list[Pod] = []
    for part in sorted(unsatisfied, key=_need) if len(unsatisfied) > 1 else unsatisfied:
        if needed <= 0:
            break
        pods = _missing(part, retrial=retrial)
        if pods is not None:
            missing += pods
            needed -= 1
    return missing if needed <= 0 else None


def _need(child: "Group | PodSet") -> tuple[bool, float]:
    return child.ratio()


def _one_more(group: Group, *, retrial: bool) -> list[Pod]:
    for child in sorted(group.children, key=_need):
        if not child.is_satisfied():
            pods = _missing(child, retrial=retrial)
        elif isinstance(child, Group):
            pods = _one_more(child, retrial=retrial)
        else:
            pods = child.available(retrial=retrial)[:1]
        if pods:
            return pods
    return []
