"""Reads what held the GPUs of nodes over time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import Q

from accounts.actor import Actor
from core import clock
from scheduler.models import Node, NodeSpan


@dataclass(frozen=True)
class Share:
    """What a project held of a device, in thousandths."""

    project_id: str
    milli: int


@dataclass(frozen=True)
class Stretch:
    """Neighbouring moments, `first` up to and without `end`, at which a device was held by the same shares."""

    first: int
    end: int
    shares: Sequence[Share]


@dataclass(frozen=True)
class NodeHistory:
    """The devices of a node over time: for each device its stretches, oldest first; none while nothing is known."""

    name: str
    resource: str
    is_simulated: bool
    devices: Sequence[Sequence[Stretch]]


def read_histories(*, actor: Actor, pool: str, past: timedelta, moments: int, most: int) -> list[NodeHistory]:  # noqa: ARG001 (every actor sees nodes)
    """Return what held the GPUs of the first `most` nodes of a pool, at equally spaced moments of the past so long.

    The last moment is now. What held a device between two moments only is not seen, which bounds what is returned.
    """
    now = clock.now()
    times = [now - past / moments * (moments - 1 - number) for number in range(moments)]
    nodes = Node.objects.filter(pool__name=pool, gpus__isnull=False).distinct().order_by("resource_name", "name")
    shown = list(nodes.prefetch_related("gpus")[:most])
    spans: dict[str, list[_Span]] = defaultdict(list)
    lasting = NodeSpan.objects.filter(Q(ends_at=None) | Q(ends_at__gt=times[0]), node__in=shown)
    for node_id, *span in lasting.order_by("begins_at", "pk").values_list("node", "begins_at", "ends_at", "shares"):
        spans[node_id].append(_Span(*span))
    histories = []
    for node in shown:
        held = list(_shares_at(times, spans[node.pk]))
        devices = [list(_stretches(held, gpu.index)) for gpu in sorted(node.gpus.all(), key=lambda gpu: gpu.index)]
        histories.append(NodeHistory(node.name, node.resource_name, node.is_simulated, devices))
    return histories


_Shares = Sequence[tuple[int, str, int]]


@dataclass(frozen=True)
class _Span:
    begins_at: datetime
    ends_at: datetime | None
    shares: _Shares


def _shares_at(times: Sequence[datetime], spans: Sequence[_Span]) -> Iterator[_Shares | None]:
    """Yield for each moment what held the devices of a node; None where that is not known."""
    place = 0
    for moment in times:
        while place < len(spans) and (end := spans[place].ends_at) is not None and end <= moment:
            place += 1
        yield spans[place].shares if place < len(spans) and spans[place].begins_at <= moment else None


def _stretches(held: Sequence[_Shares | None], device: int) -> Iterator[Stretch]:
    of_device = [
        None if shares is None else [Share(project, milli) for index, project, milli in shares if index == device]
        for shares in held
    ]
    end = 0
    for shares, moments in groupby(of_device):
        first, end = end, end + len(list(moments))
        if shares is not None:
            yield Stretch(first, end, shares)
