"""Places for the nodes of a picture that is still being drawn: names that lead nowhere and circles do no harm."""

from collections.abc import Mapping, Sequence

from core.bounds import OutOfBounds
from flows.engine import layout

MAX_NODES = 20_000
MAX_EDGES = 50_000
"""What one request may ask for; the places of so many are found within a second."""

Place = tuple[int, int]


def arrange(parents: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Return the left upper corner of every node in pixels, given each node's parents.

    Raises OutOfBounds when there are more than `MAX_NODES` nodes or `MAX_EDGES` edges.
    """
    edges = sum(len(names) for names in parents.values())
    if len(parents) > MAX_NODES or edges > MAX_EDGES:
        raise OutOfBounds(f"A graph has at most {MAX_NODES:,} nodes and {MAX_EDGES:,} edges.")
    acyclic = _without_circles({key: [name for name in names if name in parents] for key, names in parents.items()})
    return {box.key: (box.x, box.y) for box in layout.lay_out(acyclic).boxes}


def _without_circles(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Leave out every arrow that closes a circle, met in the order of the keys (depth first, without recursion)."""
    acyclic: dict[str, list[str]] = {key: [] for key in parents}
    open_now: set[str] = set()
    done: set[str] = set()
    for start in parents:
        stack = [(start, iter(parents[start]))] if start not in done else []
        open_now.update(key for key, _ in stack)
        while stack:
            key, rest = stack[-1]
            parent = next(rest, None)
            if parent is None:
                stack.pop()
                open_now.discard(key)
                done.add(key)
            elif parent not in open_now:
                acyclic[key].append(parent)
                if parent not in done:
                    open_now.add(parent)
                    stack.append((parent, iter(parents[parent])))
    return acyclic
