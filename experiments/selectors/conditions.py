"""Filters of experiments as conditions of the database: every value is a parameter of the query, never a part of it."""

from collections.abc import Collection
from datetime import timedelta

from django.db.models import (
    Case,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    When,
)
from django.db.models.functions import Cast
from django.db.models.lookups import GreaterThan

from compute.selectors import job_rows
from experiments.engine.columns import Column, Kind, Nature
from experiments.engine.filter_tree import All, Any, Contains, Filter, Is, Known, Not
from experiments.models import Experiment, Fact, MetricLast

PATHS = {
    "title": "title",
    "state": "state",
    "project": "project__name",
    "flow": "flow",
    "run": "run_as_number",
    "step": "step_key",
    "template": "template",
    "by": "created_by",
    "note": "note",
    "created": "created_at",
    "took": "took",
}
"""Where the plain columns are, once the two of them that are computed were added."""

_LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def with_computed(rows: QuerySet[Experiment], used: Collection[Column]) -> QuerySet[Experiment]:
    """Return the experiments with `took` (null while they run) and `run_as_number`, where used."""
    before = job_rows.ran_before()
    # Its last run may have ended before it began.
    ran = Case(
        When(finished_at__isnull=True, then=None),
        When(
            started_at__isnull=False,
            then=ExpressionWrapper(F("finished_at") - F("started_at") + before, output_field=DurationField()),
        ),
        When(GreaterThan(before, timedelta(0)), then=before),
        output_field=DurationField(),
    )
    computed = {
        "took": ran,
        "run_as_number": Cast("run_number", FloatField()),
    }
    paths = {PATHS[column.key] for column in used if column.kind is Kind.PLAIN}
    return rows.alias(**{name: value for name, value in computed.items() if name in paths})


def matching(rows: QuerySet[Experiment], tree: Filter) -> QuerySet[Experiment]:
    """Return those experiments, out of rows with the computed columns it uses, that a filter lets through."""
    return rows.filter(_condition(tree))


def _condition(node: Filter) -> Q:
    match node:
        case All(parts):
            return Q(*map(_condition, parts)) if parts else Q()
        case Any(parts):
            columns = {part.column if isinstance(part, Is) else None for part in parts}
            column = columns.pop()
            if columns or column is None or column.kind is Kind.PLAIN:
                return Q(*map(_condition, parts), _connector=Q.OR)
            # One read of the one row that holds the value, instead of one for each.
            return _recorded(column, Q(*(_of_row(part) for part in parts if isinstance(part, Is)), _connector=Q.OR))
        case Not(inner):
            return ~_condition(inner)
        case Known(column) | Contains(column) | Is(column):
            return _plain(node) if column.kind is Kind.PLAIN else _recorded(column, _of_row(node))


def _plain(node: Is | Contains | Known) -> Q:
    """Return a condition on a field that every experiment has."""
    column = node.column
    known = Q(took__isnull=False) if column.nature is Nature.SECONDS else Q()
    match node:
        case Contains(text=text):
            return Q(**{f"{PATHS[column.key]}__icontains": text})
        case Is(sign=sign, value=value):
            against = {Nature.NUMBER: value.number, Nature.MOMENT: value.moment, Nature.TEXT: value.text}.get(
                column.nature, timedelta(seconds=value.number or 0)
            )
            return known & _signed(PATHS[column.key], sign, against)
    return known


def _of_row(node: Is | Contains | Known) -> Q:
    """Return a condition on the row that holds a recorded value."""
    match node:
        case Known():
            return Q()
        case Contains(text=text):
            return Q(text__icontains=text)
    sign, value = node.sign, node.value
    match node.column.kind:
        case Kind.METRIC:
            return _signed("value", sign, value.number)
        case Kind.DATA:
            begins = Q(text__startswith=value.text.lower())
            return begins if sign == "=" else ~begins
    return _signed("text", sign, value.text) if value.number is None else _signed("number", sign, value.number)


def _signed(field: str, sign: str, value: object) -> Q:
    """Compare a field; a value of None stands for NaN, which equals only itself here."""
    if sign in _LOOKUPS:
        return Q(**{f"{field}__{_LOOKUPS[sign]}": value})
    # Not by the negation of an equality: SQL knows neither of the two for a field that holds nothing.
    equals = Q(**{f"{field}__isnull": True}) if value is None else Q(**{field: value, f"{field}__isnull": False})
    return equals if sign == "=" else ~equals


def _recorded(column: Column, condition: Q) -> Q:
    if column.kind is Kind.METRIC:
        return Q(Exists(MetricLast.objects.filter(condition, experiment=OuterRef("pk"), key=column.key)))
    return Q(Exists(Fact.objects.filter(condition, experiment=OuterRef("pk"), kind=column.kind, key=column.key)))
