"""The states of a workload, and which may follow which."""

from enum import StrEnum

from core.states import transitions


class WorkloadState(StrEnum):
    """A workload waits (`pending`), holds capacity (`placed`), and has released it or was withdrawn (`released`).

    An evicted one is `leaving`: it holds its capacity until it has stopped, and is then pending again.
    """

    PENDING = "pending"
    PLACED = "placed"
    TERMINATING = "leaving"
    RELEASED = "released"


WORKLOAD = transitions(
    {
        WorkloadState.PENDING: {WorkloadState.PLACED, WorkloadState.RELEASED},
        # One that never began where it was placed waits again.
        WorkloadState.PLACED: {WorkloadState.PENDING, WorkloadState.TERMINATING, WorkloadState.RELEASED},
        WorkloadState.TERMINATING: {WorkloadState.PENDING, WorkloadState.RELEASED},
        WorkloadState.RELEASED: set(),
    }
)

HOLDING = frozenset({WorkloadState.PLACED, WorkloadState.TERMINATING})
"""The states in which a workload holds capacity."""

LIVE = HOLDING | {WorkloadState.PENDING}
"""The states of a workload that has not ended."""
