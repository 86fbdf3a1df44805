"""Tickets for connections to jobs: what one is for, signed, so that any web process can read it."""

from dataclasses import asdict, dataclass, replace

from django.core import signing

from compute.engine.ports import TerminalRequest
from compute.errors import InvalidTicket

LIFE_S = 600
PASS_LIFE_S = 12 * 3600
_SALT = "compute.connection"
_PAGE_SALT = "compute.port_page"


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


def sign(claims: Claims) -> str:
    """Return a ticket."""
    return signing.dumps(asdict(claims), salt=_SALT, compress=True)


def read(ticket: str) -> Claims:
    """Return what a ticket is for. Raises InvalidTicket for one that was not issued here, or is too old.

    Programs redeem tickets with tokens of theirs, which outlive sessions.
    """
    return replace(read_for_pass(ticket), session="")


def read_for_pass(ticket: str) -> Claims:
    """Return what a pass is to be for that a browser gets for a ticket. Raises InvalidTicket."""
    return _read(ticket, _SALT, LIFE_S)


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
