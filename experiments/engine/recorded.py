"""How much an experiment records: the bounds of its parameters, of its tags, and of the names of its metrics.

They hold however values come: over HTTP, from a form or in a log. Who sends them is refused; of a log the rest is told.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

MAX_VALUES: Final = 1000
"""The most parameters of an experiment; it has as many tags and metrics."""
MAX_TEXT: Final = 5000
"""The most characters of a value."""
MAX_BYTES: Final = 1 << 20
"""The most bytes of all parameters of an experiment, or of all its tags, as JSON."""


def merge(before: Mapping[str, object], given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Return what is recorded once values are added, in which a key has its newest value, and the keys that do not fit.

    A value that does not fit leaves what was recorded before under its key.
    """
    merged = dict(before)
    size_bytes = sum(_size_of(key, value) for key, value in merged.items())
    excess: list[str] = []
    for key, value in given.items():
        added_bytes = _size_of(key, value) - (_size_of(key, merged[key]) if key in merged else 0)
        is_one_too_many = key not in merged and len(merged) >= MAX_VALUES
        if is_one_too_many or (added_bytes > 0 and size_bytes + added_bytes > MAX_BYTES):
            excess.append(key)
        else:
            merged[key], size_bytes = value, size_bytes + added_bytes
    return merged, excess


def find_excess(names: Collection[str], new: Iterable[str]) -> set[str]:
    """Return which new names of metrics do not fit beside those that an experiment has."""
    unknown = [name for name in dict.fromkeys(new) if name not in names]
    return set(unknown[max(MAX_VALUES - len(names), 0) :])


def _size_of(key: str, value: object) -> int:
    """Return the bytes of a member of a JSON object: what both databases write, where a letter may need six."""
    return len(json.dumps({key: value}))
