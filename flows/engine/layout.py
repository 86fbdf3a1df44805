"""Where the steps of a graph are drawn: columns by longest path, order within a column by barycentre sweeps.

An arrow that passes columns gets an empty place in each, so that it leads past the steps there and not over them.
Same graph, same picture. The picture in the page, the canvas and thumbnails all use these positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from core.bounds import OutOfBounds

NODE_WIDTH = 208
NODE_HEIGHT = 58
COLUMN_GAP = 56
ROW_GAP = 20
MARGIN = 28
MAX_NODES = 20_000
MAX_EDGES = 50_000
"""What one request may ask for; the places of so many are found within a second."""
_SWEEPS = 4
_STATION = "\0"
"""What the keys of empty places begin with; no step is called so."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Box:
    """A step's rectangle; `x` and `y` are its left upper corner in pixels."""

    key: str
    x: int
    y: int


@dataclass(frozen=True)
class Layout:
    """All rectangles in the order of the columns, and the size of the picture that holds them."""

    boxes: tuple[Box, ...]
    width: int
    height: int

    def box(self, key: str) -> Box:
        """Return the rectangle of a step. Raises KeyError."""
        for box in self.boxes:
            if box.key == key:
                return box
        raise KeyError(key)


def lay_out(parents: Mapping[str, Sequence[str]]) -> Layout:
    """Place every step of an acyclic graph, given each step's parents. The order of keys breaks ties."""
    stations = _with_stations(parents)
    columns = _order(_columns(stations), stations)
    tallest = max((len(column) for column in columns), default=0)
    height = 2 * MARGIN + tallest * (NODE_HEIGHT + ROW_GAP) - (ROW_GAP if tallest else 0)
    boxes = []
    for number, column in enumerate(columns):
        column_height = len(column) * (NODE_HEIGHT + ROW_GAP) - ROW_GAP
        top = (height - column_height) // 2
        x = MARGIN + number * (NODE_WIDTH + COLUMN_GAP)
        rows = [(row, key) for row, key in enumerate(column) if key in parents]
        boxes += [Box(key, x, top + row * (NODE_HEIGHT + ROW_GAP)) for row, key in rows]
    width = 2 * MARGIN + len(columns) * (NODE_WIDTH + COLUMN_GAP) - (COLUMN_GAP if columns else 0)
    return Layout(tuple(boxes), width, height)


def arrange(parents: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Return the left upper corner of every node in pixels, given each node's parents.

    The picture may still be drawn: names that lead nowhere and circles do no harm.

    Raises OutOfBounds when there are more than `MAX_NODES` nodes or `MAX_EDGES` edges.
    """
    edges = sum(len(names) for names in parents.values())
    if len(parents) > MAX_NODES or edges > MAX_EDGES:
        raise OutOfBounds(f"A graph has at most {MAX_NODES:,} nodes and {MAX_EDGES:,} edges.")
    acyclic = _without_circles({key: [name for name in names if name in parents] for key, names in parents.items()})
    return {box.key: (box.x, box.y) for box in lay_out(acyclic).boxes}


def around(boxes: Sequence[Box]) -> Layout:
    """Return the layout of rectangles that somebody has placed, moved so that a margin is left of and above them."""
    left = min((box.x for box in boxes), default=0) - MARGIN
    top = min((box.y for box in boxes), default=0) - MARGIN
    moved = tuple(Box(box.key, box.x - left, box.y - top) for box in boxes)
    width = max((box.x for box in moved), default=0) + NODE_WIDTH + MARGIN
    height = max((box.y for box in moved), default=0) + NODE_HEIGHT + MARGIN
    return Layout(moved, width, height)


def _with_stations(parents: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Add a place for every column that arrows from one step pass; a graph that would more than double keeps none."""
    depths = _depths(parents)
    farthest = dict(depths)
    for key, names in parents.items():
        for parent in names:
            farthest[parent] = max(farthest[parent], depths[key])
    if sum(max(0, farthest[key] - depths[key] - 1) for key in parents) > len(parents):
        return parents
    stations: dict[str, Sequence[str]] = {
        key: [_place_before(parent, depths[parent], depths[key]) for parent in names] for key, names in parents.items()
    }
    for key in parents:
        for depth in range(depths[key] + 1, farthest[key]):
            stations[_station(key, depth)] = [_place_before(key, depths[key], depth)]
    return stations


def _place_before(key: str, own_depth: int, depth: int) -> str:
    """Return what an arrow from a step comes from when it reaches a column: the step, or its last empty place."""
    return key if depth == own_depth + 1 else _station(key, depth - 1)


def _station(key: str, depth: int) -> str:
    return f"{_STATION}{depth} {key}"


def _columns(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Put every step right of its last parent."""
    depths = _depths(parents)
    columns: list[list[str]] = [[] for _ in set(depths.values())]
    for key in parents:
        columns[depths[key]].append(key)
    return columns


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    depths: dict[str, int] = {}
    for key in TopologicalSorter(parents).static_order():
        depths[key] = max((depths[parent] + 1 for parent in parents[key]), default=0)
    return depths


def _order(columns: list[list[str]], parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Draw neighbours near each other: sort each column by the mean place of what it is connected to."""
    children: dict[str, list[str]] = {key: [] for key in parents}
    for key, sources in parents.items():
        for parent in sources:
            children[parent].append(key)
    places = {key: place for column in columns for key, place in _places(column).items()}
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        neighbours: Mapping[str, Sequence[str]] = parents if is_forward else children
        for column in columns[1:] if is_forward else columns[-2::-1]:
            centres = {key: _centre(places, neighbours[key], places[key]) for key in column}
            column.sort(key=centres.__getitem__)
            places.update(_places(column))
    return columns


def _places(column: Sequence[str]) -> dict[str, float]:
    """Return each step's distance from the middle of its column."""
    return {key: row - (len(column) - 1) / 2 for row, key in enumerate(column)}


def _centre(places: Mapping[str, float], neighbours: Sequence[str], otherwise: float) -> float:
    return sum(places[key] for key in neighbours) / len(neighbours) if neighbours else otherwise


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
