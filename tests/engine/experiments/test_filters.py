import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engine import columns, filter_tree, filters
from experiments.engine.columns import Column, Kind
from experiments.engine.filter_tree import All, Any, Contains, Is, Known, Not, Value
from experiments.engine.recorded import Reading
from experiments.errors import InvalidColumn, InvalidFilter

LR = Column(Kind.PARAM, "lr")
ACCURACY = Column(Kind.METRIC, "accuracy")


def test_a_filter_reads_as_it_is_meant():
    read = filters.parse('metrics.accuracy > 0.9 and params.lr in (0.1, 0.3) and tags.best and flow = "digits"')

    assert read == All(
        (
            Is(ACCURACY, ">", Value("0.9", 0.9)),
            Any((Is(LR, "=", Value("0.1", 0.1)), Is(LR, "=", Value("0.3", 0.3)))),
            Known(Column(Kind.TAG, "best")),
            Is(Column(Kind.PLAIN, "flow"), "=", Value("digits")),
        )
    )


def test_or_binds_less_than_and_and_not_binds_most():
    a, b, c = (Known(Column(Kind.TAG, key)) for key in "abc")

    assert filters.parse("tags.a or tags.b and not tags.c") == Any((a, All((b, Not(c)))))
    assert filters.parse("(tags.a or tags.b) and tags.c") == All((Any((a, b)), c))


def test_not_in_is_about_what_was_recorded():
    assert filters.parse("params.lr not in (1)") == All((Known(LR), Not(Any((Is(LR, "=", Value("1", 1.0)),)))))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", All(())),
        ("param.lr = 1", Is(LR, "=", Value("1", 1.0))),
        ("params.lr == '1'", Is(LR, "=", Value("1"))),
        ('params."an odd (key)" = 1', Is(Column(Kind.PARAM, "an odd (key)"), "=", Value("1", 1.0))),
        ('flow = "say \\"hi\\""', Is(Column(Kind.PLAIN, "flow"), "=", Value('say "hi"'))),
        ("took > 5m", Is(Column(Kind.PLAIN, "took"), ">", Value("5m", 300.0))),
        ("metrics.accuracy = nan", Is(ACCURACY, "=", Value("nan"))),
        ("title CONTAINS heron", Contains(Column(Kind.PLAIN, "title"), "heron")),
        ("data.team/digits = 1a2b", Is(Column(Kind.DATA, "team/digits"), "=", Value("1a2b"))),
    ],
)
def test_a_piece_of_the_language(text, meant):
    assert filters.parse(text) == meant


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("params.lr >", 12, "a value is missing after '>'"),
        ("params.lr = 1 params.x", 15, "'and' or 'or' is missing before it"),
        ("(params.lr = 1", 15, "')' is missing at the end"),
        ("params.lr = 1)", 14, "no parenthesis is open"),
        ('flow = "digits', 8, "a quote is not closed"),
        ("flow", 5, "a sign is missing after 'flow'"),
        ("flow < 3", 6, "flow is a text"),
        ('params.lr < "a"', 11, "is a text"),
        ("metrics.loss = low", 16, "metrics.loss is a number"),
        ("created = 2026-11-01", 9, "created is a moment"),
        ("created > soon", 11, "write it like 2026-11-01"),
        ("took > long", 8, "write it like 90, 5m or 2h"),
        ("took contains 5", 15, "took is no text"),
        ("parms.lr = 1", 1, "did you mean params.lr?"),
        ("accuracy > 1", 1, "write params.accuracy or metrics.accuracy"),
        ("flow = and", 8, "a value was expected"),
        ("a & ! b", 5, "'!' stands alone"),
        ("(" * 40, 27, "nested too deeply"),
        ("flow = a\0", 9, "no text holds"),
        (" or ".join(["tags.a"] * 101), 1001, "more than 100 conditions"),
        ("x" * 2001, 1, "at most 2000 characters"),
    ],
)
def test_what_is_wrong_is_said_in_words_with_its_place(text, position, words):
    with pytest.raises(InvalidFilter) as refused:
        filters.parse(text)

    assert words in refused.value.message
    assert refused.value.details["position"] == position


WORDS = """params.lr metrics.loss tags.best flow run took created and or not in contains params. data.a/b ß 0.1 1e999 nan 5m
( ) , = != < >= == ! " ' \\ "x" 2026-11-01 0001-01-01T00:00+14:00"""
PIECES = st.sampled_from([*WORDS.split(), '"x y"', "\0", "\ud800"])


@given(
    st.one_of(
        st.text(max_size=60), st.lists(PIECES, max_size=14).map(" ".join), st.lists(PIECES, max_size=9).map("".join)
    )
)
def test_whatever_is_typed_is_read_or_refused_with_a_place_in_it(text):
    position = 1
    try:
        filters.parse(text)
    except InvalidFilter as refused:
        position = refused.details["position"]

    assert 1 <= position <= len(text) + 1


@given(
    st.sampled_from(columns.RECORDED),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30),
)
def test_a_written_name_is_read_as_the_same_column(kind, key):
    column = Column(kind, key)

    assert filters.parse(filter_tree.name(column)) == Known(column)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_a_quoted_text_is_read_as_the_same_text(text):
    assert filters.parse(f"flow = {filter_tree.quote(text)}") == Is(Column(Kind.PLAIN, "flow"), "=", Value(text))


def test_columns_and_orders_are_read():
    assert columns.parse("metrics.a.b") == Column(Kind.METRIC, "a.b")
    assert str(columns.parse_order("-params.lr")) == "-params.lr"
    with pytest.raises(InvalidColumn):
        columns.parse("nothing")


@pytest.mark.parametrize(
    ("value", "number", "text"),
    [(1, 1.0, "1"), (0.5, 0.5, "0.5"), ("1e-3", 0.001, "1e-3"), ("inf", None, "inf"), (True, None, "true"),
     (None, None, "null"), ([1], None, "[1]"), ("1" * 501, None, "1" * 500), (10**400, None, str(10**400))],
)  # fmt: skip
def test_a_recorded_value_is_a_number_where_it_reads_as_one(value, number, text):
    assert Reading.of(value) == Reading(number, text)


@pytest.mark.parametrize(
    ("key", "falls"), [("val_loss", True), ("loss", True), ("glossy", False), ("accuracy", False), ("top1_error", True)]
)
def test_a_metric_that_is_to_fall_is_known_by_its_name(key, falls):
    assert Column(Kind.METRIC, key).is_lower_better is falls
