"""The states of an experiment: those of the attempt or job that it records, or its own when it stands alone."""

from enum import StrEnum


class ExperimentState(StrEnum):
    """PREPARING: its data is on its way. SUPERSEDED: another compute template was tried instead."""

    PREPARING = "preparing"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


LIVE = (ExperimentState.PREPARING, ExperimentState.QUEUED, ExperimentState.RUNNING)
"""The states in which something may still be recorded."""
