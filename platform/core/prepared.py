"""Queries whose SQL is made once: for a query of few rows that takes ten times as long as to run it.

    @prepared
    def _pending(queue_id: str) -> QuerySet[Job]:
        return Job.objects.filter(queue=queue_id, state="pending")

    jobs = _pending(queue.pk)                              # a list
    changed = _pending.update({"state": "held"}, queue.pk)  # a number

The function is called with stand-ins for its arguments, for which each call puts its values into the SQL. So all that
differs from call to call is an argument, and the function only passes it to the query.
"""

import sqlite3
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import SQLiteCursorWrapper
from django.db.backends.sqlite3.operations import DatabaseOperations as SQLiteOperations
from django.db.models import AutoField, F, Field, Model, QuerySet, Value, sql
from django.db.models.constants import OnConflict
from django.db.models.expressions import Col
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    ValuesIterable,
    get_related_populators,
)

from core import clock
from core.orm import BATCH_ROWS

P = ParamSpec("P")
R = TypeVar("R")

_FARTHEST = timedelta(days=10_000)
_TEXT, _NUMBER, _MOMENT = "\0slot {}", 2_000_000_000, datetime(9998, 1, 1, tzinfo=UTC)
Values = list[object]
Shape = list[Hashable]
"""What of the arguments of a call is part of the SQL: their types, and of collections how many items they have."""


class _SQLiteCursor(SQLiteCursorWrapper):
    """Translates the placeholders of each statement once. Its parameters are told by their positions."""

    _translated: ClassVar[dict[str, str]] = {}

    def execute(self, query: str, params: Any = ()) -> Any:
        if (text := self._translated.get(query)) is None:
            text = self._translated[query] = self.convert_query(query)
        return sqlite3.Cursor.execute(self, text, params)


class _Thread(threading.local):
    """The connection of this thread, and the cursor that all prepared statements of the thread use."""

    def __init__(self) -> None:
        self.database: BaseDatabaseWrapper = connections[DEFAULT_DB_ALIAS]
        self.connection: object = None
        self.cursor: Any = None


_thread = _Thread()


def _database() -> BaseDatabaseWrapper:
    """Return the connection of this thread. Django's `connection` looks it up for each of its attributes."""
    return _thread.database


def _execute(database: BaseDatabaseWrapper, text: str, parameters: Sequence[Any]) -> Any:
    """Execute a statement and return the cursor, which is used again: its rows are read before the next statement."""
    database.close_if_health_check_failed()
    own = _thread
    if database.connection is None or own.connection is not database.connection:
        own.cursor = database.cursor().cursor
        own.connection = database.connection
        if database.vendor == "sqlite":
            own.cursor = database.connection.cursor(factory=_SQLiteCursor)
    wrap = database.make_debug_cursor if database.force_debug_cursor else database.make_cursor
    cursor = wrap(own.cursor)
    cursor.execute(text, parameters)
    return cursor


def _change(database: BaseDatabaseWrapper, text: str, parameters: Sequence[Any]) -> Any:
    """Execute a statement that changes rows; where it fails, so does the transaction around it."""
    try:
        return _execute(database, text, parameters)
    except Exception:
        with transaction.mark_for_rollback_on_error():
            raise


