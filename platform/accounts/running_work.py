"""What runs for people: each app that starts work says what of it a person started, and how it is stopped.

So whoever disables a person learns what goes on without them, though this app knows neither runs nor jobs.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from accounts.permissions import Actor


@dataclass(frozen=True)
class WorkItem:
    """Something of a person's that has not ended: a `run` or a `job`, by its name and the address of its page."""

    username: str
    kind: str
    name: str
    project: str
    url: str


class StopWork(Protocol):
    """Cancels all that runs or waits to run for a person."""

    def __call__(self, *, actor: Actor, username: str) -> None:
        """Cancel it. Raises PermissionDenied."""


@dataclass(frozen=True)
class WorkSource:
    """How an app lists what has not ended, by the names of people, and stops all of one person's."""

    list_work: Callable[[Collection[str]], Sequence[WorkItem]]
    stop_work: StopWork


_sources: list[WorkSource] = []


def add_source(source: WorkSource) -> None:
    """Ask this app too from now on."""
    _sources.append(source)


def list_work(usernames: Collection[str]) -> list[WorkItem]:
    """Return what runs or waits to run for these people. For callers that have checked who may know."""
    return [item for source in _sources for item in source.list_work(usernames)]


def stop_work(*, actor: Actor, username: str) -> None:
    """Cancel all that runs or waits to run for a person. The apps check that the actor may."""
    for source in _sources:
        source.stop_work(actor=actor, username=username)
