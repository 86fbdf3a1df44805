"""Expressions in a flow: conditions on what parents measured, and references in its texts.

A condition, such as `train.accuracy >= 0.9 and not max(train.loss) > 2`, is written in a tiny language with a parser of
its own; nothing is ever handed to Python's `eval`. It knows numbers, "texts", true, false, comparisons, `and`, `or`,
`not`, parentheses, `STEP.METRIC`, `parameters.NAME`, and `max(...)`, `min(...)` over the tries of a grid.

References are values, no code: `${{ parameters.lr }}`, `${{ run.number }}`, `${{ step.index }}`.
"""

import math
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core import bounds
from flows.errors import InvalidExpression

Value = bool | int | float | str
Results = Mapping[str, Sequence[Mapping[str, Value]]]
"""For each parent, the metrics and tags of each of its tries that succeeded (one, but for grids)."""

PARAMETERS = "parameters"
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<text>"[^"]*"|'[^']*')
    | (?P<name>[A-Za-z_][\w-]*(?:\.[\w./-]*[\w])?)
    | (?P<sign>>=|<=|==|!=|>|<|\(|\))
    )""",
    re.VERBOSE,
)
_COMPARE: Mapping[str, Callable[[Value, Value], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPEN, _CLOSE = "${{", "}}"
_REFERENCE = re.compile(r"\s*([a-z]+)\.([A-Za-z_][\w-]*)\s*")
SCOPES: Mapping[str, frozenset[str] | None] = {
    "parameters": None,
    "run": frozenset({"id", "number"}),
    "step": frozenset({"name", "index"}),
}
"""What may be referred to; None: any name that is declared."""
_FOLDS = ("max", "min")
_MAX_DEPTH = 50
# Longer whole numbers are read as floats: Python refuses to read the longest ones, and cannot show them.
_MOST_DIGITS = 300


@dataclass(frozen=True)
class Verdict:
    """Whether a condition holds, and the fact that decided it, as a sentence."""

    holds: bool
    why: str


@dataclass(frozen=True)
class Reference:
    """What a parent measured. `fold` is `max` or `min` over a grid's tries; empty for the one try of a plain step."""

    step: str
    metric: str
    fold: str = ""

    def __str__(self) -> str:
        text = f"{self.step}.{self.metric}"
        return f"{self.fold}({text})" if self.fold else text


@dataclass(frozen=True)
class Constant:
    """A value that was written down."""

    value: Value


@dataclass(frozen=True)
class Comparison:
    """Two operands and a sign between them."""

    left: "Reference | Constant"
    sign: str
    right: "Reference | Constant"


@dataclass(frozen=True)
class Negation:
    """`not`."""

    inner: "Expression"


@dataclass(frozen=True)
class Junction:
    """`and` or `or` over two or more parts."""

    word: str
    parts: "tuple[Expression, ...]"


Expression = Reference | Constant | Comparison | Negation | Junction


def parse(text: str) -> Expression:
    """Read a condition. Raises InvalidExpression, saying what is wrong where."""
    if fault := bounds.text_fault(text):
        raise InvalidExpression(f"The condition cannot be stored. {fault}")
    parser = _Parser(text)
    expression = parser.junction("or", 0)
    if parser.peek() is not None:
        raise InvalidExpression(f"'{text}' should end before '{parser.peek()}'.")
    return expression


def references(expression: Expression) -> Iterator[Reference]:
    """Name everything that a condition looks at."""
    match expression:
        case Reference():
            yield expression
        case Comparison():
            yield from references(expression.left)
            yield from references(expression.right)
        case Negation():
            yield from references(expression.inner)
        case Junction():
            for part in expression.parts:
                yield from references(part)


def evaluate(expression: Expression, results: Results, parameters: Mapping[str, Value]) -> Verdict:
    """Decide a condition. One that looks at something that was never measured does not hold."""
    try:
        return _decide(expression, results, parameters)
    except _Missing as missing:
        return Verdict(holds=False, why=str(missing))


class _Missing(Exception):
    pass


