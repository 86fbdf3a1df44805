"""Labels by which the nodes of a resource are divided among pools, written as `key=value`."""

import re
from collections.abc import Container, Mapping

_LABEL = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?"
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    r"=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
)


def is_label(text: str) -> bool:
    """Whether a node can have such a label."""
    return _LABEL.fullmatch(text) is not None


def label_of(labels: Mapping[str, str], dividing: Container[str]) -> str:
    """Return the label by which a node counts: the first of the `dividing` ones that it has, by the alphabet.

    Empty: it has none of them.
    """
    own = (f"{key}={value}" for key, value in labels.items())
    return min((label for label in own if label in dividing), default="")
