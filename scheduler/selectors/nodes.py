"""Reads about nodes: what is there, and what holds it now and over time. Every signed-in person may see them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import Prefetch, Q, QuerySet

from accounts.permissions import Actor
from core import clock
from scheduler.engine.ledger import NodeLedger
from scheduler.engine.mig import find_geometry
from scheduler.engine.snapshot import PodSet
from scheduler.errors import NodeNotFound
from scheduler.models import Gpu, Node, NodeSpan, Placement
from scheduler.selectors import snapshots


@dataclass(frozen=True)
class Held:
    """What the workloads on a node hold; `gpu_milli` maps a device's index to the thousandths of it that are held."""

    cpu_millicores: int
    memory_bytes: int
    gpu_milli: Mapping[int, int]


def list_nodes(*, actor: Actor, resource: str | None = None) -> QuerySet[Node]:  # noqa: ARG001 (every actor sees them)
    """Return nodes with their pool, devices and placements at hand, newest first; those of one resource where asked."""
    # Of workloads and placements only what is shown: there may be thousands of them.
    placements = Placement.objects.select_related("workload").only(
        "node_id", "cpu_millicores", "memory_bytes", "gpus", "workload__project_id"
    )
    nodes = Node.objects.select_related("pool").order_by("-pk")
    nodes = nodes.prefetch_related("gpus", Prefetch("placements", placements))
    return nodes if resource is None else nodes.filter(resource_name=resource)


def find_simulated_pools() -> frozenset[str]:
    """Return the names of the pools in which some nodes are simulated."""
    pools = Node.objects.filter(is_simulated=True, pool__isnull=False).order_by()
    return frozenset(pools.values_list("pool__name", flat=True).distinct())


def describe_unservable(*, resource_id: str, resource: str, pods: PodSet, pool: str = "") -> str:
    """Say why no node of a resource could ever run such pods, were it empty; empty: one could, or no node is known.

    Only nodes in the pool with this name count, if it is named.
    """
    nodes = Node.objects.filter(resource_id=resource_id)
    views = snapshots.view_nodes(nodes.filter(pool__name=pool) if pool else nodes)
    request = snapshots.request_of_pods(pods.to_json())
    if not views or any(NodeLedger(view, 0, []).fits(request, now=True) for view in views):
        return ""
    if request.node_labels is not None and not any(view.bears(request.node_labels) for view in views):
        labels = " or ".join(sorted(f"{key}={value}" for key, value in request.node_labels))
        return f"No node of {resource} has the label {labels}."
    if not any(view.admits(request) for view in views):
        if not any(request.selector <= view.labels.items() for view in views):
            labels = " and ".join(f"{key}={value}" for key, value in sorted(request.selector))
            return f"No node of {resource} has {labels}, which the template asks for."
        return f"The template does not tolerate the taints of the nodes of {resource} that are for it."
    if pods.mig_profile:
        return f"No node of {resource} can give a slice {pods.mig_profile} of a GPU to such a job."
    return f"No node of {resource} is large enough for the job, even when it is empty."


def can_be_cut(model: str, memory_bytes: int) -> bool:
    """Whether it is known how a GPU of a model, with so much memory, is cut into slices (MIG)."""
    return find_geometry(model, memory_bytes >> 20) is not None


def list_levels(resource_id: str) -> frozenset[str]:
    """Return the labels that the nodes of a resource have: by them pods can be kept together."""
    rows = Node.objects.filter(resource_id=resource_id).order_by().values_list("labels", flat=True)
    return frozenset(key for labels in rows for key in labels)


def list_devices(*, resource_id: str, names: Collection[str]) -> dict[str, list[Gpu]]:
    """Return the GPUs of nodes of a resource, by the names of the nodes."""
    devices: dict[str, list[Gpu]] = {}
    rows = Gpu.objects.filter(node__resource_id=resource_id, node__name__in=names).order_by("node", "index")
    for gpu in rows.select_related("node"):
        devices.setdefault(gpu.node.name, []).append(gpu)
    return devices


def get_node(*, actor: Actor, node_id: str) -> Node:
    """Return a node. Raises NodeNotFound."""
    node = list_nodes(actor=actor).filter(pk=node_id).first()
    if node is None:
        raise NodeNotFound(f"There is no node '{node_id}'.")
    return node


def held_on(node: Node) -> Held:
    """Return what is held on a node that `list_nodes` returned."""
    placements = list(node.placements.all())
    gpus: Counter[int] = Counter()
    for placement in placements:
        for index, milli in placement.gpus:
            gpus[index] += milli
    return Held(
        cpu_millicores=sum(placement.cpu_millicores for placement in placements),
        memory_bytes=sum(placement.memory_bytes for placement in placements),
        gpu_milli=gpus,
    )


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
