"""When the resources come back that a waiting job needs: from the known ends of the jobs that hold them.

This is no forecast of its start: other jobs may be served first.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.units import ONE_GPU


@dataclass(frozen=True)
class Amounts:
    """What a job asks for, or what a node has. `gpu_milli` is below 1000 for a part of one device."""

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: int


@dataclass(frozen=True)
class Holding:
    """What a job holds on a node: `gpus` are pairs of device and thousandths. `ends_at` None: nobody knows."""

    job_id: str
    node: str
    cpu_millicores: int
    memory_bytes: int
    gpus: Sequence[Sequence[int]]
    ends_at: datetime | None


@dataclass(frozen=True)
class Release:
    """From when on a node has what is asked for, and the holdings that have ended by then, in their order."""

    node: str
    ends_at: datetime
    holdings: Sequence[Holding]


def find_release(ask: Amounts, nodes: Iterable[tuple[str, Amounts]], holdings: Sequence[Holding]) -> Release | None:
    """Return the first release of what is asked for; None where it is free already, or no known end frees it."""
    releases = []
    for name, amounts in sorted(nodes, key=lambda node: node[0]):
        release = _on_node(ask, name, amounts, [holding for holding in holdings if holding.node == name])
        if release is not None:
            releases.append(release)
    return min(releases, key=lambda release: release.ends_at, default=None)


def _on_node(ask: Amounts, name: str, amounts: Amounts, holdings: Sequence[Holding]) -> Release | None:
    held = list(holdings)
    if fits(ask, amounts, held):
        return None
    ending = sorted((holding for holding in held if holding.ends_at is not None), key=_end_of)
    for count, holding in enumerate(ending, start=1):
        held.remove(holding)
        if fits(ask, amounts, held):
            return Release(name, _end_of(holding), ending[:count])
    return None


def _end_of(holding: Holding) -> datetime:
    assert holding.ends_at is not None  # noqa: S101 (those without an end are left out before)
    return holding.ends_at


def fits(ask: Amounts, amounts: Amounts, held: Sequence[Holding]) -> bool:
    """Whether a node has what is asked for beside what is held there."""
    if ask.cpu_millicores > amounts.cpu_millicores - sum(holding.cpu_millicores for holding in held):
        return False
    if ask.memory_bytes > amounts.memory_bytes - sum(holding.memory_bytes for holding in held):
        return False
    used: Counter[int] = Counter()
    for holding in held:
        for device, milli in holding.gpus:
            used[device] += milli
    if ask.gpu_milli < ONE_GPU:
        free = max((ONE_GPU - used[device] for device in range(amounts.gpu_milli // ONE_GPU)), default=0)
        return ask.gpu_milli <= free
    idle = sum(used[device] == 0 for device in range(amounts.gpu_milli // ONE_GPU))
    return ask.gpu_milli <= ONE_GPU * idle


def count_empty(ask: Amounts, amounts: Amounts) -> int:
    """Return how many times a node has what is asked for, were it empty."""
    if ask.gpu_milli < ONE_GPU:
        gpus = (amounts.gpu_milli // ONE_GPU) * (ONE_GPU // ask.gpu_milli) if ask.gpu_milli else math.inf
    else:
        gpus = amounts.gpu_milli // ask.gpu_milli
    return int(min(amounts.cpu_millicores // ask.cpu_millicores, amounts.memory_bytes // ask.memory_bytes, gpus))
