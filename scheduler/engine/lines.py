"""The jobs of each queue in lines, cached between cycles: those that wait, and the work that may be evicted.

Waiting jobs are in the order of service. Jobs of one kind can be served alike, so only the head of each line is tried,
and a backlog costs as much as it has kinds.

Victims are in the reverse of their order. In the scheduler's own order those are evicted first that free what is needed
with the fewest victims and lose least work. To the letter of the open-sourced Run:AI scheduler it is the reverse of the
order in which they would be served.
"""

import bisect
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import cast

from scheduler.engine.jobs import Job, Pod
from scheduler.engine.queues import QueueState
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import Policy

Key = tuple[object, ...]
Kind = tuple[tuple[Shape, ...], tuple[object, ...]] | None
"""What tells apart what can be done for jobs of one queue; None stands for jobs that are unlike all others."""

Line = list[tuple[Key, Job]]
Lines = Mapping[QueueState, Mapping[Kind, Line]]
Unit = list[Pod]


class WaitingLines:
    """All jobs that wait. Brought up to date only for jobs that changed."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._places: dict[Job, tuple[Kind, Key]] = {}
        self._lines: dict[QueueState, dict[Kind, Line]] = {}
        self._touched: dict[Job, None] = {}

    def touch(self, job: Job) -> None:
        """Note that the place of a job may have changed."""
        self._touched[job] = None

    def settled(self) -> Lines:
        """Return the lines, up to date. They stay as they are until the next call."""
        is_many = len(self._touched) > len(self._places)
        for job in self._touched:
            self._take_out(job)
        for job in self._touched:
            if job.waiting:
                kind, key = self._places[job] = (
                    kind_of(job, self._policy),
                    job.order(by_priority=self._policy.priorities),
                )
                line = self._lines.setdefault(job.queue, {}).setdefault(kind, [])
                if is_many:
                    line.append((key, job))
                else:
                    bisect.insort(line, (key, job), key=_key)
        if is_many:
            _sort(self._lines)
        self._touched.clear()
        return self._lines

    def _take_out(self, job: Job) -> None:
        place = self._places.pop(job, None)
        if place is not None:
            kind, key = place
            kinds = self._lines[job.queue]
            del kinds[kind][bisect.bisect_left(kinds[kind], key, key=_key)]
            if not kinds[kind]:
                del kinds[kind]


def line_up(jobs: Iterable[Job], policy: Policy) -> Lines:
    """Return some jobs in lines."""
    lines: dict[QueueState, dict[Kind, Line]] = {}
    for job in jobs:
        line = lines.setdefault(job.queue, {}).setdefault(kind_of(job, policy), [])
        line.append((job.order(by_priority=policy.priorities), job))
    _sort(lines)
    return lines


def _sort(lines: Lines) -> None:
    for kinds in lines.values():
        for line in kinds.values():
            if len(line) > 1:
                line.sort(key=_key)


def _key(entry: tuple[Key, Job]) -> Key:
    return entry[0]


def kind_of(job: Job, policy: Policy) -> Kind:
    """Return the kind of a job; None where it holds capacity or may not run everywhere."""
    view = job.view
    if job.holding or not all(pod.may_run_anywhere for pod in view.pods):
        return None
    shapes = tuple(pod.shape for pod in job.pods)
    is_guarded = policy.reserves_after(view.waited_s)
    may_claim = view.may_evict, view.claims_at is None
    return shapes, (view.structure, view.pools, view.priority, view.is_preemptible, may_claim, is_guarded)


def may_go_together(kind: Kind, other: Kind) -> bool:
    """Return whether jobs of two kinds may claim capacity in one go: of one pod each they may differ in its sizes."""
    if kind is None or other is None:
        return False
    (shapes, rest), (other_shapes, other_rest) = kind, other
    if len(shapes) == len(other_shapes) == 1:
        return shapes[0].claim == other_shapes[0].claim and rest == other_rest
    return kind == other


class VictimLines:
    """For each queue its preemptible jobs that hold capacity, in order. Updated only for jobs that changed."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._keys: dict[str, Key] = {}
        self._lines: dict[str, list[tuple[Key, Job]]] = {}
        self._touched: dict[str, Job] = {}

    def touch(self, job: Job) -> None:
        """Note that the place of a job may have changed."""
        self._touched[job.view.id] = job

    def of(self, queue: QueueState) -> list[tuple[Key, Job]]:
        """Return the jobs of a queue with their keys, the first victim last."""
        self.settle()
        return self._lines.get(queue.view.id, [])

    def key_of(self, job: Job) -> Key:
        """Return the key of a job as it was when a line was last asked for."""
        return self._keys[job.view.id]

    def settle(self) -> None:
        """Bring the lines up to date with the jobs that were touched."""
        if len(self._touched) > len(self._keys):
            self._sort_anew()
        for job in self._touched.values():
            self._move(job)
        self._touched.clear()

    def _sort_anew(self) -> None:
        """Sort all lines at once, which is quicker than moving many jobs one by one."""
        jobs = {entry[1] for line in self._lines.values() for entry in line} | set(self._touched.values())
        self._lines.clear()
        self._keys = {job.view.id: self._key_of(job) for job in jobs if job.holding}
        for job in jobs:
            if job.holding:
                self._lines.setdefault(job.queue.view.id, []).append((self._keys[job.view.id], job))
        for line in self._lines.values():
            line.sort(key=_key)
        self._touched.clear()

    def _move(self, job: Job) -> None:
        after = self._key_of(job) if job.holding else None
        before = self._keys.pop(job.view.id, None)
        line = self._lines.setdefault(job.queue.view.id, [])
        if before is not None and before != after:
            del line[bisect.bisect_left(line, before, key=_key)]
        if after is not None:
            self._keys[job.view.id] = after
            if before != after:
                bisect.insort(line, (after, job), key=_key)

    def _key_of(self, job: Job) -> Key:
        return job.victim_order(by_priority=self._policy.priorities, by_loss=self._policy.honors_reservations)


