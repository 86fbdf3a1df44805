"""What is known of the checkpoints of a job."""

from dataclasses import dataclass
from datetime import datetime

from accounts.permissions import Actor, require
from compute import permissions
from compute.engine.checkpoints import Saved, describe
from compute.engine.states import JOB_STATES, JobState
from compute.models import Checkpoint, Job
from core import clock

_UNFINISHED = JOB_STATES.final - {JobState.SUCCEEDED}


@dataclass(frozen=True)
class CheckpointState:
    """The last checkpoint that a job told of, and what its last interruption cost; None: it told of none, or had none.

    `text` says all of it in words.
    """

    step: int | None
    saved_at: datetime | None
    resumed_step: int | None
    lost_s: float | None
    text: str


def find_state(*, actor: Actor, job: Job) -> CheckpointState | None:
    """Return what is known of the checkpoints of a job; None where it keeps none.

    Attempts of a step share a folder, so what is told is that of the newest one.
    """
    require(actor, permissions.VIEW_JOBS, job.project_id)
    if job.checkpoint_id is None:
        return None
    row = Checkpoint.objects.get(pk=job.checkpoint_id)
    saved = Saved(row.step, row.saved_at)
    if job.state not in _UNFINISHED:  # such a job does not go on
        saved = Saved(row.step, row.saved_at, row.resumed_step, row.lost_s)
    text = describe(saved, has_restarted=job.started_at is not None, now=clock.now())
    text = " ".join(filter(None, [text, row.error])) or "It has told of no checkpoint yet."
    return CheckpointState(saved.step, saved.saved_at, saved.resumed_step, saved.lost_s, text)
