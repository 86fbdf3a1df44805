"""Nodes over time as pages show them: a row for each GPU, coloured by the projects that held it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from accounts.permissions import Actor
from compute.web.node_cells import OTHERS, hues_of
from core import units
from scheduler.selectors import nodes
from scheduler.selectors.nodes import Stretch

MOMENTS = 120
MAX_NODES = 20


@dataclass(frozen=True)
class Block:
    """What a project held of a GPU for a while: a rectangle, in moments and thousandths of the GPU."""

    hue: int
    left: int
    width: int
    top: int
    height: int
    note: str


@dataclass(frozen=True)
class GpuRow:
    """One GPU over time. `note` says in words how much of the time who held it."""

    note: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class NodeRows:
    """A node with a row for each GPU."""

    name: str
    resource: str
    is_simulated: bool
    rows: Sequence[GpuRow]


def list_node_rows(actor: Actor, pool: str, past: timedelta, hues: Mapping[str, int]) -> list[NodeRows]:
    """Return the nodes of a pool over time, with the colours of projects by name; others have one colour.

    Projects that the actor may not see have no name.
    """
    names = {pk: (hues.get(label, OTHERS[0]), label) for pk, (_, label) in hues_of(actor).items()}
    histories = nodes.read_histories(actor=actor, pool=pool, past=past, moments=MOMENTS, most=MAX_NODES)
    return [
        NodeRows(
            node.name,
            node.resource,
            node.is_simulated,
            [_row(number, stretches, names) for number, stretches in enumerate(node.devices)],
        )
        for node in histories
        if any(node.devices)
    ]


def _row(number: int, stretches: Sequence[Stretch], names: Mapping[str, tuple[int, str]]) -> GpuRow:
    known = sum(stretch.end - stretch.first for stretch in stretches)
    held: Counter[str] = Counter()
    for stretch in stretches:
        for share in stretch.shares:
            _, project = names.get(share.project_id, OTHERS)
            held[project] += share.milli * (stretch.end - stretch.first)
    words = [f"{project} {total / known / units.ONE_GPU:.0%}" for project, total in held.most_common()]
    return GpuRow(f"GPU {number}: {', '.join(words) or 'idle'}", list(_blocks(stretches, names)))


def _blocks(stretches: Sequence[Stretch], names: Mapping[str, tuple[int, str]]) -> Iterator[Block]:
    for stretch in stretches:
        filled = 0
        for share in stretch.shares:
            hue, project = names.get(share.project_id, OTHERS)
            filled += share.milli
            note = f"{units.format_gpus(share.milli)} {project}"
            yield Block(hue, stretch.first, stretch.end - stretch.first, units.ONE_GPU - filled, share.milli, note)
