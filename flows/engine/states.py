"""The lives of runs, steps and attempts, one table each, and what retry budgets distinguish."""

from enum import StrEnum

from core.states import transitions


class RunState(StrEnum):
    """Where a run is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepState(StrEnum):
    """Where one step of a run is. BACKOFF: an attempt failed and the next one starts soon."""

    PENDING = "pending"
    PREPARING = "preparing"
    QUEUED = "queued"
    RUNNING = "running"
    BACKOFF = "backoff"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """Where one try of a step is. SUPERSEDED: it waited too long and the next template is tried instead."""

    PREPARING = "preparing"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class FailureKind(StrEnum):
    """Why an attempt failed; each kind has a retry budget of its own.

    TIMEOUT: it ran, or was idle, for longer than it may. From IMAGE_UNAVAILABLE on it was the cluster's doing, and
    INFRASTRUCTURE's budget counts where none is given.
    INPUT_CHANGED: the command succeeded, but what it read was changed meanwhile; it is not tried again by itself.
    """

    USER_ERROR = "user_error"
    INFRASTRUCTURE = "infrastructure"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    INPUT_CHANGED = "input_changed"
    IMAGE_UNAVAILABLE = "image_unavailable"
    UNSCHEDULABLE = "unschedulable"
    QUOTA_EXCEEDED = "quota_exceeded"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    DELETED = "deleted"
    OUTPUT_LOST = "output_lost"


RUN_ENDS = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})

_STARTED = (StepState.PREPARING, StepState.QUEUED)
_STEP_ENDS = (StepState.SUCCEEDED, StepState.FAILED, StepState.SKIPPED, StepState.CANCELLED)
_ENDS_OF_ATTEMPT = (StepState.SUCCEEDED, StepState.FAILED, StepState.CANCELLED, StepState.BACKOFF)
STEP_STATES = transitions(
    {
        StepState.PENDING: [*_STARTED, StepState.SKIPPED, StepState.CANCELLED, StepState.FAILED],
        StepState.PREPARING: [StepState.QUEUED, *_ENDS_OF_ATTEMPT],
        # A short job may have ended before anybody saw it run; a superseded attempt may make way for one that prepares.
        StepState.QUEUED: [StepState.RUNNING, StepState.PREPARING, StepState.QUEUED, *_ENDS_OF_ATTEMPT],
        # An evicted job is requeued.
        StepState.RUNNING: [StepState.QUEUED, *_ENDS_OF_ATTEMPT],
        StepState.BACKOFF: [*_STARTED, StepState.FAILED, StepState.CANCELLED],
        # A retry opens what did not succeed again; one from a step on, that step and all after it.
        StepState.FAILED: [StepState.PENDING],
        StepState.SKIPPED: [StepState.PENDING],
        StepState.CANCELLED: [StepState.PENDING],
        StepState.SUCCEEDED: [StepState.PENDING],
    }
)
STEP_ENDS = frozenset(_STEP_ENDS)

_ATTEMPT_ENDS = (AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.CANCELLED)
ATTEMPT_STATES = transitions(
    {
        AttemptState.PREPARING: [AttemptState.QUEUED, AttemptState.FAILED, AttemptState.CANCELLED],
        AttemptState.QUEUED: [AttemptState.RUNNING, AttemptState.SUPERSEDED, *_ATTEMPT_ENDS],
        AttemptState.RUNNING: [AttemptState.QUEUED, *_ATTEMPT_ENDS],
        **dict.fromkeys((*_ATTEMPT_ENDS, AttemptState.SUPERSEDED), ()),
    }
)
