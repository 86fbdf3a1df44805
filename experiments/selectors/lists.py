"""Experiments as lists: filtered, sorted, page by page, summed up by group, and what columns there are to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Avg, Count, F, FilteredRelation, Max, Min, Q, QuerySet

from accounts.permissions import Actor
from core import bounds, pagination
from core.errors import InvalidInput
from core.pagination import Page
from experiments.engine import columns, filter_tree, filters
from experiments.engine.columns import RECORDED, Column, Kind, Order
from experiments.errors import InvalidColumn
from experiments.models import Experiment, FactKey
from experiments.selectors import experiments
from experiments.selectors.conditions import PATHS, matching, with_computed

MAX_GROUPS = 200
MAX_KEYS = 2000
_NEWEST = "-pk"


@dataclass(frozen=True)
class Spread:
    """What the experiments of a group measured. None: none of them measured any number."""

    mean: float | None
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Group:
    """Experiments that have a value in common. `value` None: those that have none. `where` is a filter for them."""

    value: str | None
    label: str
    where: str
    count: int
    metrics: Sequence[Spread]


def find(
    *,
    actor: Actor,
    project: str | None = None,
    run: str | None = None,
    where: str | None = None,
    order: str | None = None,
    is_recorded: bool = False,
) -> QuerySet[Experiment]:
    """Return the experiments that the actor may see and a filter lets through, sorted; without an order, newest first.

    With `is_recorded` only those that recorded something, instead of every attempt and every job.
    Raises InvalidFilter and InvalidColumn.
    """
    condition, by = filters.parse(where or ""), columns.parse_order(order) if order else None
    rows = experiments.list_experiments(actor=actor, project=project, run=run, is_recorded=is_recorded)
    used = filter_tree.columns_of(condition) | ({by.column} if by else set())
    matches = matching(with_computed(rows, used), condition)
    return _sorted(matches, by) if by else matches


def take(rows: QuerySet[Experiment], *, start: int, limit: int) -> list[Experiment]:
    """Return some of the rows in their order, having sorted no more than their ids."""
    ids = list(rows.values_list("pk", flat=True)[start : start + limit])
    by_id = {row.pk: row for row in experiments.with_relations(Experiment.objects.filter(pk__in=ids))}
    return [by_id[experiment_id] for experiment_id in ids if experiment_id in by_id]


def page_of(rows: QuerySet[Experiment], *, is_sorted: bool, cursor: str | None, limit: int) -> Page[Experiment]:
    """Return a page for programs: newest first by key, so that none repeats; a sorted list by how many were read."""
    if not is_sorted:
        return pagination.paginate(rows, cursor=cursor, limit=limit)
    limit = max(1, min(limit, pagination.MAX_LIMIT))
    start = pagination.decode_cursor(cursor, int) if cursor else 0
    if not 0 <= start <= bounds.MAX_COUNT:
        raise InvalidInput("This page link belongs to another order of the list. Start again from the first page.")
    taken = take(rows, start=start, limit=limit + 1)
    return Page(taken[:limit], pagination.encode_cursor(start + limit) if len(taken) > limit else None)


def list_keys(*, actor: Actor, project: str | None = None) -> Mapping[Kind, Sequence[str]]:
    """Return under which keys experiments recorded something: the columns that there are to choose from."""
    rows = FactKey.objects.all()
    if not actor.sees_everything:
        rows = rows.filter(project_id__in=actor.project_ids)
    if project is not None:
        rows = rows.filter(project__name=project)
    keys: dict[Kind, list[str]] = {kind: [] for kind in RECORDED}
    for kind, key in rows.order_by("kind", "key").values_list("kind", "key").distinct()[:MAX_KEYS]:
        keys[Kind(kind)].append(key)
    return keys


def group(rows: QuerySet[Experiment], *, by: Column, metrics: Sequence[Column]) -> Sequence[Group]:
    """Sum up experiments by a value that they have in common: how many, and the spread of each metric; large first."""
    names = {f"m{number}": column for number, column in enumerate(metrics)}
    joined, field = _with_group(rows.order_by(), by)
    for name, column in names.items():
        joined = joined.alias(**{name: _relation(column)})
    sums: dict[str, Avg | Min | Max] = {}
    for name in names:
        for what, function in (("mean", Avg), ("lowest", Min), ("highest", Max)):
            sums[f"{name}_{what}"] = function(f"{name}__value")
    fields = ["run_id", "flow", "run_number", "project__name"] if field == "run_id" else [field]
    summed = joined.values(*fields).annotate(count=Count("pk"), **sums).order_by("-count", field)[:MAX_GROUPS]
    return [
        Group(
            value=None if field == "run_id" and not row[field] else row[field],
            label=_label(by, row, field),
            where=_where(by, row, field),
            count=row["count"],
            metrics=[Spread(row[f"{name}_mean"], row[f"{name}_lowest"], row[f"{name}_highest"]) for name in names],
        )
        for row in summed
    ]


def check_group(column: Column) -> None:
    """Raise InvalidColumn for a column whose values are rarely the same."""
    if column.kind is Kind.METRIC or (column.kind is Kind.PLAIN and column.key not in GROUPABLE):
        raise InvalidColumn(
            f"Experiments cannot be grouped by {column}: group by a parameter, a tag, or {', '.join(GROUPABLE)}."
        )


GROUPABLE = ("flow", "run", "step", "state", "template", "by", "project")
"""Plain fields to group by."""


def _sorted(rows: QuerySet[Experiment], order: Order) -> QuerySet[Experiment]:
    column = order.column
    if column.kind is Kind.PLAIN:
        fields = [PATHS[column.key]]
    else:
        rows = rows.alias(sorted=_relation(column))
        # Numbers as numbers; what is a text comes after them, and what is missing at the end.
        fields = ["sorted__value"] if column.kind is Kind.METRIC else ["sorted__number", "sorted__text"]
    directed = [
        F(field).desc(nulls_last=True) if order.is_falling else F(field).asc(nulls_last=True) for field in fields
    ]
    return rows.order_by(*directed, _NEWEST)


def _relation(column: Column) -> FilteredRelation:
    """Return the join to the one row that holds a column's value."""
    if column.kind is Kind.METRIC:
        return FilteredRelation("metrics", condition=Q(metrics__key=column.key))
    return FilteredRelation("facts", condition=Q(facts__kind=column.kind, facts__key=column.key))


def _with_group(rows: QuerySet[Experiment], by: Column) -> tuple[QuerySet[Experiment], str]:
    check_group(by)
    if by.kind is Kind.PLAIN:
        return rows, "run_id" if by.key == "run" else PATHS[by.key]
    return rows.alias(grouped=_relation(by)), "grouped__text"


def _label(by: Column, row: Mapping[str, object], field: str) -> str:
    if field == "run_id":
        return f"{row['flow']} #{row['run_number']}" if row["run_id"] else ""
    value = row[field]
    if value is None:
        return ""
    return str(value)[:8] if by.kind is Kind.DATA else str(value)


def _where(by: Column, row: Mapping[str, object], field: str) -> str:
    if field == "run_id":
        flow, project = filter_tree.quote(str(row["flow"])), filter_tree.quote(str(row["project__name"]))
        number = f" and run = {row['run_number']}" if row["run_id"] else ""
        return f"flow = {flow}{number} and project = {project}"
    value = row[field]
    return (
        f"not {filter_tree.name(by)}" if value is None else f"{filter_tree.name(by)} = {filter_tree.quote(str(value))}"
    )
