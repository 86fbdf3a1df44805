"""Questions to another host: what only its folders can tell, such as the newest lines of a log.

A question changes nothing and may be asked again. Whoever asks waits for the answer, so it is for small things that a
person waits for; work on another host is never asked for, its own controller finds it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from core.errors import ErrorKind, PlatformError


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


def install(calls: HostCalls) -> HostCalls:
    """Choose what carries the questions of this process, and return what did before."""
    global _calls
    before, _calls = _calls, calls
    return before


def ask(host: str, name: str, /, **facts: Any) -> dict[str, Any]:
    """Ask a host. Raises HostAway."""
    return _calls.ask(host, name, facts)
