"""What a template says of the pods of its jobs on a cluster, beyond their size."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compute.errors import InvalidResource
from core.taints import Toleration, parse_toleration

_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_MOST = 20


@dataclass(frozen=True)
class PodOptions:
    """It adds to what is set for all pods of the cluster; its priority class takes the place of that of the cluster.

    A node must have all labels of `node_selector`. `tolerations` are written as `gpu=only:NoSchedule`, `gpu=only` or
    `gpu`. `image_pull_secrets` are names of Secrets of the namespace.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    priority_class: str = ""
    image_pull_secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerations", tuple(self.tolerations))
        object.__setattr__(self, "image_pull_secrets", tuple(self.image_pull_secrets))

    @classmethod
    def read(cls, value: object) -> "PodOptions":
        """Read `to_json`'s answer, or the same names from elsewhere; also None, of jobs of earlier releases."""
        return cls(**value) if isinstance(value, Mapping) else cls()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON types, without what says nothing."""
        return {name: value for name, value in vars(self).items() if value}

    @property
    def parsed_tolerations(self) -> tuple[Toleration, ...]:
        """What its pods tolerate."""
        return tuple(filter(None, map(parse_toleration, self.tolerations)))

    def check(self) -> None:
        """Raise InvalidResource for what no pod could have."""
        if faults := self._faults():
            raise InvalidResource(faults[0], field="pod")

    def _faults(self) -> Sequence[str]:
        faults = [
            f"'{key}={value}' is no label of a node; write one like pool=train."
            for key, value in self.node_selector.items()
            if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value))
        ]
        faults += [
            f"'{text}' is no toleration; write one like gpu=only:NoSchedule, gpu=only or gpu."
            for text in self.tolerations
            if parse_toleration(text) is None
        ]
        faults += [
            f"'{name}' cannot be the name of {what}: use small letters, digits, '-' and '.'."
            for what, names in (("a priority class", [self.priority_class]), ("a Secret", self.image_pull_secrets))
            for name in names
            if (name or what == "a Secret") and not _NAME.fullmatch(name)
        ]
        if max(map(len, (self.node_selector, self.tolerations, self.image_pull_secrets))) > _MOST:
            faults.append(f"A template names at most {_MOST} labels, tolerations and Secrets each.")
        return faults

    def in_words(self) -> list[tuple[str, str]]:
        """Return what it says, for people: names and values."""
        shown = {
            "Nodes with": ", ".join(f"{key}={value}" for key, value in self.node_selector.items()),
            "Tolerates": ", ".join(self.tolerations),
            "Priority class": self.priority_class,
            "Pull secrets": ", ".join(self.image_pull_secrets),
        }
        return [(name, text) for name, text in shown.items() if text]
