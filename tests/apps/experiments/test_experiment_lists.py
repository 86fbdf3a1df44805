"""Lists of experiments: what the database finds is what a plain reading of the filter says."""

import math
import operator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Project
from accounts.permissions import Actor
from experiments.engine import columns, filter_tree, filters
from experiments.engine.columns import Column, Kind
from experiments.engine.filter_tree import All, Any, Contains, Known, Not
from experiments.engine.recorded import Reading
from experiments.errors import InvalidColumn
from experiments.models import Experiment
from experiments.selectors import lists
from tests.factories.experiments import make_experiments, make_run

VALUES = [0, 1, 0.1, 10, -3, "0.1", "1e1", "adam", "Adam W", "a%b_c", "", True, None]
MEASURED = [0.0, 1.0, 0.1, -3.0, math.nan, math.inf]
TOOK = [None, 0.0, 60.0, 3600.0]
SYSTEM = Actor.system("tests")


def describe(index: int) -> dict:
    """Describe experiments that together have every value under every key, and nothing under some."""
    parameters = {"lr": VALUES[index % 13], "opt": VALUES[index * 5 % 13], "odd key": index % 3}
    tags = {"best": VALUES[index * 7 % 13], "split": "patient"}
    metrics = {"loss": MEASURED[index % 6], "accuracy": MEASURED[index * 5 % 6]}
    return {
        "title": f"{'Heron' if index % 2 else 'otter'} {index % 4}",
        "parameters": {key: value for number, (key, value) in enumerate(parameters.items()) if (index + number) % 4},
        "tags": {key: value for number, (key, value) in enumerate(tags.items()) if (index + number) % 3},
        "metrics": {key: value for number, (key, value) in enumerate(metrics.items()) if (index + number) % 5},
        "datasets": [{"dataset": "team/digits", "commit": f"{index % 3}a" * 32}] if index % 4 else [],
        "took_s": TOOK[index % 4],
        "state": "failed" if index % 6 == 0 else "succeeded",
        "note": "Look again" if index % 5 == 0 else "",
    }


@pytest.fixture
def rows(db, project) -> list[Experiment]:
    for number, flow in enumerate(("digits", "xrays"), 1):
        make_experiments(make_run(project, flow=flow, number=number, by="ada" if number == 1 else "kim"), 20, describe)
    return list(Experiment.objects.select_related("project"))


def value_of(row: Experiment, column: Column) -> object:
    """Return what an experiment has in a column; None when it has nothing there."""
    if column.kind is Kind.PLAIN:
        return {
            "title": row.title,
            "state": row.state,
            "project": row.project.name,
            "flow": row.flow,
            "run": row.run_number,
            "step": row.step_key,
            "template": row.template,
            "by": row.created_by,
            "note": row.note,
            "created": row.created_at,
            "took": row.finished_at and (row.finished_at - row.started_at) / timedelta(seconds=1),
        }[column.key]
    if column.kind is Kind.METRIC:
        last = row.metrics.filter(key=column.key).first()
        return None if last is None else math.nan if last.value is None else last.value
    recorded = {
        Kind.PARAM: row.parameters,
        Kind.TAG: row.tags,
        Kind.DATA: {item["dataset"]: item["commit"] for item in row.datasets},
    }[column.kind]
    return Reading.of(recorded[column.key]) if column.key in recorded else None


def holds(row: Experiment, wanted: filter_tree.Filter) -> bool:
    """Decide a filter as its words say it."""
    match wanted:
        case All(parts):
            return all(holds(row, part) for part in parts)
        case Any(parts):
            return any(holds(row, part) for part in parts)
        case Not(inner):
            return not holds(row, inner)
    value = value_of(row, wanted.column)
    if value is None or isinstance(wanted, Known):
        return value is not None
    if isinstance(wanted, Contains):
        return wanted.text.lower() in (value.text if isinstance(value, Reading) else value).lower()
    return compares(value, wanted)


