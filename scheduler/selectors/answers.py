"""What a waiting workload is told beyond the sentence: what would let it start, and the proof, in words for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.engine.proof import WAITS, Cause, Remedy, Resource, Suggestion
from scheduler.engine.wording import advise, write
from scheduler.models import Workload

_MIB = 1024**2
_CAUSES = {
    Cause.NOT_ALLOWED: "not allowed for it",
    Cause.TOO_SMALL: "too small even when empty",
    Cause.NOT_READY: "not ready",
    Cause.DRAINED: "drained",
    Cause.BUSY: "in use",
    Cause.RESERVED: "kept for other work",
    Cause.HAS_CAPACITY: "with capacity",
}


@dataclass(frozen=True)
class PassedBound:
    """A quota or limit that the workload would pass."""

    queue: str
    kind: str
    held: str
    asked: str
    amount: str


@dataclass(frozen=True)
class ShortageText:
    """One resource of which a node has less than is asked for."""

    asked: str
    there: str
    missing: str


@dataclass(frozen=True)
class NearNode:
    """A node that lacks little, and what."""

    name: str
    cause: str
    shortages: Sequence[ShortageText]


@dataclass(frozen=True)
class ProofText:
    """Why a workload cannot start yet. `others` counts the nodes that are not listed by cause.

    `action` is what of the advice somebody can do: beside a time at which it starts, to wait is no news.
    """

    advice: str
    action: str
    bounds: Sequence[PassedBound]
    nodes: Sequence[NearNode]
    others: Sequence[tuple[int, str]]


def find_proof(workload: Workload | None) -> ProofText | None:
    """Return the proof that a workload has to wait, by a query of its own; None while there is none."""
    answer = workload.answer if workload is not None else None
    if answer is None:
        return None
    stored = answer.proof
    return ProofText(
        advice=answer.advice,
        action=advise([each for each in map(_suggestion, stored["unblock"]) if each.remedy not in WAITS]),
        bounds=[_bound(bound) for bound in stored["bounds"]],
        nodes=[_node(node) for node in stored["nearest"]],
        others=[(stored["others"][cause], words) for cause, words in _CAUSES.items() if cause in stored["others"]],
    )


def _suggestion(stored: Mapping[str, Any]) -> Suggestion:
    resource = None if stored["resource"] is None else Resource(stored["resource"])
    return Suggestion(Remedy(stored["way"]), stored["where"], resource, stored["amount"], stored["profile"])


def _bound(bound: Mapping[str, Any]) -> PassedBound:
    held, asked, amount = (write(Resource(bound["resource"]), bound[name]) for name in ("held", "asked", "amount"))
    return PassedBound(bound["queue"], bound["kind"], held, asked, amount)


def _node(node: Mapping[str, Any]) -> NearNode:
    return NearNode(node["node"], _CAUSES[Cause(node["cause"])], [_shortage(lack) for lack in node["shortages"]])


def _shortage(lack: Mapping[str, Any]) -> ShortageText:
    resource, profile, asked, there = Resource(lack["resource"]), lack["profile"], lack["asked"], lack["available"]
    if resource is Resource.MEMORY:
        # Equal shares of a node leave the few bytes that cannot be divided: they are of use to nobody.
        asked, there = asked + -asked % _MIB, there - there % _MIB
    return ShortageText(*(write(resource, amount, profile) for amount in (asked, there, asked - there)))