def _decide(expression: Expression, results: Results, parameters: Mapping[str, Value]) -> Verdict:
    match expression:
        case Negation():
            verdict = _decide(expression.inner, results, parameters)
            return Verdict(not verdict.holds, verdict.why)
        case Junction():
            verdict = Verdict(holds=True, why="")
            for part in expression.parts:
                verdict = _decide(part, results, parameters)
                if verdict.holds == (expression.word == "or"):
                    break
            return verdict
        case Comparison():
            return _compare(expression, results, parameters)
    value = _value(expression, results, parameters)
    return Verdict(_truth(value), f"{expression} is {_show(value)}" if isinstance(expression, Reference) else "")


def _compare(expression: Comparison, results: Results, parameters: Mapping[str, Value]) -> Verdict:
    left, right = (_value(side, results, parameters) for side in (expression.left, expression.right))
    left, right = _alike(left, right)
    if isinstance(left, str) != isinstance(right, str):
        holds = expression.sign == "!="
    else:
        holds = _COMPARE[expression.sign](left, right)
    facts = [
        f"{side} is {_show(value)}"
        for side, value in ((expression.left, left), (expression.right, right))
        if isinstance(side, Reference)
    ]
    shown = [
        str(side) if isinstance(side, Reference) else _show(side.value) for side in (expression.left, expression.right)
    ]
    ruling = f"{shown[0]} {expression.sign} {shown[1]} {'holds' if holds else 'does not hold'}"
    return Verdict(holds, f"{' and '.join(facts)}, so {ruling}" if facts else ruling)


def _value(operand: Expression, results: Results, parameters: Mapping[str, Value]) -> Value:
    if isinstance(operand, Constant):
        return operand.value
    if not isinstance(operand, Reference):
        raise InvalidExpression("A comparison has a number, a text or a measurement on each side.")
    if operand.step == PARAMETERS:
        if operand.metric not in parameters:
            raise _Missing(f"there is no parameter '{operand.metric}'")
        return parameters[operand.metric]
    values = [tries[operand.metric] for tries in results.get(operand.step, ()) if operand.metric in tries]
    if not values:
        raise _Missing(f"{operand.step} recorded no '{operand.metric}'")
    numbers = [number for number in map(_number, values) if number is not None]
    if operand.fold and numbers:
        fold = max if operand.fold == "max" else min
        # NaN compares with nothing, so the order of the tries would decide.
        return fold((number for number in numbers if not math.isnan(number)), default=math.nan)
    return values[0]


