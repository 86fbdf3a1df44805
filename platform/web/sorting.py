"""The order of a table: chosen by its headings, kept in the address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from core.errors import InvalidInput
from core.pagination import Page, paginate, paginate_by

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Sort:
    """By which column a table is ordered: its word in the address, and the model's field (`pk`: by age)."""

    word: str
    field: str
    descending: bool

    def paginate(self, rows: QuerySet[M], *, cursor: str | None, limit: int) -> Page[M]:
        """Return a page of rows in this order."""
        if self.field == "pk":
            return paginate(rows, cursor=cursor, limit=limit, newest_first=self.descending)
        return paginate_by(rows, field=self.field, descending=self.descending, cursor=cursor, limit=limit)


def read_sort(request: HttpRequest, fields: Mapping[str, str], default: str) -> Sort:
    """Return the order that `?sort=` asks for; a word after a minus is descending. Raises InvalidInput."""
    asked = request.GET.get("sort", "").strip() or default
    word = asked.removeprefix("-")
    if word not in fields:
        raise InvalidInput(f"A table cannot be sorted by '{word}'. It can by: {', '.join(fields)}.")
    return Sort(word, fields[word], descending=asked.startswith("-"))
