"""The states of a workload, and which may follow which."""

from enum import StrEnum

from core.states import transitions


class WorkloadState(StrEnum):
    """A workload waits (`pending`), holds room on a node (`placed`), and has given it back or given up (`released`)."""

    PENDING = "pending"
    PLACED = "placed"
    RELEASED = "released"


WORKLOAD = transitions(
    {
        WorkloadState.PENDING: {WorkloadState.PLACED, WorkloadState.RELEASED},
        WorkloadState.PLACED: {WorkloadState.RELEASED},
        WorkloadState.RELEASED: set(),
    }
)
