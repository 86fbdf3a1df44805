"""YAML as other programs write it, to mappings, lists and texts. Of plain texts only true, false and null mean more.

A hash of nothing but digits is a text too, as it stands there: as a number it would lose its zeros.
Files come from strangers: depth and size are bounded, and an alias counts as much as what it stands for.
"""

from collections.abc import Callable

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

_Node = AliasEvent | ScalarEvent | SequenceStartEvent | MappingStartEvent
_MAX_DEPTH = 40
_MAX_PARTS = 500_000
_MEANINGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False} | dict.fromkeys(
    ("", "~", "null", "Null", "NULL")
)


class UnreadableYaml(ValueError):
    """A text is no YAML, or too much of it."""


def read_yaml(text: str | bytes) -> object:
    """Return what a document holds; None for an empty one. Raises UnreadableYaml."""
    try:
        return _Reader(text).read()
    except (yaml.YAMLError, StopIteration) as error:
        raise UnreadableYaml(f"It is not YAML: {str(error).partition(chr(10))[0]}.") from error


class _Reader:
    def __init__(self, text: str | bytes) -> None:
        # The events of libyaml: in pure Python a MiB would take ten seconds.
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        self._next: Callable[[], _Node] = yaml.parse(text, Loader=loader).__next__  # type: ignore[assignment]  # or an end
        self._anchors: dict[str, tuple[object, int]] = {}
        self._parts = 0

    def read(self) -> object:
        self._next()
        return self._value(self._next(), 0) if isinstance(self._next(), DocumentStartEvent) else None

    def _value(self, event: _Node, depth: int) -> object:
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise UnreadableYaml(f"'*{event.anchor}' stands for nothing before it.")
            value, parts = self._anchors[event.anchor]
            self._count(parts, depth)
            return value
        before = self._parts
        self._count(1, depth)
        match event:
            case MappingStartEvent():
                value = self._mapping(depth)
            case SequenceStartEvent():
                value = self._sequence(depth)
            case ScalarEvent():
                value = _MEANINGS.get(event.value, event.value) if event.implicit[0] else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._parts - before
        return value

    def _sequence(self, depth: int) -> list[object]:
        items = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, object]:
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        while not isinstance(key := self._next(), MappingEndEvent):
            if not isinstance(key, ScalarEvent):
                raise UnreadableYaml("A key is no text.")
            value = self._value(self._next(), depth + 1)
            if key.value == "<<" and key.implicit[0]:
                for part in value if isinstance(value, list) else [value]:
                    merged = {**part, **merged} if isinstance(part, dict) else merged
            elif key.value in own:
                raise UnreadableYaml(f"It has the key '{key.value}' twice.")
            else:
                own[key.value] = value
        return {**merged, **own}

    def _count(self, parts: int, depth: int) -> None:
        self._parts += parts
        if self._parts > _MAX_PARTS or depth > _MAX_DEPTH:
            raise UnreadableYaml(f"It has more than {_MAX_PARTS:,} parts, or more than {_MAX_DEPTH} levels.")
