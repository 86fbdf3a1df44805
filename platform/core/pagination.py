"""One cursor pagination for every list: pages follow a unique, ordered key, so rows neither repeat nor go missing.

A table is in the order that its headings choose, which the address keeps (`?sort=`).
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import IntegerField, Model, Q, QuerySet
from django.http import HttpRequest
from pydantic import Field

from core import bounds
from core.errors import InvalidInput

K = TypeVar("K", int, str, list[object])
M = TypeVar("M", bound=Model)
R = TypeVar("R")

MAX_LIMIT = 1000
Cursor = Annotated[str | None, Field(max_length=bounds.MAX_CURSOR)]
Limit = bounds.Whole
"""How many items a page has at most; what is over `MAX_LIMIT` counts as that."""


@dataclass(frozen=True)
class Page(Generic[R]):
    """Some rows, and the cursor of the rows after them (None at the end)."""

    items: Sequence[R]
    next_cursor: str | None

    def map(self, convert: Callable[[R], object]) -> "Page[object]":
        """Return the page with each row converted."""
        return Page([convert(item) for item in self.items], self.next_cursor)


def encode_cursor(key: object) -> str:
    """Pack a JSON-able key into URL-safe text."""
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, kind: type[K]) -> K:
    """Unpack `encode_cursor`'s text. Raises InvalidInput when it is anything else, or holds another kind of key."""
    try:
        key = bounds.read_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (InvalidInput, ValueError) as error:
        raise _damaged() from error
    if not isinstance(key, kind) or isinstance(key, bool):
        raise _damaged()
    return key


def decode_path(cursor: str) -> bytes:
    """Unpack the cursor of a list that is ordered by paths, which may be no UTF-8. Raises InvalidInput."""
    try:
        return bytes.fromhex(decode_cursor(cursor, str))
    except ValueError as error:
        raise _damaged() from error


def paginate(rows: QuerySet[M], *, cursor: str | None, limit: int, newest_first: bool = True) -> Page[M]:
    """Return at most `limit` rows after `cursor`, ordered by id (ids sort by creation time)."""
    limit = max(1, min(limit, MAX_LIMIT))
    if cursor:
        last = decode_cursor(cursor, int) if _has_number_keys(rows) else decode_cursor(cursor, str)
        rows = rows.filter(Q(pk__lt=last) if newest_first else Q(pk__gt=last))
    page_rows = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    items = page_rows[:limit]
    return Page(items, encode_cursor(items[-1].pk) if len(page_rows) > limit else None)


def paginate_by(rows: QuerySet[M], *, field: str, descending: bool, cursor: str | None, limit: int) -> Page[M]:
    """Return at most `limit` rows after `cursor`, ordered by a field and, where it is equal, by id.

    `field` is never null and holds text or numbers; it may lead through relations (`project__name`).
    """
    limit = max(1, min(limit, MAX_LIMIT))
    step, sign = ("lt", "-") if descending else ("gt", "")
    if cursor:
        key_type = int if _has_number_keys(rows) else str
        match decode_cursor(cursor, list):
            case [str() | int() | float() as value, pk] if isinstance(pk, key_type):
                beyond = Q(**{f"{field}__{step}": value}) | Q(**{field: value, f"pk__{step}": pk})
            case _:
                raise _damaged()
        try:
            rows = rows.filter(beyond)
        except (TypeError, ValueError, ValidationError) as error:  # a value of another type than the field's
            raise _damaged() from error
    page_rows = list(rows.order_by(f"{sign}{field}", f"{sign}pk")[: limit + 1])
    items = page_rows[:limit]
    if len(page_rows) <= limit:
        return Page(items, None)
    last_value = reduce(getattr, field.split("__"), items[-1])
    return Page(items, encode_cursor([last_value, items[-1].pk]))


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


def _has_number_keys(rows: QuerySet[M]) -> bool:
    return isinstance(rows.model._meta.pk, IntegerField)


def _damaged() -> InvalidInput:
    return InvalidInput("This page link is damaged, or belongs to another list. Start again from the first page.")
