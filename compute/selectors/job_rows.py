"""Jobs as lists and pages show them: each with why it is as it is, and how long it waited and ran.

The number of queries does not depend on how many jobs there are.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accounts.actor import Actor
from compute.models import Job
from compute.selectors import idleness, job_times, outlooks
from compute.selectors.idleness import Idleness, IdleState
from compute.selectors.jobs import list_parts
from compute.selectors.outlooks import Outlook
from core.times import Times


@dataclass(frozen=True)
class JobRow:
    """A job and what is known of its present.

    `idle` None: no idle limit holds for it. `outlook` None: it does not wait, or nothing is known of its wait.
    """

    job: Job
    idle: IdleState | None
    outlook: Outlook | None
    times: Times | None

    @property
    def why(self) -> str:
        """Why it is as it is: that it is idle, why and until when it waits, or else its reason.

        Of one that runs as parts it is how many there are in which state, and why the first of them waits.
        """
        if self.idle is not None and self.idle.state == Idleness.IDLE:
            return self.idle.text
        if self.outlook is None:
            return self.job.reason_shown
        return f"{self.job.reason_shown}. {self.outlook.text}" if self.job.has_parts else self.outlook.text


def read_rows(*, actor: Actor, jobs: Iterable[Job]) -> list[JobRow]:
    """Return these jobs in their order, which the actor may see."""
    listed = list(jobs)
    idle_states = idleness.find_idle_states(listed)
    outlook_of = outlooks.find_outlooks(actor=actor, jobs=listed)
    times_of = job_times.measure_times(listed)
    return [JobRow(job, idle_states.get(job.pk), outlook_of.get(job.pk), times_of[job.pk]) for job in listed]


def read_parts(*, actor: Actor, job: Job) -> list[JobRow]:
    """Return all tries of the parts of a job, by index, the last one of each first."""
    return read_rows(actor=actor, jobs=list_parts(actor=actor, job=job)) if job.has_parts else []


def read_row(*, actor: Actor, job: Job) -> JobRow:
    """Return one job, which the actor may see."""
    [row] = read_rows(actor=actor, jobs=[job])
    return row
