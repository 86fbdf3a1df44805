"""Nodes as pages show them: one cell per GPU, filled by how much of it each project holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accounts.permissions import Actor
from core import units
from scheduler.selectors import nodes, queues

if TYPE_CHECKING:
    from scheduler.models import Node

MAX_NODES = 200
_OTHERS_HUE = 7
OTHERS = (_OTHERS_HUE, "another project")
"""The colour and the words for projects that the actor may not see."""


@dataclass(frozen=True)
class Part:
    """What one project holds of a cell, from `top` over `height`, both of 1000."""

    hue: int
    top: int
    height: int


@dataclass(frozen=True)
class Cell:
    """One device. `note` says in words what its parts show in colour."""

    note: str
    parts: list[Part]


@dataclass(frozen=True)
class NodeView:
    """A node and what is held on it."""

    id: str
    name: str
    resource: str
    is_ready: bool
    is_drained: bool
    is_simulated: bool
    pool: str
    cpu_millicores: int
    cpu_held_millicores: int
    memory_bytes: int
    memory_held_bytes: int
    gpu_model: str
    gpu_memory_bytes: int
    mig: Mapping[str, int]
    labels: Mapping[str, str]
    gpu_milli: int
    gpu_held_milli: int
    cells: list[Cell]


def hues_of(actor: Actor) -> Mapping[str, tuple[int, str]]:
    """Return the colour and the name of each project that the actor may see."""
    queue_rows = queues.list_queues(actor=actor).order_by("project__name")[:MAX_NODES]
    return {str(queue.project_id): (position % _OTHERS_HUE, queue.label) for position, queue in enumerate(queue_rows)}


def list_node_views(actor: Actor, resource: str | None = None) -> list[NodeView]:
    """Return the nodes by resource and name; projects of others appear as such, without a name."""
    hues = hues_of(actor)
    node_rows = nodes.list_nodes(actor=actor, resource=resource).order_by("resource_name", "name")
    return [_view_of(node, hues) for node in node_rows[:MAX_NODES]]


def short_model(model: str) -> str:
    """Return what people call a device: `Tesla V100-SXM2-32GB` is a `V100 32GB`."""
    words = model.replace("-", " ").split()
    return " ".join(word for word in words if word not in {"Tesla", "NVIDIA"} and not word.startswith(("SXM", "PCI")))


def _view_of(node: "Node", hues: Mapping[str, tuple[int, str]]) -> NodeView:
    held = nodes.held_on(node)
    devices = sorted(node.gpus.all(), key=lambda gpu: gpu.index)
    return NodeView(
        id=node.pk,
        name=node.name,
        resource=node.resource_name,
        is_ready=node.is_ready,
        is_drained=node.is_drained,
        is_simulated=node.is_simulated,
        pool=node.pool.name,
        cpu_millicores=node.cpu_millicores,
        cpu_held_millicores=held.cpu_millicores,
        memory_bytes=node.memory_bytes,
        memory_held_bytes=held.memory_bytes,
        gpu_model=devices[0].model if devices else "",
        gpu_memory_bytes=devices[0].memory_bytes if devices else 0,
        mig=node.mig,
        labels=node.labels,
        gpu_milli=units.ONE_GPU * len(devices),
        gpu_held_milli=sum(held.gpu_milli.values()),
        cells=[_cell_of(node, gpu.index, hues) for gpu in devices],
    )


def _cell_of(node: "Node", index: int, hues: Mapping[str, tuple[int, str]]) -> Cell:
    parts, words, filled = [], [], 0
    for placement in sorted(node.placements.all(), key=lambda placement: placement.pk):
        milli = sum(amount for device, amount in placement.gpus if device == index)
        if milli:
            hue, project = hues.get(placement.workload.project_id, OTHERS)
            filled += milli
            parts.append(Part(hue, units.ONE_GPU - filled, milli))
            words.append(f"{units.format_gpus(milli)} {project}")
    return Cell(f"GPU {index}: {', '.join(words) or 'idle'}", parts)
