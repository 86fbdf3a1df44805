"""YAML is written here without a library: flows, and what commands show."""

import json
from collections.abc import Mapping
from typing import Any

from nearline.errors import InvalidRequest

_WORDS_WITH_A_MEANING = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def write_yaml(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML text."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Mapping[str, Any]) -> list[str]:
    """Write a mapping as YAML: blocks for what is long; JSON, which YAML includes, for scalars and short lists."""
    lines: list[str] = []
    for key, item in value.items():
        name = _scalar(key)
        if isinstance(item, Mapping) and item:
            lines += [f"{name}:", *(f"  {line}" for line in _lines(item))]
        elif isinstance(item, list) and any(isinstance(part, Mapping) for part in item):
            lines.append(f"{name}:")
            for part in item:
                first, *rest = _lines(part) if isinstance(part, Mapping) else [_scalar(part)]
                lines += [f"  - {first}", *(f"    {line}" for line in rest)]
        else:
            lines.append(f"{name}: {_scalar(item)}")
    return lines


def _scalar(value: Any) -> str:
    is_word = isinstance(value, str) and value.isidentifier() and value.isascii()
    if is_word and value.lower() not in _WORDS_WITH_A_MEANING:
        return str(value)
    # YAML reads JSON, but for characters that it wants escaped and pairs of surrogates that it does not join.
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)


def _plain(value: Any) -> Any:
    """Return the number or text of a value that JSON does not know, as those of NumPy."""
    if callable(item := getattr(value, "item", None)):
        return item()
    raise InvalidRequest(f"{value!r} cannot stand in a flow.", hint="Write a number, a text, true or false.")
