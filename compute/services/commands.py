"""Commands that people run in a job while it runs, such as to look at its files or its processes."""

from collections.abc import Iterator, Sequence

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require
from accounts.services import secrets
from compute import permissions
from compute.adapters import drivers
from compute.engine.idleness import Use
from compute.engine.ports import CommandOutput, RunsCommands
from compute.engine.states import JobState
from compute.errors import CommandRefused, JobNotRunning
from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.services import uses
from core.errors import InvalidInput

_MOST_NOTED = 1000


def run_command(
    *, actor: Actor, job: Job, command: Sequence[str], stdin: bytes = b"", replica: int = 0
) -> Iterator[CommandOutput]:
    """Run a command in a job that runs, and yield what it prints, then its exit code.

    It sees what the job sees, its secrets too, so the actor must be allowed to use those. A command that is left
    behind by a broken connection ends with the job. Raises JobNotRunning, CommandRefused, ResourceUnreachable, and
    InvalidInput for a replica that there is not.
    """
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    secrets.require_use(actor=actor, project_id=job.project_id, names=set(job_selectors.get_spec(job).secret_names))
    job_selectors.require_no_parts(job)
    if replica >= job.replica_count:
        raise InvalidInput(
            f"{job.name} has no replica {replica}; the first one is 0, the last one {job.replica_count - 1}."
        )
    if job.state != JobState.RUNNING:
        raise JobNotRunning(f"{job.name} does not run: it is {job.state}.")
    driver = drivers.driver_of(job.resource)
    if not isinstance(driver, RunsCommands):
        raise CommandRefused(
            "Without a terminal, commands can be run in jobs of clusters only; "
            f"{job.resource.name} is of kind {job.resource.kind}."
        )
    audit.record(actor, "compute.run_command", job, command=" ".join(command)[:_MOST_NOTED], replica=replica)
    uses.note_use([job.pk], Use.COMMAND)
    return driver.run_command(job.run_name, replica, command, stdin)
