"""References in texts of a flow: `${{ parameters.lr }}`, `${{ run.number }}`, `${{ step.index }}`. Values, no code."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from flows.engine.expressions import Value
from flows.errors import InvalidExpression

_OPEN, _CLOSE = "${{", "}}"
_NAME = re.compile(r"\s*([a-z]+)\.([A-Za-z_][\w-]*)\s*")
SCOPES: Mapping[str, frozenset[str] | None] = {
    "parameters": None,
    "run": frozenset({"id", "number"}),
    "step": frozenset({"name", "index"}),
}
"""What may be referred to; None: any name that is declared."""


def find(text: str) -> Iterator[tuple[str, str]]:
    """Return the scope and the name of each reference. Raises InvalidExpression for one that cannot be read."""
    for _, inner in _split(text):
        if inner is None:
            return
        named = _NAME.fullmatch(inner)
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
