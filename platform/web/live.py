"""Topics that pages can subscribe to: who may hear of each, and a stamp that is another one once it has changed.

A topic is `kind` or `kind:key`. Each app adds its kinds when it starts. Nothing but "it changed" is ever told: the page
asks for its region again, and so sees what its reader may see. `web.live_stream` carries it to the browsers.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from accounts.actor import Actor
from core.errors import NotFound

Check = Callable[[Actor, str], object]
Stamps = Callable[[Collection[str]], Mapping[str, str]]


class UnknownTopic(NotFound):
    """No app tells anything under this name."""

    code = "web.unknown_topic"


@dataclass(frozen=True)
class Kind:
    """What topics of one kind share.

    `check` raises the error that the page of that key would raise. `stamps` answers for all keys at once with one
    cheap query, as it is asked once a second while anybody watches; a key that it leaves out has changed into nothing.
    """

    check: Check
    stamps: Stamps


_kinds: dict[str, Kind] = {}


def add_kind(name: str, *, check: Check, stamps: Stamps) -> None:
    """Make topics of a kind known."""
    _kinds[name] = Kind(check, stamps)


def check(actor: Actor, topic: str) -> None:
    """Raise UnknownTopic, or the app's own error, unless the actor may follow the topic."""
    kind, _, key = topic.partition(":")
    if kind not in _kinds:
        raise UnknownTopic(f"There is no topic '{topic}'.")
    _kinds[kind].check(actor, key)


def read_stamps(topics: Collection[str]) -> dict[str, str]:
    """Return the stamps of checked topics, with one query for each kind among them."""
    keys: dict[str, set[str]] = {}
    for topic in topics:
        kind, _, key = topic.partition(":")
        keys.setdefault(kind, set()).add(key)
    stamps = {kind: _kinds[kind].stamps(keys_of_kind) for kind, keys_of_kind in keys.items()}
    return {topic: stamps[topic.partition(":")[0]].get(topic.partition(":")[2], "") for topic in topics}
