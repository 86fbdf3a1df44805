"""The policies that packing is compared with, as the FGD paper's simulator scores them (USENIX ATC 2023).

Scores are whole numbers from 0 to 100 and ties go to the first node of an order that is random for each seed: both
are part of the published results. Scores are remembered for each kind of pod and renewed for nodes that changed.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.scheduler.openb import Kind, Machine

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SLOTS = 8
_MOST_PODS = 1001
_CPU_UNIT, _GPU_UNIT = 128_000, 8_000


class Cluster:
    """The free capacity of all nodes; a device that does not exist is a full one."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.models = [machine.model for machine in machines]
        self.cpu = np.array([machine.cpu for machine in machines])
        self.memory = np.array([machine.memory for machine in machines])
        self.pods = np.zeros(len(machines), np.int64)
        self.left = np.array([[1000] * machine.gpus + [0] * (_SLOTS - machine.gpus) for machine in machines])
        self._allowed: dict[frozenset[str], npt.NDArray[np.bool_]] = {}

    def allows(self, models: frozenset[str]) -> npt.NDArray[np.bool_]:
        """Return which nodes have one of the models."""
        if models not in self._allowed:
            self._allowed[models] = np.array([not models or model in models for model in self.models])
        return self._allowed[models]

    def fits(self, kind: Kind, at: Ints) -> npt.NDArray[np.bool_]:
        """Return at which of some nodes a pod fits."""
        fits = (self.cpu[at] >= kind.cpu) & (self.memory[at] >= kind.memory) & (self.pods[at] < _MOST_PODS)
        if not kind.gpus:
            return fits
        return fits & self.allows(kind.models)[at] & ((self.left[at] >= kind.milli).sum(1) >= kind.gpus)

    def take(self, kind: Kind, node: int, device: int) -> None:
        """Put a pod on a node; a share on that device, whole devices on the first free ones."""
        self.cpu[node] -= kind.cpu
        self.memory[node] -= kind.memory
        self.pods[node] += 1
        if kind.gpus > 1 or kind.milli == 1000:
            self.left[node, np.flatnonzero(self.left[node] == 1000)[: kind.gpus]] = 0
        elif kind.gpus:
            self.left[node, device] -= kind.milli


class Peer:
    """A policy: the best node by a score of each, and the tightest device there."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._scores: dict[Kind, tuple[Ints, int]] = {}
        self._changed: list[int] = []

    def place(self, kind: Kind) -> bool:
        """Place a pod; return whether it fitted anywhere."""
        node = self.choose(self._renewed(kind))
        if node is None:
            return False
        self.cluster.take(kind, node, self.device(kind, node) if kind.gpus == 1 else 0)
        self._changed.append(node)
        self.touched(node)
        return True

    def _renewed(self, kind: Kind) -> Ints:
        scores, seen = self._scores.get(kind, (None, 0))
        if scores is None:
            scores = self._score_where_it_fits(kind, np.arange(len(self.cluster.cpu)))
        else:
            stale = np.array(list(set(self._changed[seen:])), np.int64)
            scores[stale] = self._score_where_it_fits(kind, stale)
        self._scores[kind] = scores, len(self._changed)
        return scores

    def _score_where_it_fits(self, kind: Kind, at: Ints) -> Ints:
        result = np.full(len(at), -1, np.int64)
        fits = self.cluster.fits(kind, at)
        if fits.any():
            result[fits] = self.score(kind, at[fits])
        return result

    def score(self, kind: Kind, at: Ints) -> Ints:
        """Return how good some nodes are, on each of which it fits; never negative."""
        del kind
        return np.zeros(len(at), np.int64)

    def choose(self, scores: Ints) -> int | None:
        """Return the first of the best nodes."""
        best = int(scores.argmax())
        return best if scores[best] >= 0 else None

    def device(self, kind: Kind, node: int) -> int:
        """Return the device for a share: the one it fills most."""
        left = self.cluster.left[node]
        return int(np.where(left >= kind.milli, left, 2000).argmin())

    def touched(self, node: int) -> None:
        """Hear that a node changed."""


class FirstFit(Peer):
    """The first node of the order where it fits."""


class Random(Peer):
    """Any node where it fits, and any device there."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.chance = np.random.default_rng(len(cluster.cpu))

    def choose(self, scores: Ints) -> int | None:
        """Return one of the nodes where it fits."""
        fitting = np.flatnonzero(scores >= 0)
        return int(self.chance.choice(fitting)) if len(fitting) else None

    def device(self, kind: Kind, node: int) -> int:
        """Return one of the devices where it fits."""
        return int(self.chance.choice(np.flatnonzero(self.cluster.left[node] >= kind.milli)))


