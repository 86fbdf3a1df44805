"""What every model shares."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Self, TypeVar

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.operations import BaseDatabaseOperations
from django.db.models.base import ModelState
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Least, NullIf
from django.db.models.sql.compiler import SQLCompiler

from core import bounds, clock, ids
from core.bounds import OutOfBounds

BATCH_ROWS: Final = 500
"""Rows or ids that one statement carries: databases bound how many parameters a statement may have."""

T = TypeVar("T")


class PlainModel(models.Model):
    """A row that is made quickly: Django asks each field anew what it is where it is not given."""

    class Meta:
        abstract = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        columns = _columns_of(type(self))
        if args or not columns.names.issuperset(kwargs):
            super().__init__(*args, **kwargs)
            return
        self._state = ModelState()
        self.__dict__ |= columns.constants
        self.__dict__ |= {name: make() for name, make in columns.defaults.items() if name not in kwargs}
        for name, value in kwargs.items():
            if name in columns.relations:
                setattr(self, name, value)
            else:
                self.__dict__[name] = value

    @classmethod
    def from_db(  # type: ignore[override]  # its stub is that of a later Django
        cls, db: str | None, field_names: Collection[str], values: Sequence[Any]
    ) -> Self:
        """Return the instance of a row, which needs no defaults and no new id: `__init__` asks each field for them."""
        row = cls.__new__(cls)
        row.__dict__.update(zip(field_names, values, strict=True))
        row._state = state = ModelState()  # noqa: SLF001 (as Django does)
        state.adding, state.db = False, db
        return row


class BaseModel(PlainModel):
    """A row with a prefixed, sortable id and its time of creation. Subclasses set `id_prefix`.

    `save` refuses what does not fit its column, alike on every database: SQLite would keep it, and PostgreSQL would end
    the request with an error that nobody anticipated.
    """

    id_prefix = "row"

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        abstract = True

    # As Django's, which asks for the name of the key each time.
    pk = property(attrgetter("id"), lambda row, key: setattr(row, "id", key))

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.id:
            self.id = ids.new_id(self.id_prefix, now_ms=clock.now_ms())

    def save(self, **options: Any) -> None:
        """Store the row. Raises OutOfBounds."""
        self.check_bounds(options.get("update_fields"))
        super().save(**options)

    def check_bounds(self, names: Collection[str] | None = None) -> None:
        """Raise OutOfBounds where a column, of these or of all, cannot hold what the row has for it."""
        for field in self._meta.concrete_fields:
            if field.generated:
                continue
            if (names is None or field.name in names) and (fault := _fault_of(field, getattr(self, field.attname))):
                raise OutOfBounds(f"'{field.verbose_name}' cannot be stored. {fault}", field=field.name)


@dataclass(frozen=True)
class _Columns:
    """What a new row of a model has where it is not told: values, and functions that make them; the names it may get.

    `relations` are the names among them that take the other row itself.
    """

    constants: Mapping[str, Any]
    defaults: Mapping[str, Callable[[], Any]]
    relations: Collection[str]
    names: frozenset[str]


@cache
def _columns_of(model: type[models.Model]) -> _Columns:
    fields = [field for field in model._meta.concrete_fields if not field.generated]
    defaults = {field.attname: field.get_default for field in fields if field.has_default() and callable(field.default)}
    constants = {field.attname: field.get_default() for field in fields if field.attname not in defaults}
    relations = {field.name for field in fields if field.is_relation}
    return _Columns(constants, defaults, relations, frozenset([*constants, *defaults, *relations]))


def live_field(states: Collection[str]) -> models.GeneratedField:
    """Return a truth value, kept by the database, that says whether a row is in one of these states.

    Look for `is_live=True` with an index under that condition, and finding live rows costs the same however many have
    ended. With a condition on the states themselves SQLite reads the whole table: it does not know their values while
    it chooses an index.
    """
    is_one = models.Q(state__in=sorted(str(state) for state in states))
    expression = models.ExpressionWrapper(is_one, output_field=models.BooleanField())
    return models.GeneratedField(expression=expression, output_field=models.BooleanField(), db_persist=True)


def in_batches(items: Iterable[T], size: int = BATCH_ROWS) -> Iterator[list[T]]:
    """Yield the items in groups that one statement can carry."""
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch


class Leased(models.Model):
    """A row that one worker at a time works on: see `core.leases`."""

    lease_token = models.CharField(max_length=100, blank=True)
    lease_expires_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def is_leased_at(self, moment: datetime) -> bool:
        """Whether a worker holds the lease at a moment."""
        return self.lease_expires_at is not None and self.lease_expires_at > moment


def _fault_of(field: "models.Field[Any, Any]", value: object) -> str:
    return next(filter(None, _faults_of(field, value)), "")


def _faults_of(field: "models.Field[Any, Any]", value: object) -> Iterator[str]:
    """Yield why a column cannot hold a value, empty texts among it; expressions are the database's to judge."""
    match value:
        case str():
            yield bounds.text_fault(value)
            if field.max_length is not None and len(value) > field.max_length:
                yield f"It has {len(value):,} characters; at most {field.max_length:,} fit."
        case int() if isinstance(field, models.IntegerField):
            least, most = BaseDatabaseOperations.integer_field_ranges[field.get_internal_type()]
            yield "" if least <= value <= most else f"It is not between {least} and {most}."
        case float():
            yield bounds.number_fault(value)
        case Decimal() if isinstance(field, models.DecimalField):
            digits = (field.max_digits or 0) - (field.decimal_places or 0)
            yield "" if value.is_finite() and abs(value) < 10**digits else f"It is not below {10**digits:,}."
        case datetime():
            yield bounds.moment_fault(value)
        case dict() | list() if isinstance(field, models.JSONField):
            where, why = bounds.value_fault(value) or ("", "")
            yield f"{why} ({where})" if where else why


_Sql = tuple[str, tuple[str | int, ...]]


class MomentById(models.Func):
    """Looks a row's moment up by its id in one JSON value: what differs from row to row is one statement too."""

    output_field = models.DateTimeField()

    @classmethod
    def of(cls, moments: Mapping[str, datetime | None]) -> "MomentById":
        """Return the expression that has for each id its moment, or none."""
        adapt = connection.ops.adapt_datetimefield_value
        texts = {key: None if moment is None else str(adapt(moment)) for key, moment in moments.items()}
        return cls(models.Value(json.dumps(texts)), models.F("id"))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: object) -> _Sql:
        """Return the SQL for PostgreSQL."""
        return self.as_sql(compiler, connection, template="(%(expressions)s)::timestamptz", arg_joiner="::jsonb ->> ")

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: object) -> _Sql:
        """Return the SQL for SQLite."""
        return self.as_sql(compiler, connection, template="json_extract(%(expressions)s)", arg_joiner=", '$.' || ")


_NEVER: Final = datetime.max.replace(year=9000, tzinfo=UTC)


def earliest(*moments: Combinable) -> Combinable:
    """Return the expression of the earliest of several moments, of which any may be NULL; NULL when all are."""
    never = models.Value(_NEVER, output_field=models.DateTimeField())
    return NullIf(Least(*(Coalesce(moment, never) for moment in moments)), never)
