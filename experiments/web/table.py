"""The table of experiments: chosen columns, filtered, sorted, grouped, as a page and as CSV."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django import forms
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from accounts.permissions import Actor, Level
from accounts.selectors import list_projects
from accounts.web.requests import PageRequest
from core.streaming import stream
from core.times import Times
from experiments.engine import columns, filter_tree
from experiments.engine.columns import RECORDED, Column, Kind
from experiments.engine.recorded import Reading
from experiments.engine.states import ExperimentState
from experiments.errors import InvalidColumn, InvalidFilter
from experiments.models import Experiment
from experiments.selectors import experiments, lists, saved_views, sources
from experiments.selectors.lists import GROUPABLE, Group
from experiments.web.saved_views import ViewForm, address_of, rename_form
from experiments.web.table_query import TableQuery
from experiments.web.values import Recorded, csv_lines, recorded_by, value_of
from web.refused_forms import shown

ROWS = 50
_HUES = 8
_PARAMETERS, _METRICS = 3, 4
_HEADS = ("title", "state", "took", "template", "by", "created")
_NUMBERED = frozenset({"took", "created"})


@dataclass(frozen=True)
class Cell:
    """What a row has in a column. `value` None: nothing. `is_best`: none of the page's rows has a better one."""

    column: Column
    value: object
    is_best: bool = False

    @property
    def text(self) -> str:
        """The value as it was recorded, a commit by its beginning."""
        text = Reading.of(self.value).text
        return text[:8] if self.column.kind is Kind.DATA else text


@dataclass(frozen=True)
class Row:
    """An experiment with the cells of the chosen columns, and the colour that its curves are drawn in."""

    experiment: Experiment
    times: Times | None
    hue: int
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Head:
    """The head of a column: a click on it sorts. `direction` is what `aria-sort` says."""

    label: str
    column: Column
    address: str
    direction: str
    is_number: bool


def experiments_page(request: PageRequest) -> HttpResponse:
    """List experiments as the address says: filter, order, group, columns, page."""
    query = TableQuery.of(request.GET)
    if "up" in request.GET or "down" in request.GET:
        return redirect(f"{request.path}?{query.turned_to(query.page)}")
    query, table = _table(request.actor, query)
    cleared = TableQuery(project=query.project, shows_all=query.shows_all)
    table |= {
        "query": query,
        "clear_address": f"?{cleared.address()}",
        "other_view": f"?{query.address(shows_all=not query.shows_all)}",
    }
    if request.htmx:
        return render(request, "experiments/experiments_table.html", table)
    return render(request, "experiments/experiments.html", table | _controls(request, query))