class VictimQueue:
    """Units of work that may be evicted, the first victim first: pods of one job that are evicted together.

    Nothing is evicted by taking a unit out, and nothing is looked at before it is asked for. Units of more GPU than
    is wanted of their queue come only after all the others, the smallest of them first.
    """

    def __init__(
        self,
        lines: VictimLines,
        roots: list[QueueState],
        *,
        queue_key: Callable[[QueueState, tuple[float, float, float]], Key],
        charge_all: Callable[[Unit], tuple[int, int, int]],
        has_victims: Callable[[QueueState], bool],
        may_take: Callable[[Job], bool],
        wanted_milli: Callable[[QueueState], float] | None = None,
    ) -> None:
        self._roots = roots
        self._queue_key = queue_key
        self._charge_all = charge_all
        self._may_take = may_take
        self._wanted_milli: dict[str, float] = {}
        self._looks = inf
        self._larger: dict[str, list[tuple[Key, Job]]] = {}
        self._taken: dict[str, tuple[float, float, float]] = {}
        self._lines: dict[str, list[tuple[Key, Job]]] = {}
        self._next: dict[str, int] = {}
        self._begun: dict[str, list[tuple[Key, list[Unit]]]] = {}
        self._fronts: dict[str, tuple[Key, list[Unit]] | None] = {}
        for leaf in _leaves(roots):
            if has_victims(leaf) and (line := lines.of(leaf)):
                self._lines[leaf.view.id] = line
                self._next[leaf.view.id] = len(line) - 1
                if wanted_milli is not None:
                    self._wanted_milli[leaf.view.id] = wanted_milli(leaf) or inf

    def pop(self) -> Unit | None:
        """Take out the next unit, or return None when there is none."""
        leaf = self._worst(self._roots)
        if leaf is None and self._larger:
            self._turn_to_larger()
            leaf = self._worst(self._roots)
        if leaf is None:
            return None
        key, units = self._take_front(leaf)
        unit = units.pop()
        if units:
            elasticity = 2 if len(units) > 1 else 1
            begun = self._begun.setdefault(leaf.view.id, [])
            bisect.insort(begun, ((key[0], elasticity, *key[2:]), units), key=_unit_key)
        amounts = self._charge_all(unit)
        for queue in leaf.line:
            taken = self._taken.get(queue.view.id, (0, 0, 0))
            self._taken[queue.view.id] = (taken[0] + amounts[0], taken[1] + amounts[1], taken[2] + amounts[2])
        return unit

    def look_at_most(self, jobs: int) -> None:
        """Look at so many more jobs only, also if none of them may be taken."""
        self._looks = jobs

    def _worst(self, queues: list[QueueState]) -> QueueState | None:
        """Return the leaf from which the next unit comes."""
        candidates: list[tuple[QueueState, QueueState, Unit]] = []
        for queue in queues:
            leaf = self._worst(queue.children) if queue.children else queue
            if leaf is not None and (front := self._front(leaf)) is not None:
                candidates.append((queue, leaf, front[1][-1]))
        if len(candidates) <= 1:
            return candidates[0][1] if candidates else None
        keys = []
        for queue, _, unit in candidates:
            taken, amounts = self._taken.get(queue.view.id, (0, 0, 0)), self._charge_all(unit)
            less = (taken[0] + amounts[0], taken[1] + amounts[1], taken[2] + amounts[2])
            keys.append(self._queue_key(queue, less))
        return candidates[max(range(len(candidates)), key=keys.__getitem__)][1]

    def _front(self, leaf: QueueState) -> tuple[Key, list[Unit]] | None:
        """Return the next job of a queue with its units: one not touched yet, or one that was begun."""
        queue_id = leaf.view.id
        if queue_id not in self._fronts:
            self._fronts[queue_id] = self._untouched(queue_id)
        fresh, begun = self._fronts[queue_id], self._begun.get(queue_id)
        if begun and (fresh is None or begun[-1][0] > fresh[0]):
            return begun[-1]
        return fresh

    def _take_front(self, leaf: QueueState) -> tuple[Key, list[Unit]]:
        front = self._front(leaf)
        assert front is not None  # noqa: S101 (the caller has seen one)
        if front is self._fronts[leaf.view.id]:
            del self._fronts[leaf.view.id]
        else:
            self._begun[leaf.view.id].pop()
        return front

    def _untouched(self, queue_id: str) -> tuple[Key, list[Unit]] | None:
        line, wanted_milli = self._lines.get(queue_id), self._wanted_milli.get(queue_id, inf)
        while line is not None and self._next[queue_id] >= 0:
            key, job = line[self._next[queue_id]]
            if wanted_milli < inf and key[:3] > (most := (*key[:2], wanted_milli)):
                self._set_aside(queue_id, line, bisect.bisect_right(line, most, key=_size_key))
                continue
            if self._looks <= 0:
                return None
            self._looks -= 1
            self._next[queue_id] -= 1
            if self._may_take(job) and (units := job.victim_units()):
                return key, units[::-1]
        return None

    def _set_aside(self, queue_id: str, line: list[tuple[Key, Job]], first: int) -> None:
        """Set aside jobs that hold more than is needed: they are adjacent, so they are skipped in one step."""
        self._larger.setdefault(queue_id, []).extend(line[first : self._next[queue_id] + 1])
        self._next[queue_id] = first - 1

    def _turn_to_larger(self) -> None:
        """Continue with the jobs that were set aside."""
        self._wanted_milli.clear()
        self._lines, self._larger = self._larger, {}
        self._next = {queue_id: len(line) - 1 for queue_id, line in self._lines.items()}
        self._fronts.clear()
        for line in self._lines.values():
            line.sort(key=_smallest_last)


def _size_key(entry: tuple[Key, Job]) -> Key:
    return entry[0][:3]


def _smallest_last(entry: tuple[Key, Job]) -> Key:
    priority, elasticity, size_milli, *rest = entry[0]
    return priority, elasticity, -cast("int", size_milli), *rest


def _unit_key(entry: tuple[Key, list[Unit]]) -> Key:
    return entry[0]


def _leaves(queues: list[QueueState]) -> list[QueueState]:
    return [leaf for queue in queues for leaf in (_leaves(queue.children) if queue.children else [queue])]