class prepared(Generic[P, R]):  # noqa: N801 (a decorator)
    """Make a function that returns a query one that returns its rows. Arguments are told by their positions.

    They are texts, whole numbers, moments, collections of texts, truth values and None. Raises TypeError for others,
    and for a function that does not pass them on as they are.
    """

    def __init__(self, make: Callable[P, "QuerySet[Any, R]"]) -> None:
        self._make: Callable[..., QuerySet[Any, R]] = make
        self._reads: dict[Hashable, _Read | None] = {}
        self._updates: dict[Hashable, _Update | None] = {}
        self._deletes: dict[Hashable, _Delete | None] = {}

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> list[R]:
        """Return the rows of the query."""
        shape, values = _split(arguments, named)
        key = tuple(shape)
        if key not in self._reads:
            self._reads[key] = _unless_empty(lambda: _Read(*self._made(shape)))
        read = self._reads[key]
        return [] if read is None else read.run(values)

    def update(self, changes: Mapping[str, Any], *arguments: P.args, **named: P.kwargs) -> int:
        """Change the rows of the query, and return how many they were.

        A change may be a value, or an `F` that names a column or an annotation of the query. With any other expression
        the SQL is made each time.
        """
        new, others = _parted(changes)
        if any(value is not None and type(value) is not F for value in others.values()):
            return self._make(*arguments).update(**changes)
        values, update = self._update_of(new, others, (), arguments, named)
        return 0 if update is None else update.run(new.values(), values)

    def update_returning(
        self, changes: Mapping[str, Any], columns: Sequence[str], *arguments: P.args, **named: P.kwargs
    ) -> list[tuple[Any, ...]]:
        """Change the rows of the query in no certain order, and return these columns of them as they are then.

        A change is as in `update`, an `F` with a number among it; a column may be an annotation of the query.
        """
        new, others = _parted(changes)
        values, update = self._update_of(new, others, columns, arguments, named)
        return [] if update is None else update.run_returning(new.values(), values)

    def delete(self, *arguments: P.args, **named: P.kwargs) -> int:
        """Delete the rows of the query, to which no others refer, and return how many they were."""
        shape, values = _split(arguments, named)
        key = tuple(shape)
        if key not in self._deletes:
            self._deletes[key] = _unless_empty(lambda: _Delete(*self._made(shape)))
        delete = self._deletes[key]
        return 0 if delete is None else delete.run(values)

    def _update_of(
        self,
        new: Mapping[str, Any],
        others: Mapping[str, Any],
        columns: Sequence[str],
        arguments: Sequence[object],
        named: Mapping[str, object],
    ) -> tuple[Values, "_Update | None"]:
        shape, values = _split(arguments, named)
        key = (*shape, *new, None, *others.items(), *columns)
        if key not in self._updates:
            # Values come before expressions, so that their parameters are the first ones.
            self._updates[key] = _unless_empty(lambda: _Update(*self._made(shape), {**new, **others}, columns))
        return values, self._updates[key]

    def _made(self, shape: Shape) -> tuple["QuerySet[Any, R]", Mapping[object, int]]:
        """Return the query with stand-ins for its arguments, and the place of each in the values of a call."""
        stand_ins = list(_stand_ins(shape))
        flat = [item for each in stand_ins for item in (each if isinstance(each, list) else [each])]
        _, values = _split(flat, {})
        return self._make(*stand_ins), {value: place for place, value in enumerate(values)}


class Repeated(Generic[R]):
    """A query that is run again and again, and differs from time to time only in moments told from `clock.now()`."""

    def __init__(self, make: Callable[[], "QuerySet[Any, R]"]) -> None:
        with clock.stood_in_for_by(_MOMENT):
            self._read = _Read(make(), {})
        self._parameters = _PresentParameters(self._read.statement)

    def __call__(self) -> list[R]:
        """Return the rows of the query."""
        database = _database()
        return self._read.fetch(database, self._parameters.bind(database))


class RepeatedUpdate:
    """As `Repeated`, for an update that sets a column to a moment so many seconds from now.

    It returns what the query would of the rows that it has changed: annotations, by `values_list`.
    """

    def __init__(self, make: Callable[[], "QuerySet[Any, Any]"], column: str, seconds: float) -> None:
        self._after = timedelta(seconds=seconds)
        with clock.stood_in_for_by(_MOMENT):
            queryset = make()
            self._update = _Update(queryset, {}, {column: _MOMENT}, list(queryset.query.annotation_select))
        self._parameters = _PresentParameters(self._update.statement)

    def __call__(self) -> list[tuple[Any, ...]]:
        """Change the rows of the query, and return the annotations of each."""
        return self._update.fetch([clock.now() + self._after], self._parameters.bind)