def experiments_csv(request: PageRequest) -> HttpResponseBase:
    """Send all rows of the filter as CSV, with the chosen columns; without a choice, with every one that there is."""
    query = TableQuery.of(request.GET)
    matches = _find(request.actor, query)
    chosen = query.columns or _all_columns(request.actor, query)
    response = stream(request, csv_lines(matches, chosen), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="experiments.csv"'
    return response


def _table(actor: Actor, query: TableQuery) -> tuple[TableQuery, dict[str, object]]:
    """Return the query with the columns that it means, and what the table shows: the rows, the groups or the error."""
    try:
        matches = _find(actor, query)
        by = columns.parse(query.group) if query.group else None
        if by is not None:
            lists.check_group(by)
    except (InvalidFilter, InvalidColumn) as error:
        return query, {"error": error, "error_at": _split_at(query.where, error)}
    if by is not None:
        return _groups(actor, query, matches, by)
    total = matches.count()
    rows = lists.take(matches, start=(query.page - 1) * ROWS, limit=ROWS)
    recorded = recorded_by(rows)
    query = query if query.columns else replace(query, columns=_telling(recorded))
    pages = max(1, -(-total // ROWS))
    return query, {
        "total": total,
        "rows": _rows(rows, recorded, query.columns),
        "has_unrecorded": not rows and _find(actor, replace(query, shows_all=True)).exists(),
        "heads": [_head(query, column) for column in query.columns],
        "plain": {name: _head(query, columns.parse(name)) for name in _HEADS},
        "first": (query.page - 1) * ROWS + 1,
        "last": min(query.page * ROWS, total),
        "previous": query.turned_to(query.page - 1) if query.page > 1 else "",
        "next": query.turned_to(query.page + 1) if query.page < pages else "",
        "moves": any(row.finished_at is None for row in rows),
        "curves": [column.key for column in query.columns if column.kind is Kind.METRIC][:4],
    }


def _groups(
    actor: Actor, query: TableQuery, matches: QuerySet[Experiment], by: Column
) -> tuple[TableQuery, dict[str, object]]:
    metrics = [column for column in query.columns if column.kind is Kind.METRIC]
    if not query.columns:
        metrics = sorted(_all_columns(actor, query, Kind.METRIC), key=lambda column: "/" in column.key)[:_METRICS]
        query = replace(query, columns=tuple(metrics))
    groups = lists.group(matches, by=by, metrics=metrics)
    order = columns.parse_order(query.order) if query.order else None
    if order is not None and order.column in metrics:
        groups = _by_mean(groups, metrics.index(order.column), is_falling=order.is_falling)
    return query, {
        "total": matches.count(),
        "group": by,
        "groups": [
            (
                group,
                query.narrowed_to(group.where),
                [
                    (spread, spread.mean == best)
                    for spread, best in zip(group.metrics, _best_means(groups, metrics), strict=True)
                ],
            )
            for group in groups
        ],
        "heads": [_head(query, column) for column in metrics],
        "is_cut": len(groups) == lists.MAX_GROUPS,
    }


def _by_mean(groups: Sequence[Group], place: int, *, is_falling: bool) -> Sequence[Group]:
    measured = [(mean, group) for group in groups if (mean := group.metrics[place].mean) is not None]
    measured.sort(key=lambda pair: pair[0], reverse=is_falling)
    return [group for _, group in measured] + [group for group in groups if group.metrics[place].mean is None]


def _best_means(groups: Sequence[Group], metrics: Sequence[Column]) -> list[float]:
    """Return the best mean of each metric; NaN, which equals nothing, where there is nothing to choose from."""
    best = []
    for place, column in enumerate(metrics):
        means = {mean for group in groups if (mean := group.metrics[place].mean) is not None}
        best.append((min if column.is_lower_better else max)(means) if len(means) > 1 else math.nan)
    return best


def _controls(request: PageRequest, query: TableQuery) -> dict[str, object]:
    """Return what stands above the table: columns to choose, groups, saved views, words to complete."""
    actor, project = request.actor, query.project or None
    keys = lists.list_keys(actor=actor, project=project)
    recorded = [Column(kind, key) for kind in (Kind.PARAM, Kind.METRIC, Kind.TAG, Kind.DATA) for key in keys[kind]]
    projects = list(list_projects(actor=actor))
    writable = [row.name for row in projects if (actor.level_in(row.pk) or 0) >= Level.WRITE]
    view_query = urlencode(replace(query, page=1).fields(without=["project", "run"]))
    view_form = shown(request, ViewForm(auto_id="save-view-%s", initial={"query": view_query, "project": project}))
    choices = [(name, name) for name in writable]
    view_form.fields["project"].widget = forms.HiddenInput() if project else forms.Select(choices=choices)
    return {
        "choices": [*query.columns, *(column for column in recorded if column not in set(query.columns))],
        "groupable": [*GROUPABLE, *(str(column) for column in recorded if column.kind is not Kind.METRIC)],
        "views": [
            (
                view,
                address_of(view),
                view.owner_id == actor.user_id or (actor.level_in(view.project_id) or 0) >= Level.ADMIN,
                shown(request, rename_form(view)),
            )
            for view in saved_views.list_views(actor=actor, project=project)[:100]
        ],
        "view_form": view_form if writable else None,
        "csv_query": urlencode(query.fields(without=["page"])),
        "other_fields": query.fields(without=["q", "page"]),
        "vocabulary": {
            "columns": [*columns.PLAIN, *(filter_tree.name(column) for column in recorded)],
            "natures": {name: str(nature) for name, nature in columns.PLAIN.items()},
            "values": {
                "flow": sources.list_flows(actor=actor, project=project),
                "state": [str(state) for state in ExperimentState],
                "project": [row.name for row in projects],
            },
        },
    }


def _find(actor: Actor, query: TableQuery) -> QuerySet[Experiment]:
    return lists.find(
        actor=actor,
        project=query.project or None,
        run=query.run or None,
        where=query.where,
        order=query.order,
        is_recorded=not query.shows_all,
    )


def _split_at(where: str, error: InvalidFilter | InvalidColumn) -> tuple[str, str] | None:
    """Return the filter before and from the place where it cannot be read on."""
    position = error.details.get("position")
    return (where[: position - 1], where[position - 1 :]) if isinstance(position, int) else None


def _telling(recorded: Recorded) -> tuple[Column, ...]:
    """Return a few columns, of_kind first whose values differ between the rows."""
    candidates = sorted({column for values in recorded.values() for column in values}, key=lambda column: column.key)

    def is_same(column: Column) -> bool:
        return len({str(values.get(column)) for values in recorded.values()}) <= 1

    chosen = []
    for kind, most in ((Kind.PARAM, _PARAMETERS), (Kind.METRIC, _METRICS)):
        of_kind = [column for column in candidates if column.kind is kind]
        # What has no path in its name is the sum of what has one.
        chosen += sorted([column for column in of_kind if "/" not in column.key] or of_kind, key=is_same)[:most]
    return tuple(chosen)


def _rows(rows: Sequence[Experiment], recorded: Recorded, chosen: Sequence[Column]) -> list[Row]:
    best: dict[Column, float] = {}
    for column in chosen:
        measured = [value for values in recorded.values() if isinstance(value := values.get(column), float)]
        if column.kind is Kind.METRIC and len(set(measured)) > 1:
            best[column] = min(measured) if column.is_lower_better else max(measured)
    times = experiments.times_of(rows)

    def cell(row: Experiment, column: Column) -> Cell:
        value = value_of(row, times[row.pk], recorded[row.pk], column)
        return Cell(column, value, column in best and value == best[column])

    return [
        Row(row, times[row.pk], number % _HUES, [cell(row, column) for column in chosen])
        for number, row in enumerate(rows)
    ]


def _head(query: TableQuery, column: Column) -> Head:
    directions = {str(column): "ascending", f"-{column}": "descending"}
    return Head(
        label=column.key,
        column=column,
        address=query.address(order=query.ordered_by(column)),
        direction=directions.get(query.order, ""),
        is_number=column.kind in {Kind.METRIC, Kind.PARAM} or column.key in _NUMBERED,
    )


def _all_columns(actor: Actor, query: TableQuery, *kinds: Kind) -> list[Column]:
    keys = lists.list_keys(actor=actor, project=query.project or None)
    return [Column(kind, key) for kind in kinds or RECORDED for key in keys[kind]]
