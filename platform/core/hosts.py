"""Hosts: machines with folders of their own, each known by the identity that its home folder keeps.

What lies in such a folder belongs to one host: jobs of a local resource, copies on a cache site of kind `folder`. Its
row names the host, and only processes with that home folder work on it. Of the controllers with one home folder, one
holds the host's lease; the lease tells others the host's name and whether it is there.

What only a host's folders can tell, such as the newest lines of a log, is asked of its controller. A question changes
nothing and may be asked again. Whoever asks waits for the answer, so it is for small things that a person waits for;
work on another host is never asked for, its own controller finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from django.conf import settings

from core import clock, leases
from core.errors import ErrorKind, InvalidInput, PlatformError
from core.models import Lease

ANY = ""
"""The host of what any process may work on."""

UNBOUND = "unbound"
"""The host of what an earlier version made, until a process that has its folder starts."""

_PREFIX = "host:"
_LEASE_S = 10.0
# Longer than a restart takes.
_AWAY_AFTER = timedelta(seconds=30)


@dataclass(frozen=True)
class Host:
    """A machine whose controller has reported. `is_away`: it did not do so for half a minute."""

    id: str
    name: str
    is_away: bool


def this_host() -> str:
    """Return the identity of the host of this process."""
    host: str = settings.NEARLINE.host_id
    return host


def here() -> Sequence[str]:
    """Return the hosts of the rows that this process may work on."""
    return (ANY, this_host())


def is_here(host: str) -> bool:
    """Whether this process may work on a row with that host."""
    return host in here()


def is_away(host: str) -> bool:
    """Whether no controller reports from the host of a row."""
    return not is_here(host) and ((known := list_hosts().get(host)) is None or known.is_away)


def lease_name() -> str:
    """Return the name of the lease of this host."""
    return _PREFIX + this_host()


def take(*, holder: str) -> bool:
    """Take or renew the lease of this host; False when another controller with this home folder holds it."""
    return leases.take_named(lease_name(), holder=holder, for_s=_LEASE_S)


def release(*, holder: str) -> None:
    """End the lease of this host, so that another controller with this home folder need not wait."""
    leases.release_named(lease_name(), holder=holder)


def list_hosts() -> Mapping[str, Host]:
    """Return all hosts by their id, those that are there first."""
    if settings.NEARLINE.is_embedded:  # the process that asks is all there is
        return {}
    alive_at = clock.now() - _AWAY_AFTER
    rows = Lease.objects.filter(name__startswith=_PREFIX).order_by("lease_token", "name")
    listed = [
        Host(row.name.removeprefix(_PREFIX), row.lease_token.rpartition(":")[0], not row.is_leased_at(alive_at))
        for row in rows
    ]
    return {host.id: host for host in sorted(listed, key=lambda host: host.is_away)}


def name_of(host: str) -> str:
    """Return what people call a host; empty for none in particular, and where there is only one."""
    if host == ANY or settings.NEARLINE.is_embedded:
        return ""
    known = list_hosts()
    return known[host].name if host in known else host


def get_host(name: str) -> Host:
    """Return a host by name or id. Raises InvalidInput when there is none, or several."""
    return _find_single(name, list(list_hosts().values()))


def forget(host: str) -> None:
    """Remove a host that does not come back from those that are listed."""
    Lease.objects.filter(pk=_PREFIX + host).delete()


def choose(name: str) -> str:
    """Return the id of the host that people call `name`; without a name the only one there is.

    Raises InvalidInput when there is none of that name, or several.
    """
    present = [host for host in list_hosts().values() if not host.is_away]
    if not present:
        return this_host()
    return _find_single(name, present).id


def _find_single(name: str, known: Sequence[Host]) -> Host:
    matches = [host for host in known if name in {"", host.name, host.id}]
    if len(matches) != 1:
        names = ", ".join(sorted(f"{host.name} ({host.id})" for host in known))
        which = f"There is no single host called '{name}'. " if name else "There are several hosts. " if known else ""
        raise InvalidInput(which + (f"Name one of these: {names}." if names else "No host has reported."))
    return matches[0]


class HostAway(PlatformError):
    """The host did not answer in time."""

    code, kind = "core.host_away", ErrorKind.UNAVAILABLE
    hint = "Try again. A controller must run on that host."


Answerer = Callable[..., dict[str, Any]]


class HostCalls(Protocol):
    """Carries a question to a controller of a host, and the answer back."""

    def ask(self, host: str, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, which is JSON like the facts. Raises HostAway."""


class NoHostCalls:
    """For an installation of one host: there is nobody else to ask."""

    def ask(self, host: str, name: str, facts: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Refuse."""
        raise HostAway("This process cannot ask other hosts: it has no message broker.")


_answerers: dict[str, Answerer] = {}
_calls: HostCalls = NoHostCalls()


def answers(name: str) -> Callable[[Answerer], Answerer]:
    """Register a function that answers a question. It gets the facts as keyword arguments."""

    def register(answerer: Answerer) -> Answerer:
        _answerers[name] = answerer
        return answerer

    return register


def answer(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Answer a question here and now."""
    return _answerers[name](**facts)


def install_calls(calls: HostCalls) -> HostCalls:
    """Choose what carries the questions of this process, and return what did before."""
    global _calls
    before, _calls = _calls, calls
    return before


def ask(host: str, name: str, /, **facts: Any) -> dict[str, Any]:
    """Ask a host. Raises HostAway."""
    return _calls.ask(host, name, facts)
