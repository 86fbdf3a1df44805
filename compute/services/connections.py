"""Connections from outside to jobs that run: tickets for them, and what a ticket opens.

A ticket says who asked for what, signed, so any web process can redeem it. Whatever it was issued for is checked again
when it is redeemed, and from time to time as long as what it opened is open.
"""

from dataclasses import dataclass

from django.core import signing

from accounts import audit
from accounts.actor import Actor
from accounts.permissions import require
from accounts.selectors import find_actor
from accounts.services import secrets
from compute import permissions
from compute.adapters import drivers
from compute.engine.ports import Connection, OpensPorts
from compute.engine.states import JobState
from compute.errors import InvalidTicket, JobNotRunning, PortRefused
from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.services import confinement
from core.errors import InvalidInput, PlatformError

TICKET_LIFE_S = 600
_SALT = "compute.connection"


@dataclass(frozen=True)
class Ticket:
    """What a client redeems for connections. `text` is a secret. `url` is where, below the platform's address."""

    text: str
    url: str = "/connections"
    expires_in_s: int = TICKET_LIFE_S


@dataclass(frozen=True)
class Grant:
    """What a ticket entitles to: connections of a person to a port of a replica of one run of a job."""

    user_id: int
    job_id: str
    run_name: str
    rank: int
    port: int
    driver: OpensPorts

    async def open(self) -> Connection:
        """Connect to the job. Raises PortNotOpen, JobNotRunning and ResourceUnreachable."""
        return await self.driver.open_port(self.run_name, self.rank, self.port)


def offer_port(*, actor: Actor, job: Job, port: int, replica: int = 0) -> Ticket:
    """Return a ticket for connections to a port of a job that runs.

    What listens there may show all that the job sees, so the actor must be allowed to run commands in it. Raises
    JobNotRunning, PortRefused, ResourceUnreachable, and InvalidInput for a replica that there is not.
    """
    _check(actor, job, replica)
    audit.record(actor, "compute.open_port", job, port=port, replica=replica)
    facts = [actor.user_id, job.pk, job.run_name, replica, port]
    return Ticket(signing.dumps(facts, salt=_SALT))


def redeem(ticket: str) -> Grant:
    """Return what a ticket entitles to now. Raises InvalidTicket, and what `offer_port` raises."""
    try:
        user_id, job_id, run_name, rank, port = signing.loads(ticket, salt=_SALT, max_age=TICKET_LIFE_S)
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise InvalidTicket("This ticket is unknown or has expired.") from error
    driver = _check_run(user_id, job_id, run_name, rank)
    return Grant(user_id, job_id, run_name, rank, port, driver)


def find_fault(grant: Grant) -> PlatformError | None:
    """Return why a connection has to end that a ticket has opened; None: it may stay."""
    try:
        _check_run(grant.user_id, grant.job_id, grant.run_name, grant.rank)
    except PlatformError as error:
        return error
    return None


def _check_run(user_id: int, job_id: str, run_name: str, rank: int) -> OpensPorts:
    actor = find_actor(user_id)
    job = Job.objects.select_related("resource").filter(pk=job_id).first()
    if actor is None or job is None:
        raise InvalidTicket("Whom this ticket was issued to, or its job, is not there any more.")
    if job.run_name != run_name:
        raise JobNotRunning(f"{job.label} was stopped, and runs anew.")
    return _check(actor, job, rank)


def _check(actor: Actor, job: Job, replica: int) -> OpensPorts:
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    secrets.require_use(actor=actor, project_id=job.project_id, names=set(job_selectors.get_spec(job).secret_names))
    confinement.require_use(actor=actor, resources=[job.resource])
    if replica >= job.replica_count:
        raise InvalidInput(
            f"{job.name} has no replica {replica}; the first one is 0, the last one {job.replica_count - 1}."
        )
    if job.state != JobState.RUNNING:
        raise JobNotRunning(f"{job.label} does not run: it is {job.state}.")
    driver = drivers.driver_of(job.resource)
    if not isinstance(driver, OpensPorts):
        raise PortRefused(
            f"Ports of jobs can be reached on clusters and on the platform's own machine; {job.resource.name} is of "
            f"kind {job.resource.kind}."
        )
    return driver
