"""The host name under which a browser reaches a port of a job: one for each, so that none acts as another or as us."""

import re
from dataclasses import dataclass
from typing import Self

_LABEL = re.compile(r"([1-9][0-9]{0,4})-(0|[1-9][0-9]{0,5})-([0-9a-z]{20})")
_PREFIX = "job_"
_MOST_PORT = 65535


@dataclass(frozen=True)
class PortHost:
    """A port of a replica of a job. `label` is the first label of its host name (RFC 1035: letters, digits, `-`)."""

    job_id: str
    rank: int
    port: int

    @property
    def label(self) -> str:
        """`PORT-RANK-ID`."""
        return f"{self.port}-{self.rank}-{self.job_id.removeprefix(_PREFIX)}"

    @property
    def path(self) -> str:
        """Where the platform leads a browser to it."""
        return f"/ports/{self.label}/"

    @classmethod
    def read(cls, label: str) -> Self | None:
        """Return what a label names; None for what is none."""
        match = _LABEL.fullmatch(label.lower())
        if match is None or int(match[1]) > _MOST_PORT:
            return None
        return cls(_PREFIX + match[3], int(match[2]), int(match[1]))