def compares(value: object, wanted: filter_tree.Is) -> bool:
    column, sign, said = wanted.column, wanted.sign, wanted.value
    if column.kind is Kind.DATA:
        return value.text.startswith(said.text) == (sign == "=")
    if isinstance(value, Reading):
        value = value.text if said.number is None else value.number
    if said.text == "nan":
        return math.isnan(value) == (sign == "=")
    if value is None:
        return sign == "!="
    against = said.moment or (said.text if isinstance(value, str) else said.number)
    signs = {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    return signs[sign](value, against)


SIGNS = ["=", "!=", "<", "<=", ">", ">="]
NUMBERS = ["0", "1", "0.1", "10", "-3", "1e1", "2.5"]
KEYED = [f"{kind}{key}" for kind in ("params.", "tags.") for key in ("lr", "opt", "best", "split", '"odd key"', "none")]
METRICS = ["metrics.loss", "metrics.accuracy", "metrics.none"]
TEXTS = ["title", "state", "flow", "step", "template", "by", "note", "project"]
WORDS = [
    "adam",
    "'Adam W'",
    '"0.1"',
    '"a%b_c"',
    '""',
    "true",
    "null",
    "patient",
    "digits",
    "failed",
    "heron",
    "otter",
    "%",
    "_",
]


def conditions() -> st.SearchStrategy[str]:
    sign, equal = st.sampled_from(SIGNS), st.sampled_from(["=", "!="])
    number, word = st.sampled_from(NUMBERS), st.sampled_from(WORDS)
    keyed, metric, text = (st.sampled_from(names) for names in (KEYED, METRICS, TEXTS))
    join = " ".join
    return st.one_of(
        st.tuples(st.one_of(keyed, metric), sign, number).map(join),
        st.tuples(st.one_of(keyed, text), equal, word).map(join),
        st.tuples(metric, equal, st.just("nan")).map(join),
        st.tuples(st.one_of(keyed, text), st.just("contains"), word).map(join),
        st.one_of(keyed, metric, st.just("data.team/digits")),
        st.tuples(st.just("data.team/digits"), equal, st.sampled_from(["0a0a", "1a", "2", "a"])).map(join),
        st.tuples(st.just("run"), sign, st.sampled_from(["1", "2", "1.5"])).map(join),
        st.tuples(st.just("took"), sign, st.sampled_from(["0", "60", "1m", "1h", "36600d"])).map(join),
        st.tuples(st.just("created"), st.sampled_from(SIGNS[2:]), st.sampled_from(["2020-01-01", "2999-01-01"])).map(
            join
        ),
        st.tuples(
            keyed, st.sampled_from(["in", "not in"]), st.lists(st.one_of(number, word), min_size=1, max_size=3)
        ).map(lambda parts: f"{parts[0]} {parts[1]} ({', '.join(parts[2])})"),
    )


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join)
    return st.one_of(pair, inner.map(lambda text: f"not ({text})"), pair.map(lambda text: f"({text})"))


FILTERS = st.recursive(conditions(), nested, max_leaves=5)


def test_the_database_finds_what_a_plain_reading_of_the_filter_says(rows):
    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(FILTERS)
    def agrees(text: str) -> None:
        wanted = filters.parse(text)

        found = lists.find(actor=SYSTEM, where=text).values_list("pk", flat=True)

        assert sorted(found) == sorted(row.pk for row in rows if holds(row, wanted))

    agrees()


