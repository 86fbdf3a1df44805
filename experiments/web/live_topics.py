"""Topics that pages can subscribe to: `experiments` (any of them)."""

from accounts.actor import Actor
from experiments.selectors import stamps
from web import live


def _anybody(_actor: Actor, _key: str) -> None:
    """Everybody signed in may hear that some experiment changed; which one, the lists tell to its project's members."""


live.add_kind("experiments", check=_anybody, stamps=lambda keys: dict.fromkeys(keys, stamps.stamp_of_all()))
