"""Tickets for connections to jobs: what one is for, signed, so that any web process can read it."""

from dataclasses import asdict, dataclass

from django.core import signing

from compute.engine.ports import TerminalRequest
from compute.errors import InvalidTicket

LIFE_S = 600
_SALT = "compute.connection"


@dataclass(frozen=True)
class Claims:
    """What a ticket is for: a person, a replica of one run of a job, and either a port of it or a terminal in it."""

    user_id: int | None
    job_id: str
    run_name: str
    rank: int
    port: int = 0
    terminal: TerminalRequest | None = None


def sign(claims: Claims) -> str:
    """Return a ticket."""
    return signing.dumps(asdict(claims), salt=_SALT, compress=True)


def read(ticket: str) -> Claims:
    """Return what a ticket is for. Raises InvalidTicket for one that was not issued here, or is too old."""
    try:
        facts = signing.loads(ticket, salt=_SALT, max_age=LIFE_S)
    except (signing.BadSignature, ValueError) as error:
        raise InvalidTicket("This ticket is unknown or has expired.") from error
    if (terminal := facts["terminal"]) is not None:
        facts["terminal"] = TerminalRequest(**{**terminal, "command": tuple(terminal["command"])})
    return Claims(**facts)