@pytest.mark.parametrize(
    "name", ["params.lr", "tags.best", "metrics.loss", "took", "title", "run", "data.team/digits", "created"]
)
@pytest.mark.parametrize("is_falling", [False, True])
def test_a_list_is_sorted_numbers_as_numbers_and_what_is_missing_last(rows, name, is_falling):
    def rank(row: Experiment) -> tuple:
        value = value_of(row, columns.parse(name))
        number = value.number if isinstance(value, Reading) else value if isinstance(value, int | float) else None
        text = value.text if isinstance(value, Reading) else value if isinstance(value, str) else None
        if number is not None and math.isnan(number):
            number = None
        return number, text

    order = f"{'-' if is_falling else ''}{name}"
    found = lists.take(lists.find(actor=SYSTEM, order=order), start=0, limit=100)

    numbers = [rank(row)[0] for row in found if rank(row)[0] is not None]
    texts = [rank(row)[1] for row in found if rank(row)[0] is None and rank(row)[1] is not None]
    kinds = [0 if rank(row)[0] is not None else 1 if rank(row)[1] is not None else 2 for row in found]
    assert len(found) == len(rows)
    assert numbers == sorted(numbers, reverse=is_falling)
    assert texts == sorted(texts, reverse=is_falling)
    assert kinds == sorted(kinds)


def test_groups_count_and_sum_up_and_lead_to_their_experiments(rows):
    by, loss = columns.parse("params.opt"), columns.parse("metrics.loss")

    groups = lists.group(lists.find(actor=SYSTEM), by=by, metrics=[loss])

    assert sum(group.count for group in groups) == len(rows)
    for group in groups:
        members = [
            row for row in rows if (value := value_of(row, by)) == value and (value and value.text) == group.value
        ]
        measured = [number for row in members if (number := value_of(row, loss)) is not None and not math.isnan(number)]
        assert group.count == len(members)
        assert (group.metrics[0].lowest, group.metrics[0].highest) == (
            min(measured, default=None),
            max(measured, default=None),
        )
        found = lists.find(actor=SYSTEM, where=group.where)
        assert sorted(found.values_list("pk", flat=True)) == sorted(row.pk for row in members)


@pytest.mark.parametrize("name", ["flow", "run", "state", "data.team/digits", "tags.best"])
def test_a_group_of_any_kind_leads_to_as_many_as_it_counts(rows, name):
    groups = lists.group(lists.find(actor=SYSTEM), by=columns.parse(name), metrics=[])

    assert [group.count for group in groups] == [
        lists.find(actor=SYSTEM, where=group.where).count() for group in groups
    ]


def test_nothing_is_grouped_by_a_metric(rows):
    with pytest.raises(InvalidColumn):
        lists.group(lists.find(actor=SYSTEM), by=columns.parse("metrics.loss"), metrics=[])


@pytest.mark.parametrize("order", ["", "-metrics.loss"])
def test_pages_for_programs_hold_every_row_once(rows, order):
    seen, cursor = [], None
    while True:
        found = lists.find(actor=SYSTEM, order=order)
        page = lists.page_of(found, is_sorted=bool(order), cursor=cursor, limit=7)
        seen += [row.pk for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert len(seen) == len(rows)
    assert set(seen) == {row.pk for row in rows}


def test_nobody_finds_what_they_may_not_see(rows, make_actor):
    stranger = make_actor(None)
    Project.objects.create(name="other")

    assert not lists.find(actor=stranger, where="flow = digits or not flow = digits").exists()
    assert not any(lists.list_keys(actor=stranger).values())


def test_the_keys_that_there_are_to_choose_from(rows, viewer):
    keys = lists.list_keys(actor=viewer, project="team-a")

    assert keys == {
        Kind.PARAM: ["lr", "odd key", "opt"],
        Kind.METRIC: ["accuracy", "loss"],
        Kind.TAG: ["best", "split"],
        Kind.DATA: ["team/digits"],
    }


def test_a_moment_is_compared_in_utc(rows):
    Experiment.objects.filter(pk=rows[0].pk).update(created_at=datetime(2020, 5, 1, 23, 30, tzinfo=UTC))

    found = lists.find(actor=SYSTEM, where="created < 2020-05-02T00:00+00:00 and created >= 2020-05-02T01:00+02:00")

    assert [row.pk for row in found] == [rows[0].pk]