class BestFit(Peer):
    """The node with the least left afterwards, cores and devices weighed alike, on a scale from worst to best."""

    def score(self, kind: Kind, at: Ints) -> Ints:
        """Return the part of the node that is taken afterwards."""
        cpu = (self.cluster.cpu[at] - kind.cpu) / _CPU_UNIT
        gpu = (self.cluster.left[at].sum(1) - kind.gpu_milli) / _GPU_UNIT
        return np.trunc(100 * (1 - 0.5 * cpu - 0.5 * gpu)).astype(np.int64)

    def choose(self, scores: Ints) -> int | None:
        """Return the best on a scale that begins with the worst that fits."""
        fits = scores >= 0
        if not fits.any():
            return None
        low, high = scores[fits].min(), scores.max()
        return (
            int(np.where(fits, (scores - low) * 100 // (high - low), -1).argmax()) if high > low else int(fits.argmax())
        )


class DotProduct(Peer):
    """The node whose free capacity is least like the request."""

    def score(self, kind: Kind, at: Ints) -> Ints:
        """Return how little of its free capacity is what the pod asks much of."""
        cpu = self.cluster.cpu[at] / _CPU_UNIT * (kind.cpu / _CPU_UNIT)
        gpu = self.cluster.left[at].sum(1) / _GPU_UNIT * (kind.gpu_milli / _GPU_UNIT)
        return np.trunc(100 * (1 - (cpu + gpu) / 2)).astype(np.int64)


class Fgd(Peer):
    """Fragmentation gradient descent: least growth of what the usual pods cannot use."""

    def __init__(self, cluster: Cluster, pods: Sequence[Kind]) -> None:
        super().__init__(cluster)
        usual = _usual(pods)
        self.chances = np.array([count for _, count in usual], float)
        self.chances /= self.chances.sum()
        kinds = [kind for kind, _ in usual]
        self.sizes, self.size_of = np.unique([kind.milli for kind in kinds], return_inverse=True)
        self.counts = np.array([kind.gpus for kind in kinds])
        self.cores = np.array([kind.cpu for kind in kinds])
        self.allowed = np.array([cluster.allows(kind.models) for kind in kinds]).T
        self.now = self._fragments(np.arange(len(cluster.cpu)), cluster.cpu, cluster.left)

    def touched(self, node: int) -> None:
        """Renew the fragmentation of the node."""
        at = np.array([node])
        self.now[at] = self._fragments(at, self.cluster.cpu[at], self.cluster.left[at])

    def score(self, kind: Kind, at: Ints) -> Ints:
        """Return the score of the best device of each node."""
        return self._scores_by_device(kind, at).max(1)

    def device(self, kind: Kind, node: int) -> int:
        """Return the device with the best score."""
        if kind.milli == 1000:
            return super().device(kind, node)
        return int(self._scores_by_device(kind, np.array([node]))[0].argmax())

    def _scores_by_device(self, kind: Kind, at: Ints) -> Ints:
        cpu, left = self.cluster.cpu[at] - kind.cpu, self.cluster.left[at]
        if kind.gpus == 1 and kind.milli < 1000:
            rows, devices = np.nonzero(left >= kind.milli)
            after = left[rows]
            after[np.arange(len(rows)), devices] -= kind.milli
        else:
            rows, devices = np.arange(len(at)), np.zeros(len(at), np.int64)
            is_free = left == 1000
            after = np.where(is_free & (is_free.cumsum(1) <= kind.gpus), 0, left) if kind.gpus else left
        grown = self._fragments(at[rows], cpu[rows], after) - self.now[at[rows]]
        scores = np.full((len(at), _SLOTS), -1, np.int64)
        scores[rows, devices] = np.trunc(100 / (1 + np.exp(grown / 1000))).astype(np.int64)
        return scores

    def _fragments(self, at: Ints, cpu: Ints, left: Ints) -> Floats:
        """Return the thousandths of devices that an average pod cannot use, for nodes in a certain state."""
        fits = left[:, :, None] >= self.sizes
        total = left.sum(1)
        too_small = total[:, None] - np.einsum("ndk,nd->nk", fits, left)
        usable = (
            (self.counts > 0)
            & self.allowed[at]
            & (cpu[:, None] >= self.cores)
            & (fits.sum(1)[:, self.size_of] >= self.counts)
        )
        return np.where(usable, too_small[:, self.size_of], total[:, None]) @ self.chances


def _usual(pods: Sequence[Kind]) -> list[tuple[Kind, int]]:
    """Return the commonest kinds, whatever their memory, that make up 95 % of the pods."""
    counts = Counter(Kind(pod.cpu, 0, pod.gpus, pod.milli, pod.models) for pod in pods)
    usual: list[tuple[Kind, int]] = []
    covered = 0
    for kind, count in counts.most_common():
        if covered >= 0.95 * len(pods):
            break
        usual.append((kind, count))
        covered += count
    return usual


PEERS: dict[str, Callable[[Cluster, Sequence[Kind]], Peer]] = {
    "random": lambda cluster, _: Random(cluster),
    "first-fit": lambda cluster, _: FirstFit(cluster),
    "best-fit": lambda cluster, _: BestFit(cluster),
    "dot-product": lambda cluster, _: DotProduct(cluster),
    "FGD": Fgd,
}
