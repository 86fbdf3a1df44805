"""Patterns for paths, for the server and the client: `*` and `?` stay within one name, `**` crosses folders.

Patterns come from strangers, so no backtracking regular expression is made of them. Several patterns together become
one automaton with a position before each item. The set of positions that a text has reached is one integer, and a
character leads from one set to the next by about ten shifts, ANDs and ORs of such integers (`_step`).

Bound: matching a path takes exactly one step for each of its characters, whatever the patterns, and a step costs
O(items / 30) machine operations; so O(items x path) in all, without any backtracking. A step that was taken before is
one lookup in a dictionary. What is remembered is at most `_REMEMBERED_BYTES`, then it is forgotten.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

MAX_LENGTH = 4096
"""How many characters a pattern has at most, as callers who take one from a stranger check: as many as a path."""

_REMEMBERED_BYTES = 8 * 2**20
_STEP_BYTES = 300


class Wild(Enum):
    """What stands for more than one character."""

    NAME = "any part of one name: `*`"
    ANY = "anything, slashes too: `**`"
    FOLDERS = "nothing, or anything that ends in a slash: `**/`; never follows NAME"


@dataclass(frozen=True)
class OneOf:
    """One character other than a slash, within any of the ranges, or `is_negated`: within none."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def holds(self, char: str) -> bool:
        """Return whether it stands for this character."""
        return char != "/" and any(low <= char <= high for low, high in self.ranges) != self.is_negated


ANY_LETTER = OneOf((), is_negated=True)

Item = str | OneOf | Wild
"""A character that stands for itself, or what stands for others."""


class Patterns:
    """Several patterns, each a row of items, matched against whole paths at once."""

    def __init__(self, patterns: Iterable[Sequence[Item]]) -> None:
        self.steps = 0
        """How many steps were worked out, as tests count them; those that were remembered are not among them."""
        self._letters: dict[str, int] = {}
        self._sets: list[tuple[int, OneOf]] = []
        self._in_names = self._anywhere = self._skips = self._starts = self._ends = 0
        self._pattern_at: dict[int, int] = {}
        self._size = 0
        for index, items in enumerate(patterns):
            self._starts |= 1 << self._size
            for item in _simplify(items):
                self._append(item)
            self._ends |= 1 << self._size
            self._pattern_at[self._size] = index
            self._size += 1
        self._loops = self._in_names | self._anywhere
        self._most_steps = max(100, _REMEMBERED_BYTES // (_STEP_BYTES + self._size // 4))
        self._forget()

    def matches(self, path: str) -> bool:
        """Return whether any of the patterns matches the whole path."""
        return self.last_match(path) is not None

    def last_match(self, path: str) -> int | None:
        """Return the index of the last pattern that matches the whole path; None where none does."""
        state = self._start
        for char in path:
            state = state[char]
        return state.match

    def last_matches_of_folders(self, path: str) -> Iterator[int | None]:
        """Yield the same for each folder that the path leads through, the outermost first, in one pass."""
        state = self._start
        for char in path:
            if char == "/":
                yield state.match
            state = state[char]

    def _append(self, item: Item) -> None:
        bit = 1 << self._size
        self._size += 1
        if item is Wild.NAME:
            self._in_names |= bit
        elif item is Wild.ANY:
            self._anywhere |= bit
        elif item is Wild.FOLDERS:
            # A position of its own before the loop: once something was read, only a slash leads out.
            self._skips |= bit
            self._append(Wild.ANY)
            self._append("/")
        elif isinstance(item, OneOf):
            self._sets.append((bit, item))
        elif isinstance(item, str):
            self._letters[item] = self._letters.get(item, 0) | bit

    def _forget(self) -> None:
        self._taken: dict[str, int] = {}
        self._states: dict[int, _State] = {}
        self._forget_at = self.steps + self._most_steps
        self._start = self._state(self._open(self._starts))

    def _state(self, positions: int) -> "_State":
        state = self._states.get(positions)
        if state is None:
            last = (positions & self._ends).bit_length() - 1
            state = self._states[positions] = _State(self, positions, self._pattern_at.get(last))
        return state

    def _step(self, positions: int, char: str) -> "_State":
        self.steps += 1
        if self.steps >= self._forget_at:
            self._forget()
        moved = (positions & self._letters_taken_by(char)) << 1
        stayed = positions & (self._anywhere if char == "/" else self._loops)
        return self._state(self._open(moved | stayed))

    def _open(self, positions: int) -> int:
        """Add what is reached without a character: behind a skip, then behind a loop, which never leads to a skip."""
        skipped = positions & self._skips
        positions |= skipped << 1 | skipped << 3
        return positions | (positions & self._loops) << 1

    def _letters_taken_by(self, char: str) -> int:
        taken = self._taken.get(char)
        if taken is None:
            taken = self._letters.get(char, 0)
            for bit, letters in self._sets:
                if letters.holds(char):
                    taken |= bit
            self._taken[char] = taken
        return taken


class _State(dict[str, "_State"]):
    """A set of positions, the pattern that ends there, and the states that characters lead to, as far as known."""

    __slots__ = ("_patterns", "_positions", "match")

    def __init__(self, patterns: Patterns, positions: int, match: int | None) -> None:
        super().__init__()
        self._patterns = patterns
        self._positions = positions
        self.match = match

    def __missing__(self, char: str) -> "_State":
        state = self[char] = self._patterns._step(self._positions, char)  # noqa: SLF001 (its own automaton)
        return state


def parse_glob(pattern: str) -> list[Item]:
    """Read a pattern of `*`, `?`, `**`, `**/` and sets: `[ab]`, `[a-c]`, `[!a]`. What is no set stands for itself."""
    items: list[Item] = []
    position = 0
    while position < len(pattern):
        if pattern.startswith("**", position):
            is_folders = pattern.startswith("/", position + 2)
            items.append(Wild.FOLDERS if is_folders else Wild.ANY)
            position += 3 if is_folders else 2
            continue
        char = pattern[position]
        position += 1
        if char == "*":
            items.append(Wild.NAME)
        elif char == "?":
            items.append(ANY_LETTER)
        elif char == "[" and (char_set := _read_set(pattern, position)) is not None:
            letters, position = char_set
            items.append(letters)
        else:
            items.append(char)
    return items


def _read_set(pattern: str, position: int) -> tuple[OneOf, int] | None:
    is_negated = pattern[position : position + 1] in {"!", "^"}
    start = position + is_negated
    # A `]` right after the opening one belongs to the set.
    end = pattern.find("]", start + 1)
    if end == -1:
        return None
    ranges = []
    while start < end:
        is_range = start + 2 < end and pattern[start + 1] == "-"
        low, high = pattern[start], pattern[start + 2 if is_range else start]
        if low > high:
            return None
        ranges.append((low, high))
        start += 3 if is_range else 1
    return OneOf(tuple(ranges), is_negated), end + 1


def _simplify(items: Iterable[Item]) -> list[Item]:
    """Leave out what adds nothing to the one before it, so that no two loops follow each other."""
    simple: list[Item] = []
    for item in items:
        before = simple[-1] if simple else None
        if before is Wild.ANY and isinstance(item, Wild):
            continue
        if before is Wild.NAME and item is Wild.ANY:
            simple[-1] = item
        elif not (before is item and isinstance(item, Wild)):
            simple.append(item)
    return simple
