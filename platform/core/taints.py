"""Taints of nodes, and what work tolerates of them: as Kubernetes means them, and pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

_TOLERATION = re.compile(r"([A-Za-z0-9._/-]{1,317})(?:=([A-Za-z0-9._-]{0,63}))?(?::(NoSchedule|NoExecute))?")
_BINDING = frozenset({"NoSchedule", "NoExecute"})


class Taint(NamedTuple):
    """It keeps off all work that does not tolerate it."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """What work tolerates. An empty `key` or `effect` stands for any, and `value` None for any value."""

    key: str
    value: str | None
    effect: str

    def __str__(self) -> str:
        """Return it as people write it."""
        value = "" if self.value is None else f"={self.value}"
        return f"{self.key}{value}" + (f":{self.effect}" if self.effect else "")

    def covers(self, taint: Taint) -> bool:
        """Whether it tolerates a taint."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        return self.value is None or self.value == taint.value

    def to_json(self) -> dict[str, str]:
        """Return it as a pod has it."""
        match = {"operator": "Exists"} if self.value is None else {"value": self.value}
        named = {"key": self.key, **match, "effect": self.effect}
        return {name: text for name, text in named.items() if text or name == "value"}


def parse_toleration(text: str) -> Toleration | None:
    """Read `gpu=only:NoSchedule`, `gpu=only` or `spot`; None: it cannot be read."""
    match = _TOLERATION.fullmatch(text)
    return None if match is None else Toleration(match[1], match[2], match[3] or "")


def read_toleration(fields: Mapping[str, Any]) -> Toleration:
    """Read a toleration as a pod has it."""
    value = None if fields.get("operator") == "Exists" else str(fields.get("value", ""))
    return Toleration(str(fields.get("key") or ""), value, str(fields.get("effect") or ""))


def read_taints(entries: Iterable[Mapping[str, Any]]) -> tuple[Taint, ...]:
    """Read those taints of a node that keep work off, in their order."""
    taints = (Taint(str(each["key"]), str(each.get("value") or ""), str(each.get("effect") or "")) for each in entries)
    return tuple(taint for taint in taints if taint.effect in _BINDING)


def left_over(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that are not tolerated."""
    return tuple(taint for taint in taints if not any(each.covers(taint) for each in tolerations))
