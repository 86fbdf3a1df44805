"""What a cycle decides: who gets which room, and why the others wait."""

from dataclasses import dataclass
from enum import StrEnum


class WaitCode(StrEnum):
    """Why a workload waits, as a name for programs."""

    NO_ROOM = "no_room"
    NEVER_FITS = "never_fits"
    UNREACHABLE = "resource_unreachable"
    DRAINED = "drained"
    BEYOND_QUOTA = "beyond_quota"


@dataclass(frozen=True, slots=True)
class Place:
    """Give a workload room on a node. `gpus` pairs a device's index with the thousandths of it that are taken."""

    workload_id: str
    node_id: str
    gpus: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Explain:
    """Say why a workload waits; `text` names numbers that a person can act on."""

    workload_id: str
    code: WaitCode
    text: str


Decision = Place | Explain
