"""One cursor pagination for every list: pages follow a unique, ordered key, so rows neither repeat nor go missing."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet

from core.errors import InvalidInput

M = TypeVar("M", bound=Model)
R = TypeVar("R")

MAX_LIMIT = 1000


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


def decode_cursor(cursor: str) -> object:
    """Unpack `encode_cursor`'s text. Raises InvalidInput when it is anything else."""
    try:
        return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("This page link is damaged. Start again from the first page.") from error


def paginate(rows: QuerySet[M], *, cursor: str | None, limit: int, newest_first: bool = True) -> Page[M]:
    """Return at most `limit` rows after `cursor`, ordered by id (ids sort by creation time)."""
    limit = max(1, min(limit, MAX_LIMIT))
    if cursor:
        last = decode_cursor(cursor)
        rows = rows.filter(Q(pk__lt=last) if newest_first else Q(pk__gt=last))
    found = list(rows.order_by("-pk" if newest_first else "pk")[: limit + 1])
    items = found[:limit]
    return Page(items, encode_cursor(items[-1].pk) if len(found) > limit else None)


def paginate_by(rows: QuerySet[M], *, field: str, descending: bool, cursor: str | None, limit: int) -> Page[M]:
    """Return at most `limit` rows after `cursor`, ordered by a field and, where it is equal, by id.

    `field` is never null and holds text or numbers; it may lead through relations (`project__name`).
    """
    limit = max(1, min(limit, MAX_LIMIT))
    step, sign = ("lt", "-") if descending else ("gt", "")
    if cursor:
        last = decode_cursor(cursor)
        if not isinstance(last, list) or len(last) != 2 or isinstance(last[0], dict | list):  # noqa: PLR2004 (a pair)
            raise InvalidInput("This page link belongs to another order. Start again from the first page.")
        value, pk = last
        beyond = Q(**{f"{field}__{step}": value}) | Q(**{field: value, f"pk__{step}": str(pk)})
        rows = rows.filter(beyond)
    found = list(rows.order_by(f"{sign}{field}", f"{sign}pk")[: limit + 1])
    items = found[:limit]
    if len(found) <= limit:
        return Page(items, None)
    value = reduce(getattr, field.split("__"), items[-1])
    return Page(items, encode_cursor([value, items[-1].pk]))