def _number(value: Value) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Tags are texts; one that reads as a number is compared with a number as such."""
    if isinstance(left, str) and not isinstance(right, str):
        number = _number(left)
        return (left if number is None else number), right
    if isinstance(right, str) and not isinstance(left, str):
        number = _number(right)
        return left, (right if number is None else number)
    return left, right


def _truth(value: Value) -> bool:
    return value.lower() in {"true", "yes", "1"} if isinstance(value, str) else bool(value)


def _show(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    number = _number(value)
    return "a number too large to show" if number is None else f"{number:.6g}"


class _Parser:
    """Recursive descent: or < and < not < comparison < operand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise InvalidExpression(f"'{text}' cannot be read from '{text[position:].strip()}' on.")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self._next = 0

    def peek(self) -> str | None:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else None

    def take(self) -> tuple[str, str]:
        if self._next == len(self._tokens):
            raise InvalidExpression(f"'{self._text}' ends too early." if self._tokens else "The condition is empty.")
        self._next += 1
        return self._tokens[self._next - 1]

    def junction(self, word: str, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise InvalidExpression("The condition is nested too deeply.")
        part = self._part(word, depth)
        parts = [part]
        while self.peek() == word:
            self.take()
            parts.append(self._part(word, depth))
        return part if len(parts) == 1 else Junction(word, tuple(parts))

    def _part(self, word: str, depth: int) -> Expression:
        return self.junction("and", depth) if word == "or" else self._negation(depth)

    def _negation(self, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise InvalidExpression("The condition is nested too deeply.")
        if self.peek() == "not":
            self.take()
            return Negation(self._negation(depth + 1))
        if self.peek() == "(":
            self.take()
            inner = self.junction("or", depth + 1)
            self._expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Expression:
        left = self._operand()
        if self.peek() not in _COMPARE:
            return left
        _, sign = self.take()
        return Comparison(left, sign, self._operand())

    def _operand(self) -> Reference | Constant:
        kind, word = self.take()
        if kind == "number":
            number = float(word)
            is_exact = len(word) <= _MOST_DIGITS and word.lstrip("+-").isdigit()
            return Constant(int(word) if is_exact else number)
        if kind == "text":
            return Constant(word[1:-1])
        if word in {"true", "false"}:
            return Constant(word == "true")
        if word in _FOLDS and self.peek() == "(":
            self.take()
            inner = None if self.peek() in _FOLDS else self._operand()
            if not isinstance(inner, Reference) or inner.step == PARAMETERS:
                raise InvalidExpression(f"{word}(...) takes a measurement such as train.accuracy.")
            self._expect(")")
            return Reference(inner.step, inner.metric, word)
        step, dot, metric = word.partition(".")
        if kind != "name" or not dot:
            raise InvalidExpression(f"'{word}' is not a measurement; write STEP.METRIC, such as train.accuracy.")
        return Reference(step, metric)

    def _expect(self, sign: str) -> None:
        _, text = self.take()
        if text != sign:
            raise InvalidExpression(f"'{self._text}' lacks a '{sign}' before '{text}'.")


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Return the scope and the name of each reference. Raises InvalidExpression for one that cannot be read."""
    for _, inner in _split(text):
        if inner is None:
            return
        named = _REFERENCE.fullmatch(inner)
        if named is None:
            raise InvalidExpression(f"'{_OPEN}{inner}{_CLOSE}' is not a reference; write ${{{{ parameters.NAME }}}}.")
        scope, name = named.groups()
        allowed = SCOPES.get(scope, frozenset())
        if allowed is not None and name not in allowed:
            raise InvalidExpression(
                f"'{scope}.{name}' does not exist; there are parameters.NAME, run.id, run.number, "
                "step.name and step.index."
            )
        yield scope, name


def fill(text: str, values: Mapping[str, Mapping[str, Value]]) -> str:
    """Put the values in. Raises InvalidExpression for a name that has none."""
    return _replace(text, lambda inner: value_text(_look_up(inner, values)))


def fill_command(text: str, values: Mapping[str, Mapping[str, Value]]) -> str:
    """Put the values into a shell command, each quoted where it needs to be, so that a value is never run."""
    return _replace(text, lambda inner: shlex.quote(value_text(_look_up(inner, values))))


def is_longer(
    text: str, most_bytes: int, values: Mapping[str, Mapping[str, Value]], write: Callable[[str], str] = str
) -> bool:
    """Whether a text with its values has more than `most_bytes`; no more than those are written to find out."""
    size_bytes = 0
    for before, inner in _split(text):
        filled = before if inner is None else before + write(value_text(_look_up(inner, values)))
        size_bytes += len(filled.encode())
        if size_bytes > most_bytes:
            return True
    return False


def fill_value(value: Value, values: Mapping[str, Mapping[str, Value]]) -> Value:
    """Put the values into a parameter. A text that is one reference and nothing else takes the value with its type."""
    if not isinstance(value, str):
        return value
    match list(_split(value.strip())):
        case [("", str(inner)), ("", None)]:
            return _look_up(inner, values)
    return fill(value, values)


def value_text(value: Value) -> str:
    """Write a value as a command line carries it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each reference's inside with the text before it; at last the text behind all of them, with None."""
    position = 0
    while (start := text.find(_OPEN, position)) != -1 and (end := text.find(_CLOSE, start + len(_OPEN))) != -1:
        yield text[position:start], text[start + len(_OPEN) : end]
        position = end + len(_CLOSE)
    yield text[position:], None


def _replace(text: str, value_of: Callable[[str], str]) -> str:
    return "".join(before + ("" if inner is None else value_of(inner)) for before, inner in _split(text))


def _look_up(inner: str, values: Mapping[str, Mapping[str, Value]]) -> Value:
    scope, _, name = inner.strip().partition(".")
    try:
        return values[scope][name]
    except KeyError:
        raise InvalidExpression(f"'{inner.strip()}' has no value here.") from None
