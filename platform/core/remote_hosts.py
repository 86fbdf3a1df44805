"""Hosts that are attached and reached by SSH, for apps below the one that attaches them and keeps their keys.

Whoever needs a host names the attached resource; the composition root registers what opens it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from core.errors import Blame, ErrorKind, NotFound, PlatformError


class HostNotAttached(NotFound):
    """No host is attached under this id, or not any more."""

    code = "core.host_not_attached"
    hint = "Attach the host again, or remove what names it."


class HostUnreachable(PlatformError):
    """A host does not answer; asking again later may help."""

    code = "core.host_unreachable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Check that it is up and lets Nearline in. The compute page shows its last contact."


class AskHost(Protocol):
    """Asks the program of ours on a host. Every question may be asked again without harm."""

    def __call__(self, method: str, *, reply_timeout_s: float = 10.0, **arguments: Any) -> Any:
        """Return the answer. Raises HostUnreachable, also for a question that the host could not answer."""


@dataclass(frozen=True)
class RemoteHost:
    """An attached host: the id of its resource, its name, its address in the network, and what asks it."""

    resource: str
    name: str
    address: str
    ask: AskHost


Opener = Callable[[str], RemoteHost]


def _open_nothing(resource_id: str) -> RemoteHost:
    raise HostNotAttached(f"No host is attached as {resource_id}.")


_opener: Opener = _open_nothing


def install(opener: Opener) -> Opener:
    """Have hosts opened by this from now on, and return what opened them before.

    It gets the id or name of a resource, and raises HostNotAttached where that is no attached host.
    """
    global _opener
    before, _opener = _opener, opener
    return before


def open_host(resource: str) -> RemoteHost:
    """Return an attached host. Nothing is asked yet. Raises HostNotAttached."""
    return _opener(resource)
