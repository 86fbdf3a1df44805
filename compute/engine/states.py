"""The life of a job as one table."""

from enum import StrEnum

from core.states import transitions


class JobState(StrEnum):
    """Where a job is in its life. LEAVING: it is evicted, or resumed while it stops, and requeued once it has stopped.

    SUSPENDING: a person has it stopped. SUSPENDED: it holds nothing and is in no queue until it is resumed.
    """

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


class Gate(StrEnum):
    """What keeps a submitted job out of the queue.

    DATA: it is queued once the cached commits that it holds are ready. CALLER: the app that submitted it queues it.
    PARTS: it is never queued, as its parts are.
    """

    DATA = "data"
    CALLER = "caller"
    PARTS = "parts"


class ReasonCode(StrEnum):
    """Why a job ended without success, as far as a program needs to know.

    Flows have retry budgets for the first four; the last group counts as infrastructure there. IDLE_LIMIT: it was
    cancelled, because it was not used for as long as it may. TIME_LIMIT: because it ran for as long as its project lets
    it; its own limit is TIMEOUT.
    """

    USER_ERROR = "user_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INFRASTRUCTURE = "infrastructure"
    CANCELLED = "cancelled"
    IDLE_LIMIT = "idle_limit"
    TIME_LIMIT = "time_limit"
    IMAGE_UNAVAILABLE = "image_unavailable"
    UNSCHEDULABLE = "unschedulable"
    QUOTA_EXCEEDED = "quota_exceeded"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DELETED = "deleted"
    OUTPUT_LOST = "output_lost"


LIMITS = frozenset({ReasonCode.IDLE_LIMIT, ReasonCode.TIME_LIMIT})
"""Why jobs were cancelled by nobody."""


_ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.LOST)

JOB_STATES = transitions(
    {
        # One that runs as parts succeeds without having started itself.
        JobState.PENDING: [
            *(JobState.STARTING, JobState.SUSPENDED),
            *(JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED),
        ],
        # A short job may have ended before anybody saw it run.
        # What the cluster does not place where there was capacity for it waits again.
        JobState.STARTING: [
            *(JobState.PENDING, JobState.RUNNING),
            *(JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING, *_ENDS),
        ],
        JobState.RUNNING: [JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING, *_ENDS],
        JobState.LEAVING: [JobState.PENDING, JobState.SUSPENDING, JobState.STOPPING, *_ENDS],
        JobState.SUSPENDING: [JobState.SUSPENDED, JobState.LEAVING, JobState.STOPPING, *_ENDS],
        JobState.SUSPENDED: [JobState.PENDING, JobState.FAILED, JobState.CANCELLED],
        # A job that ended by itself before the stop reached it keeps its own end.
        JobState.STOPPING: _ENDS,
        **dict.fromkeys(_ENDS, ()),
    }
)

UNKNOWN = "unknown"
"""How a job is shown whose resource does not answer. Its state stays what was last known: nothing is decided by it."""


def explain_unknown(resource: str, state: JobState) -> str:
    """Return what people should know of a job whose resource does not answer, from its last known state."""
    return f"{resource} does not answer. The job was {state} at the last contact, and may still be."


HOLDING = frozenset({JobState.STARTING, JobState.RUNNING, JobState.LEAVING, JobState.SUSPENDING, JobState.STOPPING})
"""The states in which a job holds resources."""

IDLE = frozenset({JobState.PENDING, JobState.SUSPENDED})
"""The states of a job that has not ended and that no resource has."""
