"""Commands that people run in a job while it runs, such as to look at its files or its processes."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from django.db import DatabaseError, close_old_connections, connection

from accounts import audit
from accounts.errors import NotSignedIn
from accounts.permissions import Actor, require
from accounts.selectors import find_actor
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
LOOK_EVERY_S: Final = 5.0


def run_command(
    *, actor: Actor, job: Job, command: Sequence[str], stdin: bytes = b"", replica: int = 0
) -> Iterator[CommandOutput]:
    """Run a command in a job that runs, and yield what it prints, then its exit code.

    It sees what the job sees, its secrets too, so the actor must be allowed to use those, and every five seconds while
    it goes on. A command that is left behind by a broken connection ends with the job. Raises JobNotRunning,
    CommandRefused, ResourceUnreachable, and InvalidInput for a replica that there is not.
    """
    _require_access(actor, job)
    job_selectors.require_no_parts(job)
    if replica >= job.pod_count:
        raise InvalidInput(
            f"{job.name} has no replica {replica}; the first one is 0, the last one {job.pod_count - 1}."
        )
    if job.state != JobState.RUNNING:
        raise JobNotRunning(f"{job.name} does not run: it is {job.state}.")
    driver = drivers.driver_of(job.resource)
    if not isinstance(driver, RunsCommands):
        raise CommandRefused(
            "Without a terminal, commands can be run in jobs of clusters and Docker hosts only; "
            f"{job.resource.name} is of kind {job.resource.kind}."
        )
    audit.record(actor, "compute.run_command", job, command=" ".join(command)[:_MOST_NOTED], replica=replica)
    uses.note_use([job.pk], Use.COMMAND)
    return _while_allowed(actor, job, driver.run_command(job.run_name, replica, command, stdin))


def _require_access(actor: Actor, job: Job) -> None:
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    secrets.require_use(actor=actor, project_id=job.project_id, names=set(job_selectors.get_spec(job).secret_names))


def _while_allowed(actor: Actor, job: Job, output: Iterator[CommandOutput]) -> Iterator[CommandOutput]:
    """Yield what a command prints. Raises what `_require_access` raises once its person may not run it any more."""
    looked_at = time.monotonic()
    for piece in output:
        if time.monotonic() - looked_at >= LOOK_EVERY_S:
            with suppress(DatabaseError):  # it goes on until that can be read again, as connections do
                _look_again(actor, job)
            looked_at = time.monotonic()
        yield piece


def _look_again(actor: Actor, job: Job) -> None:
    _leave_old_connections()
    try:
        now = actor if actor.user_id is None else find_actor(actor.user_id)
        if now is None:
            raise NotSignedIn("Who began this command may not sign in any more.")
        _require_access(now, job)
    finally:
        _leave_old_connections()


def _leave_old_connections() -> None:
    """Close those that are broken or old: pieces are made on threads that no request looks after."""
    if not connection.in_atomic_block:
        close_old_connections()
