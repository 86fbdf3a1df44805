"""The states of a workload, and which may follow which."""

from enum import StrEnum

from core.states import transitions


class WorkloadState(StrEnum):
    """A workload waits (`pending`), holds room on a node (`placed`), and has given it back or given up (`released`).

    One that was evicted is `leaving`: it holds its room until it has stopped, and then waits again.
    """

    PENDING = "pending"
    PLACED = "placed"
    LEAVING = "leaving"
    RELEASED = "released"


WORKLOAD = transitions(
    {
        WorkloadState.PENDING: {WorkloadState.PLACED, WorkloadState.RELEASED},
        WorkloadState.PLACED: {WorkloadState.LEAVING, WorkloadState.RELEASED},
        WorkloadState.LEAVING: {WorkloadState.PENDING, WorkloadState.RELEASED},
        WorkloadState.RELEASED: set(),
    }
)

HOLDING = frozenset({WorkloadState.PLACED, WorkloadState.LEAVING})
"""The states in which a workload holds room."""
