"""The life of a job as one table."""

from enum import StrEnum

from core.states import transitions


class JobState(StrEnum):
    """Where a job is in its life. LEAVING: it is evicted, and requeued once it has stopped."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


class ReasonCode(StrEnum):
    """Why a job ended without success, as far as a program needs to know.

    Flows have retry budgets for the first four; the last group counts as infrastructure there.
    """

    USER_ERROR = "user_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INFRASTRUCTURE = "infrastructure"
    CANCELLED = "cancelled"
    IMAGE_UNAVAILABLE = "image_unavailable"
    UNSCHEDULABLE = "unschedulable"
    QUOTA_EXCEEDED = "quota_exceeded"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DELETED = "deleted"
    OUTPUT_LOST = "output_lost"


_ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST)

JOB_STATES = transitions(
    {
        JobState.PENDING: [JobState.STARTING, JobState.FAILED, JobState.CANCELLED],
        # A short job may have ended before anybody saw it run.
        JobState.STARTING: [JobState.RUNNING, JobState.LEAVING, JobState.STOPPING, *_ENDS],
        JobState.RUNNING: [JobState.LEAVING, JobState.STOPPING, *_ENDS],
        JobState.LEAVING: [JobState.PENDING, JobState.STOPPING, *_ENDS],
        # A job that ended by itself before the stop reached it keeps its own end.
        JobState.STOPPING: _ENDS,
        **dict.fromkeys(_ENDS, ()),
    }
)

HOLDING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.LEAVING, JobState.STOPPING})
"""The states in which a job holds resources."""
