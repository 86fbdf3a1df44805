"""What every model shares, and the only way in which a state field changes."""

from collections.abc import Collection
from typing import TypeVar

from django.db import models

from core import clock, ids

M = TypeVar("M", bound=models.Model)


class BaseModel(models.Model):
    """A row with a prefixed, sortable id and its time of creation. Subclasses set `id_prefix`."""

    id_prefix = "row"

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False, db_index=True)

    class Meta:
        abstract = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.id:
            self.id = ids.new_id(self.id_prefix, now_ms=clock.now_ms())


def compare_and_set(
    row: models.Model, *, field: str, expected: str | Collection[str], to: str, **changes: object
) -> bool:
    """Change `field` of `row` in the database if it still holds an expected value; say whether it did.

    `changes` are further fields, written by the same statement. On success the object in hand is brought up to date.
    """
    values = [expected] if isinstance(expected, str) else list(expected)
    query = type(row)._default_manager.filter(pk=row.pk, **{f"{field}__in": values})
    if query.update(**{field: to}, **changes) == 0:
        return False
    for name, value in {field: to, **changes}.items():
        setattr(row, name, value)
    return True
