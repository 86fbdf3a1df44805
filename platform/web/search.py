"""The search box: each app finds its own things, by id, by name, and by what else people know them by.

A search costs about the same however much there is: texts are compared in the newest rows only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

from accounts.permissions import Actor
from web import navigation

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Hit:
    """One thing that was found."""

    name: str
    url: str
    detail: str


Find = Callable[[Actor, str], Sequence[Hit]]
"""Returns at most about `LIMIT` things that the actor may see and that the text names."""

LIMIT = 20
MOST_LETTERS = 200
MOST_ROWS = 5_000
_sources: dict[str, tuple[str, Find]] = {}


def add_source(kind: str, icon: str, find: Find) -> None:
    """Let the search box find things of a kind, named in the plural."""
    _sources[kind] = (icon, find)


def search(actor: Actor, text: str) -> list[tuple[str, str, Sequence[Hit]]]:
    """Return kind, icon and hits of every kind that has any."""
    text = text[:MOST_LETTERS]
    groups = [(kind, icon, find(actor, text)) for kind, (icon, find) in _sources.items()]
    return [(kind, icon, hits) for kind, icon, hits in groups if hits]


def find_rows(rows: QuerySet[M], text: str, *fields: str) -> list[M]:
    """Return the row with this id; or else, of the newest rows, those whose id begins with it or whose field holds it.

    `rows` are ordered, newest first, and limited to what the actor may see.
    """
    named = list(rows.filter(pk=text))
    if named:
        return named
    condition = Q(pk__startswith=text)
    for field in fields:
        condition |= Q(**{f"{field}__icontains": text})
    return list(rows.filter(pk__in=rows.values("pk")[:MOST_ROWS]).filter(condition)[:LIMIT])


def _find_pages(actor: Actor, text: str) -> Sequence[Hit]:
    needle = text.casefold()
    pages = [(entry, "") for entry in navigation.entries()] + [(tab, "Settings") for tab in navigation.tabs(actor)]
    return [
        Hit(page.label, page.url, detail)
        for page, detail in pages
        if needle in f"{detail} {page.label} {page.words}".casefold()
    ][:LIMIT]


add_source("Pages", "layout-dashboard", _find_pages)
