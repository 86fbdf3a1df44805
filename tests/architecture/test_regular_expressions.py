"""No regular expression of ours takes the square of a text's length, or worse: texts come from strangers.

A backtracking matcher tries every way to read a text, so the question is how many there are. A pattern becomes an
automaton without empty moves (Glushkov's). It has more than linearly many ways for some texts exactly when two of its
states p and q exist, and a word that leads from p to p, from p to q and from q to q (Weber and Seidl, 1991). A search
that may begin anywhere is such a pattern with a loop before it.
"""

import ast
import importlib
import re
from itertools import product
from pathlib import Path
from re import _constants as code
from re import _parser as parser

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "": ["datasets", "flows", "experiments", "compute", "scheduler"],
    "platform": ["accounts", "config", "core", "web"],
    "client/src": ["nearline"],
}
METHODS = {"compile", "fullmatch", "match", "search", "sub", "subn", "split", "findall", "finditer"}
BOUNDED = {
    "platform/core/units.py": "a quantity is cut at 60 characters",
    "client/src/nearline/cli/commands/runs.py": "the argument of a person's own command",
}
"""Files whose patterns are read over short texts alone."""

# Each class of characters that patterns tell apart has one of its members here.
PROBES = "aAzbgkmsx0159_-. \t\n\r/\\\"'(){}[]<>=!,:;#$*?+|&^%@~\0\x1b\x07éß²\ud800"
MANY = 1000
EVERY = frozenset(PROBES)
CATEGORIES = {
    code.CATEGORY_DIGIT: str.isdigit, code.CATEGORY_SPACE: str.isspace,
    code.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
}  # fmt: skip
OPPOSITES = {
    code.CATEGORY_NOT_DIGIT: code.CATEGORY_DIGIT, code.CATEGORY_NOT_SPACE: code.CATEGORY_SPACE,
    code.CATEGORY_NOT_WORD: code.CATEGORY_WORD,
}  # fmt: skip


class Automaton:
    """Positions with the characters that each takes, and which may follow which; 0 is the loop of a search."""

    def __init__(self, pattern: str | bytes, flags: int, *, is_search: bool) -> None:
        self.takes: list[frozenset[str]] = [EVERY]
        self.follow: dict[int, set[int]] = {0: set()}
        self.has_loop_in_loop = False
        tokens = list(parser.parse(pattern, flags))
        first, self.last, self.is_empty = self._sequence(tokens)
        if is_search and not (tokens and tokens[0] == (code.AT, code.AT_BEGINNING) and not flags & re.MULTILINE):
            self.follow[0] = {0, *first}

    def _sequence(self, tokens) -> tuple[set[int], set[int], bool]:
        first, last, is_empty = set(), set(), True
        for operation, argument in tokens:
            part_first, part_last, part_is_empty = self._part(operation, argument)
            for position in last:
                self.follow[position] |= part_first
            first |= part_first if is_empty else set()
            last = part_last | (last if part_is_empty else set())
            is_empty = is_empty and part_is_empty
        return first, last, is_empty

    def _part(self, operation, argument) -> tuple[set[int], set[int], bool]:
        if operation in {code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT}:
            low, high, body = argument
            first, last, is_empty = self._sequence(body)
            if high >= MANY:
                for position in last:
                    # Two ways from here to there: the loop outside, and one inside of it.
                    self.has_loop_in_loop |= bool(self.follow[position] & first)
                    self.follow[position] |= first
            return first, last, is_empty or low == 0
        if operation is code.SUBPATTERN:
            return self._sequence(argument[3])
        if operation is code.ATOMIC_GROUP:
            return self._sequence(argument)
        if operation is code.BRANCH:
            parts = [self._sequence(branch) for branch in argument[1]]
            return set().union(*(p[0] for p in parts)), set().union(*(p[1] for p in parts)), any(p[2] for p in parts)
        if operation in {code.AT, code.ASSERT, code.ASSERT_NOT}:
            return set(), set(), True
        position = len(self.takes)
        self.takes.append(characters(operation, argument))
        self.follow[position] = set()
        return {position}, {position}, False

    def is_ambiguous(self, *, must_end: bool) -> bool:
        """Say whether two loops can share a text; where the text behind may be anything, the second must not end it."""
        if self.has_loop_in_loop:
            return True
        for p, q in product(self.follow, repeat=2):
            may_fail = must_end or q not in self.last
            if p != q and may_fail and self._reaches((p, p, q), (p, q, q)):
                return True
        return False

    def _reaches(self, start: tuple[int, ...], end: tuple[int, ...]) -> bool:
        seen, waiting = set(), [start]
        while waiting:
            for following in product(*(self.follow[position] for position in waiting.pop())):
                if following not in seen and frozenset.intersection(*(self.takes[position] for position in following)):
                    if following == end:
                        return True
                    seen.add(following)
                    waiting.append(following)
        return False


