r"""Regular expressions for paths, matched without backtracking: they come from strangers.

Supported: characters, `.`, sets (`[a-f_]`, `[^/]`), `\d \w \s` and their opposites, groups, `|`, `*`, `+`, `?`,
`{2}`, `{2,}`, `{2,5}`, and `^` and `$` at the ends. An expression is searched for anywhere in the path.

Bound: an expression becomes an automaton of at most MAX_STATES states. A character leads from one set of states to the
next; such a step is worked out once and remembered, and at most MAX_STEPS are. Who needs more is told so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MAX_LENGTH = 500
"""How many characters an expression has at most."""
MAX_STATES = 300
MAX_STEPS = 20_000
_MAX_REPEAT = 100
_MAX_DEPTH = 20
_UNBOUNDED = -1
_SPECIAL = frozenset("\\^$.|?*+()[]{}")

Takes = Callable[[str], bool]


class BadExpression(ValueError):
    """The text is no expression that is supported; the message says why."""


class TooCostly(ValueError):
    """Matching takes more steps than are worked out for one expression."""


@dataclass(frozen=True)
class _Class:
    """One character: of these, in these ranges or of these kinds; or `is_negated`: any other."""

    ranges: tuple[tuple[str, str], ...] = ()
    kinds: tuple[Takes, ...] = ()
    is_negated: bool = False

    def __call__(self, char: str) -> bool:
        is_in = any(low <= char <= high for low, high in self.ranges) or any(kind(char) for kind in self.kinds)
        return is_in != self.is_negated


_ANY = _Class(is_negated=True)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_KINDS: dict[str, Takes] = {"d": str.isdigit, "w": _is_word, "s": str.isspace}


@dataclass(frozen=True)
class _Node:
    """A part of an expression: one class, parts in a row, parts of which one holds, or a part repeated."""

    what: _Class | None = None
    row: tuple["_Node", ...] = ()
    choices: tuple["_Node", ...] = ()
    repeated: "_Node | None" = None
    least: int = 0
    most: int = 0


@dataclass
class _Automaton:
    """States with what each takes on its way to the next one, and the moves that take nothing. 0 is the start."""

    takes: dict[int, tuple[Takes, int]] = field(default_factory=dict)
    moves: dict[int, list[int]] = field(default_factory=dict)
    size: int = 1

    def new(self) -> int:
        if self.size >= MAX_STATES:
            raise BadExpression("It is too large: repeat less, or shorter parts.")
        self.size += 1
        return self.size - 1

    def move(self, start: int, end: int) -> None:
        self.moves.setdefault(start, []).append(end)

    def add(self, node: _Node, start: int) -> int:
        """Add a part behind a state, and return the state behind the part."""
        if node.what is not None:
            end = self.new()
            self.takes[start] = (node.what, end)
            return end
        if node.repeated is not None:
            return self._repeat(node.repeated, node.least, node.most, start)
        if node.choices:
            end = self.new()
            for choice in node.choices:
                first = self.new()
                self.move(start, first)
                self.move(self.add(choice, first), end)
            return end
        for part in node.row:
            start = self.add(part, start)
        return start

    def _repeat(self, node: _Node, least: int, most: int, start: int) -> int:
        for _ in range(least):
            start = self.add(node, start)
        end = self.new()
        if most == _UNBOUNDED:
            first = self.new()
            self.move(start, first)
            last = self.add(node, self._behind(first))
            self.move(last, first)
            self.move(first, end)
            return end
        for _ in range(most - least):
            self.move(start, end)
            start = self.add(node, self._behind(start))
        self.move(start, end)
        return end

    def _behind(self, state: int) -> int:
        """Return a new state that another one leads to, so that the part begins at a state of its own."""
        new = self.new()
        self.move(state, new)
        return new

    def close(self, states: set[int]) -> frozenset[int]:
        """Return these states with all that are reached from them without a character."""
        waiting, reached = list(states), set(states)
        while waiting:
            for state in self.moves.get(waiting.pop(), ()):
                if state not in reached:
                    reached.add(state)
                    waiting.append(state)
        return frozenset(reached)


class Expression:
    """A compiled expression. `part` is a text that every match holds; empty where none is known.

    With `is_whole` it must match the whole path. Raises BadExpression.
    """

    def __init__(self, text: str, *, is_whole: bool = False) -> None:
        if len(text) > MAX_LENGTH:
            raise BadExpression(f"It has more than {MAX_LENGTH} characters.")
        node = _Parser(text, is_whole=is_whole).read()
        self.part = _longest_text(node)
        self._automaton = _Automaton()
        self._end = self._automaton.add(node, 0)
        self._steps = 0
        self._states: dict[frozenset[int], _State] = {}
        self._start = self._state(self._automaton.close({0}))

    def matches(self, path: str) -> bool:
        """Return whether the path holds a match. Raises TooCostly."""
        state = self._start
        for char in path:
            state = state[char]
        return state.is_end

    def _state(self, states: frozenset[int]) -> "_State":
        known = self._states.get(states)
        if known is None:
            known = self._states[states] = _State(self, states, is_end=self._end in states)
        return known

    def _step(self, states: frozenset[int], char: str) -> "_State":
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooCostly("Matching this expression takes too many steps: write it with fewer choices and repeats.")
        taken = (self._automaton.takes[state] for state in states if state in self._automaton.takes)
        return self._state(self._automaton.close({end for takes, end in taken if takes(char)}))


class _State(dict[str, "_State"]):
    """A set of states of the automaton, and the sets that characters lead to, as far as known."""

    __slots__ = ("_expression", "_states", "is_end")

    def __init__(self, expression: Expression, states: frozenset[int], *, is_end: bool) -> None:
        super().__init__()
        self._expression = expression
        self._states = states
        self.is_end = is_end

    def __missing__(self, char: str) -> "_State":
        state = self[char] = self._expression._step(self._states, char)  # noqa: SLF001 (its own automaton)
        return state


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str, *, is_whole: bool) -> None:
        self._text = text
        self._is_whole = is_whole
        self._at = 0

    def read(self) -> _Node:
        choices = [self._read_choice()]
        while self._take("|"):
            choices.append(self._read_choice())
        if self._at < len(self._text):
            raise BadExpression(f"'{self._text[self._at]}' at {self._at + 1} has nothing that it belongs to.")
        return choices[0] if len(choices) == 1 else _Node(choices=tuple(choices))

    def _read_choice(self) -> _Node:
        """Read a choice of the whole expression, which is searched for unless it is anchored."""
        anything = _Node(repeated=_Node(what=_ANY), most=_UNBOUNDED)
        before = () if self._take("^") or self._is_whole else (anything,)
        row = self._read_row(0)
        after = () if self._take("$") or self._is_whole else (anything,)
        return _Node(row=(*before, *row, *after))

    def _read_row(self, depth: int) -> list[_Node]:
        row = []
        while self._at < len(self._text) and self._text[self._at] not in "|)$":
            row.append(self._read_repeats(self._read_one(depth)))
        return row

    def _read_repeats(self, node: _Node) -> _Node:
        bounds = self._read_bounds()
        if bounds is None:
            return node
        if self._text[self._at : self._at + 1] in {"*", "+", "?", "{"}:
            raise BadExpression("A repeat cannot be repeated itself: put the inner one in a group.")
        return _Node(repeated=node, least=bounds[0], most=bounds[1])

    def _read_bounds(self) -> tuple[int, int] | None:
        for sign, bounds in {"*": (0, _UNBOUNDED), "+": (1, _UNBOUNDED), "?": (0, 1)}.items():
            if self._take(sign):
                return bounds
        if not self._take("{"):
            return None
        inside, closing, _ = self._text[self._at :].partition("}")
        self._at += len(inside) + 1
        low, comma, high = inside.partition(",")
        if not closing or not _is_number(low) or not (high == "" or _is_number(high)):
            raise BadExpression("A '{' begins a repeat such as {2} or {2,5}; write '\\{' for the character.")
        least = int(low)
        most = least if not comma else int(high) if high else _UNBOUNDED
        if max(least, most) > _MAX_REPEAT or (most != _UNBOUNDED and most < least):
            raise BadExpression(f"A repeat counts from 0 to {_MAX_REPEAT}, the lower number first.")
        return least, most

    def _read_one(self, depth: int) -> _Node:
        char = self._text[self._at]
        self._at += 1
        if char == "(":
            return self._read_group(depth + 1)
        if char == "[":
            return _Node(what=self._read_set())
        if char == "\\":
            return _Node(what=self._read_escape())
        if char == ".":
            return _Node(what=_ANY)
        if char == "^":
            raise BadExpression("'^' stands at the beginning only, and '$' at the end.")
        if char in _SPECIAL - {"]", "}"}:
            raise BadExpression(f"'{char}' at {self._at} has nothing to repeat; write '\\{char}' for the character.")
        return _Node(what=_only(char))

    def _read_group(self, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            raise BadExpression(f"Groups stand in each other at most {_MAX_DEPTH} deep.")
        if self._take("?") and not self._take(":"):
            raise BadExpression("Groups that begin with '(?' are not supported.")
        choices = [_Node(row=tuple(self._read_row(depth)))]
        while self._take("|"):
            choices.append(_Node(row=tuple(self._read_row(depth))))
        if not self._take(")"):
            raise BadExpression("A group is not closed, or holds a '$', which stands at the end only.")
        return choices[0] if len(choices) == 1 else _Node(choices=tuple(choices))

    def _read_set(self) -> _Class:
        is_negated = self._take("^")
        ranges: list[tuple[str, str]] = []
        kinds: list[Takes] = []
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            low = self._read_member()
            if isinstance(low, _Class):
                kinds.append(low)
                continue
            high: str | _Class = low
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._read_member()
            if isinstance(high, _Class) or high < low:
                raise BadExpression("A range of a set goes from a character to a later one.")
            ranges.append((low, high))
        return _Class(tuple(ranges), tuple(kinds), is_negated)

    def _read_member(self) -> "str | _Class":
        if self._at >= len(self._text):
            raise BadExpression("A set is not closed: its ']' is missing.")
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char
        escaped = self._read_escape()
        return escaped.ranges[0][0] if escaped.ranges else escaped

    def _read_escape(self) -> _Class:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char.lower() in _KINDS and char:
            return _Class(kinds=(_KINDS[char.lower()],), is_negated=char.isupper())
        if not char or char.isalnum():
            raise BadExpression(f"'\\{char}' is not supported.")
        return _only(char)

    def _take(self, char: str) -> bool:
        is_there = self._text.startswith(char, self._at)
        self._at += is_there
        return is_there


def _only(char: str) -> _Class:
    return _Class(ranges=((char, char),))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _longest_text(node: _Node) -> str:
    """Return the longest text that stands in a row outside of choices and repeats."""
    return max(_texts(node), key=len, default="")


def _texts(node: _Node) -> Iterator[str]:
    text = ""
    for part in node.row:
        what = part.what
        if what is not None and not what.is_negated and not what.kinds and len(what.ranges) == 1:
            low, high = what.ranges[0]
            if low == high:
                text += low
                continue
        yield text
        text = ""
    yield text
