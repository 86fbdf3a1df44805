"""What projects have: each app says what becomes of its part when a project is deleted, stops it, and removes it.

So a project is deleted as a whole, though this app knows no datasets, runs or jobs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import Project
from accounts.permissions import Actor
from core.orm import BATCH_ROWS

MOST_ITEMS = 20
"""So many things of a kind are named at most."""

_PARENTS = 100


@dataclass(frozen=True)
class Item:
    """A thing that a deletion concerns: its name, and what there is to say of it, such as by whom it was started."""

    name: str
    text: str = ""


@dataclass(frozen=True)
class Effect:
    """What a deletion does to the things of one kind: how many there are, and what becomes of them as a sentence.

    `items` are the first of them, where their names help.
    """

    kind: str
    count: int
    text: str
    size_bytes: int = 0
    items: Sequence[Item] = ()


class RemovalWaits(Exception):
    """The next rows cannot be removed yet; the message says what that waits for."""


class DescribesContents(Protocol):
    """Says what a deletion would do."""

    def __call__(self, *, actor: Actor, project: Project) -> Sequence[Effect]:
        """Return the effects on what there is; kinds of which there is nothing are left out."""


@dataclass(frozen=True)
class ProjectContents:
    """The part of projects that one app has.

    `stop` ends all work of a deleted project, and can be repeated. `remove` removes the next batch of rows of a project
    that was deleted for good; it returns False once nothing is left, and raises RemovalWaits.
    """

    name: str
    describe: DescribesContents
    stop: Callable[[Project], None]
    remove: Callable[[str], bool]


_registered: list[ProjectContents] = []


def add(contents: ProjectContents) -> None:
    """Ask this app too from now on."""
    _registered.append(contents)


def registered() -> list[ProjectContents]:
    """Return the parts, those of apps that know others first: runs go before their jobs, and jobs before their data."""
    return _registered[::-1]


def remove_first(*tables: QuerySet[Any]) -> bool:
    """Delete some rows of the first of these tables that has any; return whether there were any."""
    for rows in tables:
        with transaction.atomic():
            # In whatever order an index gives them: to sort a million rows for each batch would take long.
            ids = list(rows.order_by().values_list("pk", flat=True)[:BATCH_ROWS])
            rows.model._default_manager.filter(pk__in=ids).delete()
        if ids:
            return True
    return False


def first_ids(rows: QuerySet[Any]) -> list[Any]:
    """Return the ids of the first rows, whose parts are then found by an index, however many others have."""
    return list(rows.order_by("pk").values_list("pk", flat=True)[:_PARENTS])
