"""Who used which commit of a dataset, and when. Those who run things on data add what they know when they start."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest

from django.db.models import QuerySet

from accounts.permissions import Actor, require
from datasets import permissions
from datasets.models import CachedCommit, Dataset


@dataclass(frozen=True)
class Use:
    """One use of a commit. `what` is its name, such as a run's; `where` the site that it was read from."""

    commit_id: str
    kind: str
    what: str
    url: str
    who: str
    state: str
    at: datetime
    where: str = ""


Find = Callable[[Actor, str, int], Sequence[Use]]
"""Returns at most so many uses of the dataset `project/name` that the actor may see, the newest first."""

_sources: list[Find] = []


def add_source(find: Find) -> None:
    """Let the usage of datasets show what an app knows."""
    _sources.append(find)


def list_uses(actor: Actor, dataset: Dataset, *, limit: int) -> Sequence[Use]:
    """Return the newest uses of a dataset's commits by runs and jobs."""
    require(actor, permissions.VIEW, dataset.project_id)
    reference = f"{dataset.project.name}/{dataset.name}"
    uses = [use for find in _sources for use in find(actor, reference, limit)]
    return nlargest(limit, uses, key=lambda use: use.at)


def list_copies(actor: Actor, dataset: Dataset) -> QuerySet[CachedCommit]:
    """Return every cached copy that there is or was of a dataset's commits, newest first."""
    require(actor, permissions.VIEW, dataset.project_id)
    copies = CachedCommit.objects.filter(dataset=dataset).select_related("site", "commit")
    return copies.order_by("-pk")
