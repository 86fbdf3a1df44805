"""Connections from outside to jobs that run: tickets for them, and what a ticket opens.

Whatever a ticket was issued for is checked again when it is redeemed, and from time to time as long as what it opened
is open.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlencode, urlsplit

from django.conf import settings

from accounts import audit
from accounts.permissions import Actor, require, require_site_admin
from accounts.selectors import mark_of_sessions
from accounts.services import secrets
from compute import permissions
from compute.adapters import drivers, job_tokens
from compute.adapters.job_tokens import Claims
from compute.engine.idleness import Use
from compute.engine.port_hosts import PortHost
from compute.engine.ports import ComputeDriver, Connection, OpensPorts, OpensTerminals, TerminalRequest
from compute.engine.states import JobState
from compute.errors import CommandRefused, InvalidTicket, JobNotRunning, PortRefused
from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.selectors import resources as resource_selectors
from compute.services import uses
from core.errors import InvalidInput, PlatformError

_WHERE = "on clusters and on the platform's own machine"
# A ticket is a header of a request, which proxies limit to 8 KB.
_MOST_COMMAND_BYTES = 3000


@dataclass(frozen=True)
class Ticket:
    """What a client redeems for connections. `text` is a secret. `url` is where, below the platform's address."""

    text: str
    url: str = "/connections"
    expires_in_s: int = job_tokens.TICKET_LIFE_S


def offer_port(*, actor: Actor, job: Job, port: int, replica: int = 0) -> Ticket:
    """Return a ticket for connections to a port of a job that runs.

    What listens there may show all that the job sees, so the actor must be allowed to run commands in it. Raises
    JobNotRunning, PortRefused, ResourceUnreachable, and InvalidInput for a replica that there is not.
    """
    _require_ports(_check(actor, job, replica), job)
    audit.record(actor, "compute.open_port", job, port=port, replica=replica)
    claims = Claims(actor.user_id, job.pk, job.run_name, replica, port=port, session=mark_of_sessions(actor.user_id))
    return Ticket(job_tokens.sign_ticket(claims))


def offer_terminal(*, actor: Actor, job: Job, request: TerminalRequest, replica: int = 0) -> Ticket:
    """Return a ticket for a command in a terminal in a job that runs. It sees what the job sees.

    Raises JobNotRunning, CommandRefused, ResourceUnreachable, and InvalidInput for a replica that there is not, and for
    a command that is too long.
    """
    command = " ".join(request.command)
    if len(command.encode()) > _MOST_COMMAND_BYTES:
        raise InvalidInput(f"A command in a terminal has at most {_MOST_COMMAND_BYTES:,} bytes.")
    _require_terminals(_check(actor, job, replica), job)
    audit.record(actor, "compute.open_terminal", job, command=command, replica=replica)
    return Ticket(job_tokens.sign_ticket(Claims(actor.user_id, job.pk, job.run_name, replica, terminal=request)))


def list_port_hosts(*, actor: Actor, job: Job) -> Mapping[int, PortHost]:
    """Return the host names by which a browser reaches the ports of a job, of those that the actor may open now."""
    ports = job_selectors.get_spec(job).ports
    if not ports or not settings.NEARLINE.port_pages_url:
        return {}
    try:
        _require_ports(_check(actor, job, 0), job)
    except PlatformError:
        return {}
    return {port: PortHost(job.pk, 0, port) for port in ports}


def offer_page(*, actor: Actor, host: PortHost, path: str = "") -> str:
    """Return the address that leads a browser to the pages of a port, at a path. It holds a ticket, so it is a secret.

    Without a path it leads to where the job's Jupyter begins. Raises JobNotFound, also to those who are not members of
    its project, PortRefused where ports have no host names, and what `offer_port` raises.
    """
    address = urlsplit(settings.NEARLINE.port_pages_url)
    job = job_selectors.get_by_id(actor=actor, job_id=host.job_id)
    if not address.scheme:
        words = "Ports of jobs have no address for browsers here, as NEARLINE_JOBS_URL is not set."
        raise PortRefused(f"{words} `nearline job port-forward {job.name} {host.port}` reaches them.")
    ticket = offer_port(actor=actor, job=job, port=host.port, replica=host.rank)
    token = find_jupyter_token(actor=actor, job=job) if (host.port,) == job_selectors.get_spec(job).ports[:1] else ""
    query = urlencode({"ticket": ticket.text, "path": path or (f"/lab?token={token}" if token else "/")})
    return f"{address.scheme}://{host.label}.{address.netloc}/.nearline/enter?{query}"


def find_jupyter_token(*, actor: Actor, job: Job) -> str:
    """Return the token of a job's Jupyter; empty where it has none, and for those who may not run commands in it."""
    if not job_selectors.get_spec(job).jupyter:
        return ""
    try:
        _require_access(actor, job)
    except PlatformError:
        return ""
    return job_tokens.jupyter_token_of(job.pk)


def redeem(*, actor: Actor, claims: Claims) -> Callable[[], Awaitable[Connection]]:
    """Return what opens the connection that a ticket is for, if the actor may still have it.

    Raises InvalidTicket where the job or the session is gone, and what the offers raise; what is returned raises what
    the driver does.
    """
    if claims.session and claims.session != mark_of_sessions(claims.user_id):
        raise InvalidTicket("You were signed out since this port was opened.")
    job = Job.objects.select_related("resource").filter(pk=claims.job_id).first()
    if job is None:
        raise InvalidTicket("The job of this ticket is not there any more.")
    if job.run_name != claims.run_name:
        raise JobNotRunning(f"{job.label} was stopped, and runs anew.")
    driver = _check(actor, job, claims.rank)
    if claims.terminal is None:
        return partial(_require_ports(driver, job).open_port, claims.run_name, claims.rank, claims.port)
    return partial(_require_terminals(driver, job).open_terminal, claims.run_name, claims.rank, claims.terminal)


def note_traffic(*, actor: Actor, job_ids: Collection[str]) -> None:
    """Note that bytes were carried to or from these jobs just now. For the platform itself, which carries them."""
    require_site_admin(actor, "note the use of jobs")
    uses.note_use(job_ids, Use.CONNECTION)


def _require_access(actor: Actor, job: Job) -> None:
    """Raise PermissionDenied and ResourceUnconfined unless the actor may have all that the job has."""
    require(actor, permissions.SUBMIT_JOBS, job.project_id)
    secrets.require_use(actor=actor, project_id=job.project_id, names=set(job_selectors.get_spec(job).secret_names))
    resource_selectors.require_use(actor=actor, resources=[job.resource])


def _check(actor: Actor, job: Job, replica: int) -> ComputeDriver:
    _require_access(actor, job)
    job_selectors.require_no_parts(job)
    if replica >= job.pod_count:
        raise InvalidInput(
            f"{job.name} has no replica {replica}; the first one is 0, the last one {job.pod_count - 1}."
        )
    if job.state != JobState.RUNNING:
        raise JobNotRunning(f"{job.label} does not run: it is {job.state}.")
    return drivers.driver_of(job.resource)


def _require_ports(driver: ComputeDriver, job: Job) -> OpensPorts:
    if not isinstance(driver, OpensPorts):
        raise PortRefused(f"Ports of jobs can be reached {_WHERE}; {resource_selectors.explain_kind(job.resource)}.")
    return driver


def _require_terminals(driver: ComputeDriver, job: Job) -> OpensTerminals:
    if not isinstance(driver, OpensTerminals):
        raise CommandRefused(f"Terminals can be opened {_WHERE}; {resource_selectors.explain_kind(job.resource)}.")
    return driver
