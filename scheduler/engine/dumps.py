"""A cycle as JSON: what it decided on and what it decided, so that the decision can be made again elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Protocol, TypeVar

from pydantic import TypeAdapter

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Decision, Explain
from scheduler.engine.mig import GEOMETRIES
from scheduler.engine.snapshot import NodeView, Policy, Snapshot

FORMAT = 1


class _Ranked(Protocol):
    @property
    def rank(self) -> tuple[object, ...]: ...


T = TypeVar("T", bound=_Ranked)


@dataclass(frozen=True, slots=True)
class CycleInput:
    """What a cycle decides on."""

    snapshot: Snapshot
    policy: Policy


_INPUT = TypeAdapter(CycleInput)
_MOVES = TypeAdapter(list[list[object]])


@dataclass(frozen=True)
class Replay:
    """The moves that a cycle made, and those that are made from its dump now, as they are written there."""

    recorded: Sequence[Sequence[object]]
    replayed: Sequence[Sequence[object]]

    @property
    def is_same(self) -> bool:
        """Whether the same was decided again, in the same order."""
        return self.recorded == self.replayed


def write(snapshot: Snapshot, policy: Policy, decisions: Iterable[Decision]) -> dict[str, object]:
    """Return a cycle as values of JSON. Why others wait is left out.

    Ranks are written as places in their order, which is all that they are for.
    """
    ranked = replace(snapshot, queues=_with_places(snapshot.queues), jobs=_with_places(snapshot.jobs))
    written = _INPUT.dump_python(CycleInput(ranked, policy), mode="json", exclude_defaults=True)
    return {"format": FORMAT, "input": written, "moves": _write_moves(decisions)}


def replay(dump: Mapping[str, object]) -> Replay:
    """Decide again what a dump decides on. Raises ValueError where it is no dump of this format."""
    if dump.get("format") != FORMAT:
        raise ValueError(f"It is no dump of format {FORMAT}.")
    given = _INPUT.validate_python(dump.get("input"))
    nodes = [_with_known_geometry(node) for node in given.snapshot.nodes]
    decisions = run_cycle(replace(given.snapshot, nodes=nodes), given.policy)
    return Replay(_MOVES.validate_python(dump.get("moves")), _write_moves(decisions))


_GEOMETRIES = {(geometry.model, geometry.slice_mib): geometry for geometry in GEOMETRIES}


def _with_known_geometry(node: NodeView) -> NodeView:
    """Return a node with the geometry that is equal to those of others: it is one object a model."""
    read = node.geometry
    return node if read is None else replace(node, geometry=_GEOMETRIES[read.model, read.slice_mib])


def _write_moves(decisions: Iterable[Decision]) -> list[list[object]]:
    return [_write_move(decision) for decision in decisions if not isinstance(decision, Explain)]


def _write_move(move: Decision) -> list[object]:
    parts = (list(part) if isinstance(part, tuple) else part for part in astuple(move))
    return [type(move).__name__, *parts]


def _with_places(views: Sequence[T]) -> list[T]:
    places = {rank: place for place, rank in enumerate(sorted({view.rank for view in views}))}
    return [replace(view, rank=(places[view.rank],)) for view in views]  # type: ignore[type-var]  # a dataclass