class _PresentParameters:
    """The parameters of a statement, of which some are moments told from the present one."""

    def __init__(self, statement: "_Statement") -> None:
        self._parameters = [(_offset_of(each), each) for _, each in statement.parameters]

    def bind(self, database: BaseDatabaseWrapper) -> list[Any]:
        now = clock.now()
        return [each if offset is None else _for_database(now + offset, database) for offset, each in self._parameters]


def _offset_of(parameter: object) -> timedelta | None:
    """Return how long after the present moment a parameter is; None for one that has nothing to do with it."""
    moment = parameter
    if isinstance(parameter, str):
        try:
            moment = datetime.fromisoformat(parameter)
        except ValueError:
            return None
    if not isinstance(moment, datetime):
        return None
    offset = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _MOMENT
    return offset if abs(offset) < _FARTHEST else None


class _Read:
    """A statement that reads, and what makes its rows what they are."""

    def __init__(self, queryset: Any, places: Mapping[object, int]) -> None:
        if queryset._prefetch_related_lookups:  # noqa: SLF001 (Django tells it in no other way)
            raise TypeError("A prepared query reads no related rows by statements of their own.")
        compiler: Any = queryset.query.get_compiler(queryset.db)
        text, parameters = compiler.as_sql()
        self.statement = _Statement.of(text, parameters, places)
        if len({place for place, _ in self.statement.parameters} - {None}) < len(places):
            raise TypeError(f"A prepared query does not pass on all of its arguments as they are: {text}")
        self._converters = _flat(compiler.get_converters([column for column, *_ in compiler.select]))
        self._shape = _shape_of(queryset, compiler)

    def run(self, values: Values) -> list[Any]:
        return self.fetch(_database(), self.statement.bind(values))

    def fetch(self, database: BaseDatabaseWrapper, parameters: Sequence[Any]) -> list[Any]:
        rows = _execute(database, self.statement.sql, parameters).fetchall()
        return [self._shape(row) for row in _converted(rows, self._converters, database)] if rows else []


def read_rows(text: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that is no query of models, as they come from the database."""
    rows: list[tuple[Any, ...]] = _execute(_database(), text, parameters).fetchall()
    return rows


Converters = Sequence[tuple[int, Callable[..., Any], Any]]
"""Of columns, by position: what makes of a value of the database one of Python, and the expression of the column."""


def _flat(converters: Mapping[int, tuple[Sequence[Callable[..., Any]], Any]]) -> Converters:
    return [(at, _quickest(convert), column) for at, (each, column) in converters.items() for convert in each]


def _quickest(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return what converts a value as `convert` does, but is quicker for moments, and for JSON that holds nothing."""
    function = getattr(convert, "__func__", None)
    if function is SQLiteOperations.convert_datetimefield_value:
        return _read_moment
    if function is models.JSONField.from_db_value:
        return lambda value, *others: _EMPTY[value]() if value in _EMPTY else convert(value, *others)
    return convert


_EMPTY: Mapping[str, type[list[Any] | dict[str, Any]]] = {"[]": list, "{}": dict}


def _read_moment(value: str | datetime, *_: object) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC)


def _converted(
    rows: Iterable[Sequence[Any]], converters: Converters, database: BaseDatabaseWrapper
) -> Iterator[list[Any]]:
    for row in map(list, rows):
        for at, convert, column in converters:
            if row[at] is not None:  # which none of them changes
                row[at] = convert(row[at], column, database)
        yield row


def _shape_of(queryset: Any, compiler: Any) -> Callable[[list[Any]], Any]:
    """Return what makes of a row what the query would return."""
    if issubclass(queryset._iterable_class, ModelIterable):  # noqa: SLF001 (Django tells it in no other way)
        return _Instances(queryset.db, compiler)
    if issubclass(queryset._iterable_class, FlatValuesListIterable):  # noqa: SLF001 (the same)
        return itemgetter(0)
    if issubclass(queryset._iterable_class, ValuesIterable):  # noqa: SLF001 (the same)
        names = list(queryset.query.selected)
        return lambda row: dict(zip(names, row, strict=True))
    return tuple


