"""Labels by which the nodes of a resource are divided among pools, written as `key=value`."""

import re
from collections.abc import Iterable, Mapping

_LABEL = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?"
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    r"=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
)


def is_label(text: str) -> bool:
    """Whether a node can have such a label."""
    return _LABEL.fullmatch(text) is not None


def label_of(labels: Mapping[str, str], dividing: Iterable[str]) -> str:
    """Return the label by which a node counts: the first of the `dividing` ones that it has, by the alphabet.

    Empty: it has none of them.
    """
    return next((label for label in sorted(dividing) if label and _has(labels, label)), "")


def _has(labels: Mapping[str, str], label: str) -> bool:
    key, _, value = label.partition("=")
    return labels.get(key) == value
