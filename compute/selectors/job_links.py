"""What a job belongs to in other apps, such as its experiment. They add what they know when they start."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accounts.actor import Actor
from compute.models import Job


@dataclass(frozen=True)
class JobLink:
    """A page about the same job in another app; `kind` is what it is, such as `Experiment`."""

    kind: str
    name: str
    url: str


Find = Callable[[Actor, str], JobLink | None]
"""Returns the page about a job, which is given by its id; None: there is none that the actor may see."""

_sources: list[Find] = []


def add_source(find: Find) -> None:
    """Let the page of a job link to what an app knows about it."""
    _sources.append(find)


def list_links(actor: Actor, job: Job) -> Sequence[JobLink]:
    """Return the pages about a job in other apps."""
    return [link for find in _sources if (link := find(actor, job.pk)) is not None]