def characters(operation, argument) -> frozenset[str]:
    if operation is code.LITERAL:
        return frozenset({chr(argument)})
    if operation is code.NOT_LITERAL:
        return EVERY - {chr(argument)}
    if operation is code.RANGE:
        return frozenset({char for char in EVERY if argument[0] <= ord(char) <= argument[1]})
    if operation is code.CATEGORY:
        opposite = OPPOSITES.get(argument)
        return frozenset({char for char in EVERY if CATEGORIES[opposite or argument](char) == (opposite is None)})
    if operation is code.IN:
        parts = [characters(*part) for part in argument if part[0] is not code.NEGATE]
        together = frozenset().union(*parts)
        return EVERY - together if argument[0][0] is code.NEGATE else together
    assert operation is code.ANY, operation
    return EVERY


def takes_too_long(pattern: str | bytes, flags: int, method: str) -> bool:
    is_search = method not in {"match", "fullmatch"}
    automaton = Automaton(pattern, flags, is_search=is_search)
    ends = ("$", "\\Z") if isinstance(pattern, str) else (b"$", b"\\Z")
    must_end = method == "fullmatch" or pattern.endswith(ends)
    return automaton.is_ambiguous(must_end=must_end)


def patterns_of(path: Path, module: str):
    """Yield each pattern of a file with its flags and the method that it is used by."""
    tree = ast.parse(path.read_text())
    named, names = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[id(node.value)] = node.targets[0].id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.setdefault(node.value.id, set()).add(node.attr)
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
        if not (is_call and isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        space = vars(importlib.import_module(module))
        pattern, *_ = (eval(compile(ast.Expression(item), str(path), "eval"), space) for item in node.args[:1])
        flags = 0
        for item in [*node.args[1:], *(keyword.value for keyword in node.keywords)]:
            text = ast.unparse(item)
            if re.fullmatch(r"(re\.[A-Z]+( \| )?)+", text):
                flags |= int(eval(text, {"re": re}))
        methods = {node.func.attr} if node.func.attr != "compile" else names.get(named.get(id(node)), set()) & METHODS
        for method in methods or {"fullmatch"}:
            yield pattern, flags, method


def sources():
    for base, packages in FOLDERS.items():
        for package in packages:
            for path in sorted((ROOT / base / package).rglob("*.py")):
                if "re." in path.read_text() and "import re\n" in path.read_text() and "migrations" not in path.parts:
                    yield pytest.param(
                        path,
                        ".".join(path.relative_to(ROOT / base).with_suffix("").parts),
                        id=str(path.relative_to(ROOT)),
                    )


@pytest.mark.parametrize(("path", "module"), list(sources()))
def test_patterns_are_read_in_time_that_grows_with_the_text(path, module):
    slow = [
        (pattern, method)
        for pattern, flags, method in patterns_of(path, module)
        if takes_too_long(pattern, flags, method)
    ]

    assert not slow or str(path.relative_to(ROOT)) in BOUNDED, slow


@pytest.mark.parametrize(
    ("pattern", "method", "is_slow"),
    [
        (r"(a+)+b", "fullmatch", True),
        (r"(?:.*a)*b", "fullmatch", True),
        (r"\d+\.?\d*x", "match", True),
        (r"\d+(?:\.\d*)?x", "match", False),
        (r"^\s*tag:\s*(.*?)\s*$", "match", True),
        (r"\s*(\d+)\s*(k|m)?\s*", "fullmatch", True),
        (r"\$\{\{(.*?)\}\}", "finditer", True),
        (r"[^\n]*\r", "sub", True),
        (r"[\w.]*$", "search", True),
        (r"[^a-z]+", "sub", False),
        (r"<Code>(\w+)</Code>", "search", False),
        (r"([a-z]+/)*[a-z]+", "fullmatch", False),
        (r'"(?:[^"\\]|\\.)*"', "match", False),
        (r"(a|ab)*c", "fullmatch", False),
    ],
)
def test_the_question_is_answered_as_the_matcher_behaves(pattern, method, is_slow):
    assert takes_too_long(pattern, 0, method) == is_slow
