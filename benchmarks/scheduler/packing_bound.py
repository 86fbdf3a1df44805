"""The most GPU that any placement could have served: a linear program over patterns of shares on a device.

It knows nodes only as classes of equals: cores and memory of a class are one pool, its devices are cut by patterns,
and no more pods of at least k devices fit than its nodes have groups of k. So it promises at least what is possible.

Pods without GPUs take cores and memory beside free devices, and no policy may refuse one that fits. So the bound is
told which of them a policy has served: it has to serve as many of each kind too, where it likes. What remains between
a policy and its bound is then lost by where pods were put, not by what was asked for.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from benchmarks.scheduler.openb import Kind, Machine

Shape = tuple[str, int, int, int]
"""A class of nodes: model, GPUs, cores, memory."""

Pattern = tuple[tuple[int, int], ...]
"""How a device is cut: sizes, and how many of each."""

_GROUPS = (2, 4, 8)
_TOLERANCE = 1e-3
_PARTS = 100


def most_gpus(machines: Sequence[Machine], arrived: Sequence[Kind], beside: Sequence[Kind] = ()) -> float:
    """Return an upper bound of the GPUs, in thousandths, that the pods which arrived could hold at once.

    They hold them beside other pods, without GPUs, that all have to be served; those which arrived are left out.
    """
    shapes = Counter((machine.model, machine.gpus, machine.cpu, machine.memory) for machine in machines)
    counts = Counter(kind for kind in arrived if kind.gpus)
    program = _Program(shapes, sorted({kind.milli for kind in counts if kind.milli < 1000}))
    for kind, count in counts.items():
        program.add_kind(kind, count)
    for kind, count in Counter(beside).items():
        program.add_kind(kind, count, all_served=True)
    while True:
        most, duals = program.solve()
        if not program.add_better_patterns(duals):
            return most


class _Program:
    """Maximise what is gained within limits, built up entry by entry; patterns join as they prove useful."""

    def __init__(self, shapes: Counter[Shape], sizes: Sequence[int]) -> None:
        self.shapes, self.sizes = shapes, sizes
        self.entries: list[tuple[int, int, float]] = []
        self.limits: list[float] = []
        self.gains: list[float] = []
        self.cpu = {shape: self._limit(shape[2] * number) for shape, number in shapes.items()}
        self.memory = {shape: self._limit(shape[3] * number) for shape, number in shapes.items()}
        self.devices = {shape: self._limit(shape[1] * number) for shape, number in shapes.items()}
        self.groups = {(s, k): self._limit(s[1] // k * number) for s, number in shapes.items() for k in _GROUPS}
        self.shares = {(shape, size): self._limit(0) for shape in shapes for size in sizes}
        self.known: set[tuple[Shape, Pattern]] = set()
        for shape in shapes:
            for size in sizes:
                self._add_pattern(shape, ((size, 1000 // size),))

    def add_kind(self, kind: Kind, count: int, *, all_served: bool = False) -> None:
        """Let up to `count` pods of a kind, or just so many, be served by any class where one of them fits."""
        arrived = self._limit(count)
        unserved = self._limit(-count) if all_served else None
        for shape in self.shapes:
            model, gpus, cpu, memory = shape
            is_allowed = not kind.models or model in kind.models
            if not is_allowed or kind.gpus > gpus or kind.cpu > cpu or kind.memory > memory:
                continue
            uses = [(arrived, 1), (self.cpu[shape], kind.cpu), (self.memory[shape], kind.memory)]
            if kind.gpus:
                devices = self.devices[shape] if kind.milli == 1000 else self.shares[shape, kind.milli]
                uses += [(devices, kind.gpus), *((self.groups[shape, k], 1) for k in _GROUPS if kind.gpus >= k)]
            if unserved is not None:
                uses.append((unserved, -1))
            self._add(kind.gpu_milli, uses)

    def solve(self) -> tuple[float, npt.NDArray[np.float64]]:
        """Return the most that is gained, and what one more of each limit would add."""
        rows, columns, values = zip(*self.entries, strict=True)
        matrix = coo_matrix((values, (rows, columns)), shape=(len(self.limits), len(self.gains)))
        solved = linprog(-np.array(self.gains), A_ub=matrix.tocsr(), b_ub=self.limits, method="highs")
        return float(-solved.fun), -solved.ineqlin.marginals

    def add_better_patterns(self, duals: npt.NDArray[np.float64]) -> bool:
        """Add for each class the pattern worth more than its device; return whether there was a new one."""
        before = len(self.known)
        for shape, device in self.devices.items():
            worth = [float(duals[self.shares[shape, size]]) for size in self.sizes]
            total, pattern = _best_pattern(self.sizes, worth)
            if total > duals[device] + _TOLERANCE:
                self._add_pattern(shape, pattern)
        return len(self.known) > before

    def _add_pattern(self, shape: Shape, pattern: Pattern) -> None:
        if (shape, pattern) not in self.known:
            self.known.add((shape, pattern))
            cut = [(self.shares[shape, size], -number) for size, number in pattern]
            self._add(0, [(self.devices[shape], 1), *cut])

    def _add(self, gain: float, uses: Iterable[tuple[int, float]]) -> None:
        column = len(self.gains)
        self.gains.append(float(gain))
        self.entries.extend((row, column, float(value)) for row, value in uses)

    def _limit(self, limit: float) -> int:
        self.limits.append(float(limit))
        return len(self.limits) - 1


def _best_pattern(sizes: Sequence[int], worth: Sequence[float]) -> tuple[float, Pattern]:
    """Return the dearest set of shares that a device can serve: a knapsack, sizes in hundredths rounded down."""
    best, last = [0.0] * (_PARTS + 1), [-1] * (_PARTS + 1)
    for capacity in range(1, _PARTS + 1):
        best[capacity] = best[capacity - 1]
        for index, size in enumerate(sizes):
            rest = capacity - size * _PARTS // 1000
            if 0 <= rest < capacity and best[rest] + worth[index] > best[capacity] + 1e-12:
                best[capacity], last[capacity] = best[rest] + worth[index], index
    chosen: Counter[int] = Counter()
    capacity = _PARTS
    while capacity > 0:
        if last[capacity] < 0:
            capacity -= 1
        else:
            size = sizes[last[capacity]]
            chosen[size] += 1
            capacity -= size * _PARTS // 1000
    return best[_PARTS], tuple(sorted(chosen.items()))
