"""What drivers report of the nodes of compute resources."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from core import tasks
from core.taints import Taint
from scheduler.engine.snapshot import MigStrategy
from scheduler.models import Gpu, Node, Placement, PoolResource
from scheduler.services import pool_members

__all__ = ["GpuReport", "MigStrategy", "NodeReport"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class GpuReport:
    """One device of a node. `index` is what a job is given to find it; unique on its node."""

    index: int
    uuid: str
    model: str
    memory_bytes: int


@dataclass(frozen=True)
class NodeReport:
    """What one node offers to workloads. With `mixed` slices `mig` maps profiles to their numbers."""

    name: str
    cpu_millicores: int
    memory_bytes: int
    gpus: Sequence[GpuReport] = ()
    is_ready: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    max_pods: int | None = None
    mig_strategy: MigStrategy = MigStrategy.OFF
    mig: Mapping[str, int] = field(default_factory=dict)


@transaction.atomic
def report_nodes(*, resource_id: str, resource_name: str, is_simulated: bool, nodes: Sequence[NodeReport]) -> None:
    """Make the nodes of a resource what its driver just saw; a report that says nothing new writes nothing.

    A node that is missing from the report is forgotten, unless workloads hold capacity on it: then it stays, not ready,
    until they have left and the next report finds it empty.
    """
    known = {node.name: node for node in _lock_nodes(resource_id)}
    pool_id = _pool_of(resource_id, resource_name, nodes, known)
    facts = {report.name: _facts_of(report, resource_name, is_simulated=is_simulated) for report in nodes}
    reported = {
        name: Node(pool_id=pool_id, resource_id=resource_id, name=name, **values) for name, values in facts.items()
    }
    devices = {report.name: _devices_of(report) for report in nodes}
    changed = _update_nodes(known, facts, devices)
    new = [reported[name] for name in sorted(reported.keys() - known.keys())]
    Node.objects.bulk_create(new)
    _create_gpus((node, devices[node.name]) for node in new)
    gone = _retire([known[name] for name in sorted(known.keys() - reported.keys())])
    if new or any(node.is_divided for node in known.values()):
        pool_members.regroup(resource_id)
    if changed or new or gone:
        log.info("scheduler.nodes_changed", resource=resource_name, new=len(new), changed=changed, gone=gone)
        tasks.enqueue_on_commit("scheduler.cycle")


def list_known(resource_ids: Collection[str]) -> Mapping[str, Sequence[Any]]:
    """Return the nodes of each of these resources as they were reported last, all by two statements."""
    known: dict[str, list[Any]] = {resource_id: [] for resource_id in resource_ids}
    for node in _read_nodes(Node.objects.filter(resource_id__in=resource_ids)):
        known[node.resource_id].append(node)
    return known


def says_nothing_new(
    known: Sequence[Any], resource_name: str, nodes: Sequence[NodeReport], *, is_simulated: bool
) -> bool:
    """Whether a report of these nodes would change nothing of those that are known.

    Nodes that labels divide among pools may have to change pools without any news of them.
    """
    reported = {report.name: report for report in nodes}
    return reported.keys() == {node.name for node in known} and not any(
        node.is_divided
        or _find_changed(node, _facts_of(reported[node.name], resource_name, is_simulated=is_simulated))
        or not _has_devices(node, _devices_of(reported[node.name]))
        for node in known
    )


@transaction.atomic
def mark_unreachable(*, resource_id: str) -> None:
    """Note that a resource does not answer: nothing new starts there; what runs there keeps its capacity."""
    lost = [node for node in _lock_nodes(resource_id) if node.is_ready]
    _set_not_ready(lost)
    if lost:
        log.warning("scheduler.resource_unreachable", resource=lost[0].resource_name, nodes=len(lost))
        tasks.enqueue_on_commit("scheduler.cycle")


Facts = Mapping[str, Any]
"""What a report says of a node, by column."""

Device = tuple[int, str, str, int]


def _facts_of(report: NodeReport, resource_name: str, *, is_simulated: bool) -> Facts:
    return {
        "resource_name": resource_name,
        "cpu_millicores": report.cpu_millicores,
        "memory_bytes": report.memory_bytes,
        "is_ready": report.is_ready,
        "is_simulated": is_simulated,
        "labels": dict(report.labels),
        "taints": [list(taint) for taint in report.taints],
        "max_pods": report.max_pods,
        "mig_strategy": report.mig_strategy,
        "mig": dict(report.mig),
    }


def _devices_of(report: NodeReport) -> list[Device]:
    return [(gpu.index, gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in report.gpus]


def _pool_of(resource_id: str, name: str, nodes: Sequence[NodeReport], known: Mapping[str, Node]) -> str:
    """Return the pool of new nodes, whatever their labels; empty: there are none.

    A resource gets its pool with its first GPU.
    """
    have_gpus = {name for name, node in known.items() if node.mig or node.gpus.all()}
    if any((node.gpus or node.mig) and node.name not in have_gpus for node in nodes):
        return pool_members.choose_pool(resource_id=resource_id, name=name)
    if all(node.name in known for node in nodes):
        return ""
    pool_members.ensure_default_pool()
    (members,) = pool_members.read_members([resource_id])
    return members.claims[""]


def _lock_nodes(resource_id: str) -> list[Any]:
    return _read_nodes(Node.objects.select_for_update().filter(resource_id=resource_id))


def _read_nodes(nodes: QuerySet[Node]) -> list[Any]:
    """Return nodes with their GPUs; `is_divided`: labels divide those of the resource among pools."""
    labels = PoolResource.objects.filter(resource_id=OuterRef("resource_id")).exclude(label="")
    return list(nodes.annotate(is_divided=Exists(labels)).order_by("pk").prefetch_related("gpus"))


def _find_changed(node: Node, facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if getattr(node, name) != value}


def _has_devices(node: Node, devices: list[Device]) -> bool:
    return sorted((gpu.index, gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in node.gpus.all()) == sorted(devices)


def _update_nodes(known: Mapping[str, Node], facts: Mapping[str, Facts], devices: Mapping[str, list[Device]]) -> int:
    changed = []
    changed_facts: set[str] = set()
    for name in sorted(known.keys() & facts.keys()):
        node, new_facts = known[name], _find_changed(known[name], facts[name])
        has_same_gpus = _has_devices(node, devices[name])
        if has_same_gpus and not new_facts:
            continue
        changed_facts.update(new_facts)
        for fact, value in new_facts.items():
            setattr(node, fact, value)
        node.revision += 1
        changed.append(node)
        if not has_same_gpus:
            Gpu.objects.filter(node=node).delete()
            _create_gpus([(node, devices[name])])
    if changed:
        # It makes an expression for each node and column, and most often one column has changed, of all nodes.
        Node.objects.bulk_update(changed, [*sorted(changed_facts), "revision"])
    return len(changed)


def _create_gpus(devices_of: Iterable[tuple[Node, list[Device]]]) -> None:
    Gpu.objects.bulk_create(
        Gpu(node=node, index=index, uuid=uuid, model=model, memory_bytes=memory_bytes)
        for node, devices in devices_of
        for index, uuid, model, memory_bytes in devices
    )


def _retire(missing: list[Node]) -> int:
    held = set(Placement.objects.filter(node__in=missing).values_list("node_id", flat=True))
    lost = [node for node in missing if node.pk in held and node.is_ready]
    _set_not_ready(lost)
    forgotten, _ = Node.objects.filter(pk__in=[node.pk for node in missing if node.pk not in held]).delete()
    return len(lost) + forgotten


def _set_not_ready(nodes: list[Node]) -> None:
    if nodes:  # which the caller has locked
        ids = [node.pk for node in nodes]
        Node.objects.filter(pk__in=ids).update(is_ready=False, revision=F("revision") + 1)
