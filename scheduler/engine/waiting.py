"""The waiting jobs by queue and kind, each line in the order of service: cached between cycles, like the victims.

Jobs of one kind can be served alike, so only the head of each line is tried, and a
backlog costs as much as it has kinds.
"""

import bisect
from collections.abc import Iterable, Mapping

from scheduler.engine.jobs import Job
from scheduler.engine.queues import QueueState
from scheduler.engine.shapes import Shape
from scheduler.engine.snapshot import Policy

Key = tuple[object, ...]
Kind = tuple[tuple[Shape, ...], tuple[object, ...]] | None
"""What tells apart what can be done for jobs of one queue; None stands for jobs that are unlike all others."""

Line = list[tuple[Key, Job]]
Lines = Mapping[QueueState, Mapping[Kind, Line]]


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
