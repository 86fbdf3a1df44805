"""The search box: each app answers for its own things."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accounts.actor import Actor


@dataclass(frozen=True)
class Hit:
    """One thing that was found."""

    name: str
    url: str
    detail: str


Find = Callable[[Actor, str], Sequence[Hit]]
"""Returns at most `LIMIT` things that the actor may see and whose name holds the text."""

LIMIT = 20
_sources: dict[str, tuple[str, Find]] = {}


def add_source(kind: str, icon: str, find: Find) -> None:
    """Let the search box find things of a kind, named in the plural."""
    _sources[kind] = (icon, find)


def search(actor: Actor, text: str) -> list[tuple[str, str, Sequence[Hit]]]:
    """Return kind, icon and hits of every kind that has any."""
    found = [(kind, icon, find(actor, text)) for kind, (icon, find) in _sources.items()]
    return [(kind, icon, hits) for kind, icon, hits in found if hits]
