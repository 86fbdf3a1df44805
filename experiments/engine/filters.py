"""Filters of experiments: `metrics.accuracy > 0.9 and params.lr in (0.1, 0.3) and tags.best and flow = "digits"`.

A small language with a parser of its own; nothing is ever handed to Python's `eval`. A condition is a column, a sign
(`= != < <= > >= in contains`) and a value; a recorded column alone asks whether it is there. `and`, `or`, `not` and
parentheses join them. A condition about something that was not recorded does not hold. Numbers compare with numbers; a
text in quotes compares as a text. `data.PROJECT/DATASET = 1a2b3c` takes the beginning of a commit.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from core import units
from core.bounds import OutOfBounds
from core.errors import InvalidInput
from experiments.engine import columns, recorded
from experiments.engine.columns import PLAIN, RECORDED, Column, Kind, Nature
from experiments.engine.filter_tree import All, Any, Contains, Filter, Is, Known, Not, Value
from experiments.errors import InvalidFilter

MAX_LENGTH = 2000
_MAX_DEPTH, _MAX_CONDITIONS = 25, 100
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<sign>>=|<=|!=|==|[<>=(),])
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>[^\s<>=!(),"']+)""",
    re.VERBOSE | re.DOTALL,
)
_UNSEARCHABLE = re.compile("[\0\ud800-\udfff]")
_ORDERS = ("<", "<=", ">", ">=")
_WORDS = ("and", "or", "not", "in", "contains")
_LONGEST_S = 1e10


