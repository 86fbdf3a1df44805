"""Places for the nodes of a picture that is still being drawn: names that lead nowhere and circles do no harm."""

from collections.abc import Mapping, Sequence

from flows.engine import layout

Place = tuple[int, int]


def arrange(parents: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Return the left upper corner of every node in pixels, given each node's parents."""
    acyclic = _without_circles({key: [name for name in names if name in parents] for key, names in parents.items()})
    return {box.key: (box.x, box.y) for box in layout.lay_out(acyclic).boxes}


def _without_circles(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Leave out every arrow that closes a circle, met in the order of the keys (depth first, without recursion)."""
    kept: dict[str, list[str]] = {key: [] for key in parents}
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
                kept[key].append(parent)
                if parent not in done:
                    open_now.add(parent)
                    stack.append((parent, iter(parents[parent])))
    return kept
