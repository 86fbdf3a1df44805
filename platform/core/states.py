"""State machines as one checked table each: a transition that is not in the table is an error."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Generic, TypeVar

from core.errors import Conflict

S = TypeVar("S", bound=StrEnum)


class IllegalTransition(Conflict):
    """A thing was asked to go from one state to another that cannot follow it."""

    code = "core.illegal_transition"


@dataclass(frozen=True)
class TransitionTable(Generic[S]):
    """Which states may follow which. `arrows` maps each state to its successors; a final state maps to none."""

    arrows: Mapping[S, frozenset[S]]

    def check(self, old: S, new: S) -> None:
        """Raise IllegalTransition unless `new` may follow `old`."""
        if new not in self.arrows[old]:
            raise IllegalTransition(f"A thing that is {old} cannot become {new}.", old=str(old), new=str(new))

    def sources_of(self, new: S) -> frozenset[S]:
        """Return the states from which `new` can be reached in one step."""
        return frozenset(old for old, successors in self.arrows.items() if new in successors)

    @cached_property
    def final(self) -> frozenset[S]:
        """The states that nothing follows."""
        return frozenset(state for state, successors in self.arrows.items() if not successors)

    @cached_property
    def live(self) -> frozenset[S]:
        """The states that something follows."""
        return frozenset(self.arrows) - self.final


def transitions(arrows: Mapping[S, Iterable[S]]) -> TransitionTable[S]:
    """Build a table from plain collections."""
    return TransitionTable({old: frozenset(successors) for old, successors in arrows.items()})
