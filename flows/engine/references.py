"""References in texts of a flow: `${{ parameters.lr }}`, `${{ run.number }}`, `${{ step.index }}`. Values, no code."""

import re
import shlex
from collections.abc import Iterator, Mapping

from flows.engine.expressions import Value
from flows.errors import InvalidExpression

_REFERENCE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\s*([a-z]+)\.([A-Za-z_][\w-]*)\s*")
SCOPES: Mapping[str, frozenset[str] | None] = {
    "parameters": None,
    "run": frozenset({"id", "number"}),
    "step": frozenset({"name", "index"}),
}
"""What may be referred to; None: any name that is declared."""


def find(text: str) -> Iterator[tuple[str, str]]:
    """Return the scope and the name of each reference. Raises InvalidExpression for one that cannot be read."""
    for match in _REFERENCE.finditer(text):
        named = _NAME.fullmatch(match[1])
        if named is None:
            raise InvalidExpression(f"'{match[0]}' is not a reference; write ${{{{ parameters.NAME }}}}.")
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
    return _REFERENCE.sub(lambda match: value_text(_look_up(match[1], values)), text)


def fill_command(text: str, values: Mapping[str, Mapping[str, Value]]) -> str:
    """Put the values into a shell command, each quoted where it needs to be, so that a value is never run."""
    return _REFERENCE.sub(lambda match: shlex.quote(value_text(_look_up(match[1], values))), text)


def fill_value(value: Value, values: Mapping[str, Mapping[str, Value]]) -> Value:
    """Put the values into a parameter. A text that is one reference and nothing else takes the value with its type."""
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value.strip())
    return _look_up(whole[1], values) if whole else fill(value, values)


def value_text(value: Value) -> str:
    """Write a value as a command line carries it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _look_up(inner: str, values: Mapping[str, Mapping[str, Value]]) -> Value:
    scope, _, name = inner.strip().partition(".")
    try:
        return values[scope][name]
    except KeyError:
        raise InvalidExpression(f"'{inner.strip()}' has no value here.") from None