def parse(text: str) -> Filter:
    """Read a filter; an empty one lets everything through. Raises InvalidFilter, saying what is wrong and where."""
    if len(text) > MAX_LENGTH:
        raise InvalidFilter(f"A filter has at most {MAX_LENGTH} characters; this one has {len(text)}.", position=1)
    if unsearchable := _UNSEARCHABLE.search(text):
        raise _error(unsearchable.start(), "there is a character that no text holds")
    parser = _Parser(text)
    return parser.whole() if text.strip() else All(())


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Parser:
    """Recursive descent: or < and < not < condition."""

    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        self._end = len(text)
        self._next = 0
        self._conditions = 0
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _error(at, "a quote is not closed" if text[at] in "\"'" else f"'{text[at]}' stands alone")
            if match.lastgroup is not None and match.lastgroup != "space":
                self._tokens.append(_Token(match.lastgroup, match[0], at, match.end()))
            at = match.end()

    def whole(self) -> Filter:
        tree = self._junction("or", 0)
        if (rest := self._peek()) is not None:
            what = "no parenthesis is open" if rest.text == ")" else "'and' or 'or' is missing before it"
            raise _error(rest.start, f"'{rest.text}' cannot follow; {what}")
        return tree

    def _junction(self, word: str, depth: int) -> Filter:
        if depth > _MAX_DEPTH:
            raise _error(self._place(), "the parentheses are nested too deeply")
        parts = [self._part(word, depth)]
        while self._is_word(word):
            self._next += 1
            parts.append(self._part(word, depth))
        if len(parts) == 1:
            return parts[0]
        return Any(tuple(parts)) if word == "or" else All(tuple(parts))

    def _part(self, word: str, depth: int) -> Filter:
        return self._junction("and", depth) if word == "or" else self._negation(depth)

    def _negation(self, depth: int) -> Filter:
        if depth > _MAX_DEPTH:
            raise _error(self._place(), "the parentheses are nested too deeply")
        if self._is_word("not"):
            self._next += 1
            return Not(self._negation(depth + 1))
        token = self._peek()
        if token is not None and token.text == "(" and token.kind == "sign":
            self._next += 1
            inner = self._junction("or", depth + 1)
            self._expect(")")
            return inner
        return self._condition()

    def _condition(self) -> Filter:
        self._conditions += 1
        if self._conditions > _MAX_CONDITIONS:
            raise _error(self._place(), f"there are more than {_MAX_CONDITIONS} conditions")
        column = self._column()
        token = self._peek()
        if token is not None and token.kind == "sign" and token.text not in "(),":
            self._next += 1
            return _comparison(column, token, "=" if token.text == "==" else token.text, self._value(token.text))
        is_negated = self._is_word("not") and self._is_word("in", 1)
        if is_negated or self._is_word("in"):
            self._next += 2 if is_negated else 1
            among = self._among(column)
            return All((Known(column), Not(among))) if is_negated else among
        if self._is_word("contains"):
            self._next += 1
            return self._contains(column)
        if column.kind is Kind.PLAIN:
            raise _error(self._place(), f"a sign is missing after '{column}', such as {column} = VALUE")
        return Known(column)

    def _column(self) -> Column:
        token = self._take("a condition is missing")
        if token.kind != "word":
            raise _error(token.start, f"a column was expected, not {token.text}")
        kind = columns.kind_of(token.text[:-1]) if token.text.endswith(".") else None
        follower = self._peek()
        if kind is not None and follower is not None and follower.kind == "text" and follower.start == token.end:
            self._next += 1
            key = _unquoted(follower.text)
            if key:
                return Column(kind, key[: columns.MAX_KEY])
        try:
            return columns.parse(token.text)
        except InvalidInput as error:
            raise _error(token.start, f"'{token.text}' is not a column; {_suggest(token.text)}") from error

    def _among(self, column: Column) -> Filter:
        sign = self._expect("(")
        comparisons = [_comparison(column, sign, "=", self._value("("))]
        while (token := self._peek()) is not None and token.text == "," and token.kind == "sign":
            self._next += 1
            comparisons.append(_comparison(column, sign, "=", self._value(",")))
            self._conditions += 1
            if self._conditions > _MAX_CONDITIONS:
                raise _error(token.start, f"there are more than {_MAX_CONDITIONS} values")
        self._expect(")")
        return Any(tuple(comparisons))

    def _contains(self, column: Column) -> Filter:
        token = self._value("contains")
        if column.nature not in {Nature.TEXT, Nature.MIXED}:
            raise _error(token.start, f"{column} is no text; compare it by = < or >")
        text = _unquoted(token.text) if token.kind == "text" else token.text
        return Contains(column, text[: recorded.MAX_COMPARED])

    def _value(self, after: str) -> _Token:
        token = self._take(f"a value is missing after '{after}'")
        if token.kind == "sign" or (token.kind == "word" and token.text.lower() in _WORDS):
            raise _error(token.start, f"a value was expected after '{after}', not '{token.text}'")
        return token

    def _expect(self, sign: str) -> _Token:
        token = self._take(f"'{sign}' is missing at the end")
        if token.text != sign or token.kind != "sign":
            raise _error(token.start, f"'{sign}' was expected, not {token.text}")
        return token

    def _take(self, otherwise: str) -> _Token:
        token = self._peek()
        if token is None:
            raise _error(self._end, otherwise)
        self._next += 1
        return token

    def _peek(self, ahead: int = 0) -> _Token | None:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _place(self) -> int:
        token = self._peek()
        return self._end if token is None else token.start

    def _is_word(self, word: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.kind == "word" and token.text.lower() == word


def _comparison(column: Column, at: _Token, sign: str, token: _Token) -> Filter:
    is_quoted = token.kind == "text"
    text = _unquoted(token.text) if is_quoted else token.text
    number = None if is_quoted else recorded.number_of(text)
    match column.nature:
        case Nature.TEXT | Nature.MIXED if sign in _ORDERS and (number is None or column.nature is Nature.TEXT):
            subject = f"{column} is a text" if column.nature is Nature.TEXT else f"{token.text} is a text"
            raise _error(at.start, f"'{sign}' compares numbers and {subject}; write = or contains")
        case Nature.NUMBER if number is None and not (text.lower() == "nan" and sign in {"=", "!="} and column.kind):
            raise _error(token.start, f"{column} is a number; {token.text} is none")
        case Nature.SECONDS:
            number = _seconds(column, token, text)
        case Nature.MOMENT:
            if sign not in _ORDERS:
                raise _error(at.start, f"{column} is a moment; compare it by < or >=, such as {column} >= 2026-11-01")
            return Is(column, sign, Value(text, moment=_moment(column, token, text)))
    return Is(column, sign, Value(text[: recorded.MAX_COMPARED], number))


def _seconds(column: Column, token: _Token, text: str) -> float:
    try:
        return units.parse_duration(text)
    except OutOfBounds:
        return _LONGEST_S
    except InvalidInput as error:
        raise _error(token.start, f"{column} is a duration; write it like 90, 5m or 2h, not {token.text}") from error


def _moment(column: Column, token: _Token, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _error(token.start, f"{column} is a moment; write it like 2026-11-01, not {token.text}") from error


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _suggest(word: str) -> str:
    kind, dot, key = word.partition(".")
    known = [*PLAIN, *map(str, RECORDED)]
    close = get_close_matches(kind, known, n=1)
    if close and dot and close[0] not in PLAIN:
        return f"did you mean {close[0]}.{key}?"
    if close and not dot:
        return f"did you mean {close[0]}?"
    return f"write params.{key or kind} or metrics.{key or kind}, or one of {', '.join(PLAIN)}"


def _error(place: int, what: str) -> InvalidFilter:
    return InvalidFilter(f"At character {place + 1}: {what}.", position=place + 1)
