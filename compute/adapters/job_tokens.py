"""Tokens about jobs that the platform signs or derives from its secret key, so that none is stored.

A ticket or pass says what a connection to a job is for, and any web process can read it. A token of an attempt names
one run of one job elsewhere, and holds no right of its own. A Jupyter has one that follows from its job.
"""

from dataclasses import asdict, dataclass, replace

from django.core import signing
from django.utils.crypto import salted_hmac

from compute.engine.ports import Launch, TerminalRequest
from compute.errors import InvalidTicket

TICKET_LIFE_S = 600
PASS_LIFE_S = 12 * 3600
_TICKET_SALT = "compute.connection"
_PAGE_SALT = "compute.port_page"
_ATTEMPT_SALT = "compute.attempt"
JUPYTER_VARIABLE = "JUPYTER_TOKEN"
"""From this variable Jupyter takes its token."""
_JUPYTER_SALT = "compute.jupyter"


@dataclass(frozen=True)
class Claims:
    """What a ticket is for: a person, a replica of one run of a job, and either a port of it or a terminal in it.

    A pass ends with the sessions of its person, of which `session` is the mark.
    """

    user_id: int | None
    job_id: str
    run_name: str
    rank: int
    port: int = 0
    terminal: TerminalRequest | None = None
    session: str = ""


def sign_ticket(claims: Claims) -> str:
    """Return a ticket."""
    return signing.dumps(asdict(claims), salt=_TICKET_SALT, compress=True)


def read_ticket(ticket: str) -> Claims:
    """Return what a ticket is for. Raises InvalidTicket for one that was not issued here, or is too old.

    Programs redeem tickets with tokens of theirs, which outlive sessions.
    """
    return replace(read_ticket_for_pass(ticket), session="")


def read_ticket_for_pass(ticket: str) -> Claims:
    """Return what a pass is to be for that a browser gets for a ticket. Raises InvalidTicket."""
    return _read(ticket, _TICKET_SALT, TICKET_LIFE_S)


def sign_pass(claims: Claims) -> str:
    """Return a pass: what a browser shows with each request to the pages that a port serves, for half a day."""
    return signing.dumps(asdict(claims), salt=_PAGE_SALT, compress=True)


def read_pass(text: str) -> Claims:
    """Return what a pass is for. Raises InvalidTicket for one that was not issued here, or is too old."""
    return _read(text, _PAGE_SALT, PASS_LIFE_S)


def _read(text: str, salt: str, life_s: int) -> Claims:
    try:
        facts = signing.loads(text, salt=salt, max_age=life_s)
    except (signing.BadSignature, ValueError) as error:
        raise InvalidTicket("This ticket is unknown or has expired.") from error
    if (terminal := facts["terminal"]) is not None:
        facts["terminal"] = TerminalRequest(**{**terminal, "command": tuple(terminal["command"])})
    return Claims(**facts)


def sign_attempt(launch: Launch) -> str:
    """Return the token of a run. What it is good for is read from the database when it is used."""
    return signing.dumps([launch.job_id, launch.token], salt=_ATTEMPT_SALT)


def read_attempt(secret: str) -> tuple[str, str] | None:
    """Return the job and the fence of the run that a token names; None for what we have not signed."""
    try:
        job_id, token = signing.loads(secret, salt=_ATTEMPT_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(job_id), str(token)


def jupyter_token_of(job_id: str) -> str:
    """Return the token of a job's Jupyter."""
    return salted_hmac(_JUPYTER_SALT, job_id, algorithm="sha256").hexdigest()
