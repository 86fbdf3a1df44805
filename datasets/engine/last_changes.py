"""Which commit changed a path last: a walk back through history that reads only ranges in which two commits differ."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from nearline.content.diff import diff_entries
from nearline.content.manifest import Entry, LoadRange, RootRange

C = TypeVar("C")
Roots = Sequence[RootRange]


@dataclass(frozen=True)
class Step(Generic[C]):
    """A commit, its tree, and its parent's: the empty one for the first commit."""

    commit: C
    after: Roots
    before: Roots


class OutOfBudget(Exception):
    """More ranges would have to be read than the caller allows. Nothing failed: the answer lies further back."""


class BoundedLoad:
    """Loads ranges until so many different ones were asked for, then raises OutOfBudget."""

    def __init__(self, load_range: LoadRange, budget: int) -> None:
        self._load_range = load_range
        self._budget = budget
        self._asked: set[str] = set()

    def __call__(self, range_id: str) -> Sequence[Entry]:
        """Return the entries of a range."""
        self._asked.add(range_id)
        if len(self._asked) > self._budget:
            raise OutOfBudget
        return self._load_range(range_id)


def find_changed(paths: Collection[bytes], step: Step[C], load_range: LoadRange) -> set[bytes]:
    """Return those of the paths that a commit changed; a path that ends in a slash is a folder with all in it."""
    if not step.before:
        return set(paths)
    # In order, so that neighbours find the range that they share still at hand.
    return {path for path in sorted(paths) if _is_changed(path, step, load_range)}


def _is_changed(path: bytes, step: Step[C], load_range: LoadRange) -> bool:
    # All that lies in "a/" sorts from "a/" to before "a0"; a file is alone between its name and the next one.
    end = path[:-1] + b"0" if path.endswith(b"/") else path + b"\0"
    before, after = _overlapping(step.before, path, end), _overlapping(step.after, path, end)
    common = {row.range_id for row in before} & {row.range_id for row in after}

    def entries(rows: Iterable[RootRange]) -> Iterator[Entry]:
        for row in rows:
            if row.range_id not in common:
                range_entries = load_range(row.range_id)
                first = bisect_left(range_entries, path, key=attrgetter("path"))
                yield from range_entries[first : bisect_left(range_entries, end, key=attrgetter("path"))]

    return any(True for _ in diff_entries(entries(before), entries(after)))


def _overlapping(rows: Roots, start: bytes, end: bytes) -> Roots:
    first = bisect_left(rows, start, key=attrgetter("last_path"))
    return rows[first : bisect_left(rows, end, lo=first, key=attrgetter("first_path"))]