class _Instances:
    """Makes of a row an instance of a model, with its related ones and annotations."""

    def __init__(self, db: str, compiler: Any) -> None:
        self._db = db
        self._model = compiler.klass_info["model"]
        self._positions = compiler.klass_info["select_fields"]
        self._names = [compiler.select[at][0].target.attname for at in self._positions]
        find_related: Any = get_related_populators  # its stub is that of a later Django
        self._related = find_related(compiler.klass_info, compiler.select, db)
        self._annotations = dict(compiler.annotation_col_map or {})

    def __call__(self, row: list[Any]) -> Any:
        made = self._model.from_db(self._db, self._names, [row[at] for at in self._positions])
        for related in self._related:
            related.populate(row, made)
        for name, at in self._annotations.items():
            setattr(made, name, row[at])
        return made


class _Update:
    """A statement that changes rows, and may return columns of them as they are then."""

    def __init__(
        self,
        queryset: "QuerySet[Any, Any]",
        places: Mapping[object, int],
        changes: Mapping[str, Any],
        columns: Sequence[str] = (),
    ) -> None:
        _Read(queryset, places)  # it refuses what cannot be prepared; a change may leave columns of the query out
        query: Any = queryset.query.chain(sql.UpdateQuery)
        query.add_update_values(changes)
        query.clear_select_clause()
        self._columns = [_Stored.of(field) for field, _, value in query.values if _is_value(value)]
        compiler = query.get_compiler(queryset.db)
        text, parameters = compiler.as_sql()
        parameters = parameters[len(self._columns) :]
        if columns:
            annotations = queryset.query.annotations
            returned = [annotations.get(name) or _column_of(queryset.model, name) for name in columns]
            compiled = [_compiled(compiler, expression) for expression in returned]
            text += f" RETURNING {', '.join(sql for sql, _ in compiled)}"
            parameters = (*parameters, *(each for _, some in compiled for each in some))
            self._converters = _flat(compiler.get_converters(returned))
        self.statement = _Statement.of(text, parameters, places)

    def run(self, new: Iterable[Any], values: Values) -> int:
        database = _database()
        parameters = self._adapt(new, database) + self.statement.bind(values)
        return int(_change(database, self.statement.sql, parameters).rowcount)

    def run_returning(self, new: Iterable[Any], values: Values) -> list[tuple[Any, ...]]:
        return self.fetch(new, lambda _: self.statement.bind(values))

    def fetch(self, new: Iterable[Any], bind: Callable[[BaseDatabaseWrapper], list[Any]]) -> list[tuple[Any, ...]]:
        database = _database()
        rows = _change(database, self.statement.sql, self._adapt(new, database) + bind(database)).fetchall()
        return [tuple(row) for row in _converted(rows, self._converters, database)]

    def _adapt(self, new: Iterable[Any], database: BaseDatabaseWrapper) -> list[Any]:
        return [
            value if type(value) in column.unchanged else column.adapt(value, database)
            for column, value in zip(self._columns, new, strict=True)
        ]


def _compiled(compiler: Any, expression: Any) -> tuple[str, Sequence[object]]:
    """Return the SQL of an expression; of one that is about no row whatever the database says, as Django has it."""
    made: tuple[str, Sequence[object]]
    try:
        made = compiler.compile(expression)
    except EmptyResultSet:
        if expression.empty_result_set_value is NotImplemented:
            raise
        made = compiler.compile(Value(expression.empty_result_set_value))
    return made


class _Delete:
    """A statement that deletes rows."""

    def __init__(self, queryset: "QuerySet[Any, Any]", places: Mapping[object, int]) -> None:
        query: Any = queryset.query.chain(sql.DeleteQuery)
        text, parameters = query.get_compiler(queryset.db).as_sql()
        self._statement = _Statement.of(text, parameters, places)

    def run(self, values: Values) -> int:
        return int(_change(_database(), self._statement.sql, self._statement.bind(values)).rowcount)


def _column_of(model: type[Model], name: str) -> Col:
    field: Any = model._meta.pk if name == "pk" else _field_of(model, name)
    return Col(model._meta.db_table, field)


def _field_of(model: type[Model], name: str) -> "Field[Any, Any]":
    return next(field for field in model._meta.concrete_fields if name in {field.name, field.attname})


@dataclass(frozen=True)
class _Statement:
    """SQL and its parameters: each is a value of the call, by its place, or else always the same."""

    sql: str
    parameters: Sequence[tuple[int | None, object]]

    @classmethod
    def of(cls, text: str, parameters: Sequence[object], places: Mapping[object, int]) -> "_Statement":
        return cls(text, [(places.get(each) if isinstance(each, Hashable) else None, each) for each in parameters])

    def bind(self, values: Values) -> list[Any]:
        return [same if place is None else values[place] for place, same in self.parameters]


def _parted(changes: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the values among changes, and the expressions and NULLs, which are part of the SQL."""
    new: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in changes.items():
        (new if type(value) in _PLAIN or _is_value(value) else others)[name] = value
    return new, others


_PLAIN = frozenset({str, int, bool, datetime, list, dict})


def _is_value(change: object) -> bool:
    return change is not None and not hasattr(change, "resolve_expression")


def _split(arguments: Sequence[object], named: Mapping[str, object]) -> tuple[Shape, Values]:
    """Return the shape of arguments, and the values that they put into SQL."""
    if named:
        raise TypeError("The arguments of a prepared query are told by their positions.")
    shape: Shape = []
    values: Values = []
    for argument in arguments:
        kind = type(argument)
        if kind is str or isinstance(argument, str):
            shape.append(str)
            values.append(argument)
        elif argument is None or kind is bool:
            shape.append((bool, argument))
        elif isinstance(argument, datetime):
            shape.append(datetime)
            values.append(_for_database(argument, _database()))
        elif isinstance(argument, int):
            shape.append(int)
            values.append(argument)
        elif isinstance(argument, Iterable):
            items = list(argument)
            # A few lengths are enough: an item may be named again and again.
            missing = (1 << (len(items) - 1).bit_length()) - len(items) if items else 0
            items += items[-1:] * missing
            if not {str}.issuperset(map(type, items)) and not all(isinstance(item, str) for item in items):
                raise TypeError(f"A prepared query takes collections of texts only, not {argument!r}.")
            shape.append((str, len(items)))
            values += items
        else:
            raise TypeError(f"A prepared query takes no {type(argument).__name__}.")
    return shape, values


def _stand_ins(shape: Shape) -> Iterator[Any]:
    """Yield an argument of each kind, of which none is like another, nor like anything that a query says itself."""
    number = 0
    for kind in shape:
        number += 1
        match kind:
            case (same, value) if same is bool:
                yield value
            case (same, int(count)) if same is str:
                yield [_TEXT.format(number + item) for item in range(count)]
                number += count
            case _ if kind is str:
                yield _TEXT.format(number)
            case _ if kind is int:
                yield _NUMBER + number
            case _:
                yield _MOMENT + timedelta(microseconds=number)


def _unless_empty(make: Callable[[], R]) -> R | None:
    """Return a statement; None where it could concern no row whatever the arguments are, such as for an empty list."""
    try:
        return make()
    except EmptyResultSet:
        return None


_inserts: dict[Hashable, tuple[str, str, Sequence["_Stored"], Callable[[Model], Sequence[Any]]]] = {}
_FEW = 20
# So many values any SQLite takes in one statement.
_FEW_VALUES = 900


def insert(rows: Sequence[Model], *, ignore_conflicts: bool = False, update: Sequence[str] = ()) -> int:
    """Insert rows of one model as `bulk_create` does, few of them by SQL that is made once. Return how many are new.

    Their keys are known; a key that the database gives is not read back. Of many rows it is not known how many are
    new where conflicts are ignored: then 0 is returned. A row that is there already gets the columns in `update`, and
    counts as new. No column sets itself when it is stored (`auto_now`).
    """
    if not rows:
        return 0
    model = type(rows[0])
    if len(rows) > max(_FEW, _FEW_VALUES // len(model._meta.concrete_fields)):
        conflicts: dict[str, Any] = {"ignore_conflicts": ignore_conflicts}
        if update:
            conflicts |= {"update_conflicts": True, "update_fields": update, "unique_fields": ["pk"]}
        model._default_manager.bulk_create(rows, batch_size=BATCH_ROWS, **conflicts)
        return 0 if ignore_conflicts else len(rows)
    key = (model, ignore_conflicts, *update)
    if key not in _inserts:
        columns = model._meta.concrete_fields
        fields = [field for field in columns if not (field.generated or isinstance(field, AutoField))]
        changing = [_field_of(model, name) for name in update]
        on_conflict = OnConflict.UPDATE if update else OnConflict.IGNORE if ignore_conflicts else None
        query: Any = sql.InsertQuery(
            model, on_conflict=on_conflict, update_fields=changing, unique_fields=[model._meta.pk]
        )
        query.insert_values(fields, rows[:1])
        ((text, _),) = query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
        start, _, end = text.rpartition(_PLACES.format(", ".join(["%s"] * len(fields))))
        attributes = attrgetter(*(field.attname for field in fields))
        _inserts[key] = start, end, [_Stored.of(field) for field in fields], attributes
    start, end, known, read = _inserts[key]
    database = _database()
    values = [
        value if type(value) in column.unchanged else column.adapt(value, database)
        for row in rows
        for column, value in zip(known, read(row), strict=True)
    ]
    places = _PLACES.format(", ".join(["%s"] * len(known)))
    count = int(_change(database, f"{start}{', '.join([places] * len(rows))}{end}", values).rowcount)
    for row in rows:
        row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS  # noqa: SLF001 (as Django does)
    return count


_PLACES = "({})"
_AS_THEY_ARE: Mapping[type, tuple[type["Field[Any, Any]"], ...]] = {
    str: (models.CharField, models.TextField, models.ForeignKey),
    bool: (models.BooleanField,),
    int: (models.IntegerField,),
    float: (models.FloatField,),
    type(None): (Field,),
}
"""For types of values the columns that store them unchanged."""


@dataclass(frozen=True)
class _Stored:
    """How a column stores values, found out once. Those of the types in `unchanged` it stores as they are.

    Types of texts, such as choices, come to be among these when one is stored first.
    """

    field: "Field[Any, Any]"
    unchanged: set[type]
    has_moments: bool
    json: "models.JSONField[Any, Any] | None"

    @classmethod
    def of(cls, field: "Field[Any, Any]") -> "_Stored":
        unchanged = {kind for kind, columns in _AS_THEY_ARE.items() if isinstance(field, columns)}
        json = field if isinstance(field, models.JSONField) else None
        return cls(field, unchanged, isinstance(field, models.DateTimeField), json)

    def adapt(self, value: Any, database: BaseDatabaseWrapper) -> Any:
        """Return a value, of another type than those, as the column stores it."""
        kind = type(value)
        if kind is datetime and self.has_moments:
            return _for_database(value, database)
        if str in self.unchanged and isinstance(value, str):
            self.unchanged.add(kind)
            return value
        if self.json is not None and kind in {dict, list}:
            if not value and database.vendor == "sqlite":
                return "[]" if kind is list else "{}"
            return database.ops.adapt_json_value(value, self.json.encoder)
        return self.field.get_db_prep_save(value, database)


def _for_database(moment: datetime, database: BaseDatabaseWrapper) -> Any:
    """Return a moment as the database takes it: SQLite as a text, in UTC."""
    if database.vendor == "sqlite" and moment.tzinfo is UTC:
        return moment.isoformat(" ")[:_BEFORE_UTC]
    return database.ops.adapt_datetimefield_value(moment)


_BEFORE_UTC = -len("+00:00")
