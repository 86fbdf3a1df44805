import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.engine import expressions
from flows.engine.expressions import Verdict
from flows.errors import InvalidExpression


def decide(text, results, parameters=None) -> Verdict:
    return expressions.evaluate(expressions.parse(text), results, parameters or {})


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("train.accuracy >= 0.9", True),
        ("train.accuracy>0.95", False),
        ("train.accuracy >= 0.9 and train.loss < 1e-1", False),
        ("train.accuracy < 0.5 or train.loss <= 0.25", True),
        ("not train.loss > 1 and train.accuracy == 0.95", True),
        ("not (train.loss > 1 or train.accuracy > 0.9)", False),
        ("train.stage == 'final'", True),
        ('train.stage != "final"', False),
        ("train.epochs >= 10", True),
        ("train.ok", True),
        ("train.val/f1 > -1", True),
        ("parameters.threshold < train.accuracy", True),
        ("true and not false", True),
        ("0.9 <= train.accuracy", True),
    ],
)
def test_conditions_mean_what_they_say(text, holds):
    measured = {"accuracy": 0.95, "loss": 0.25, "stage": "final", "epochs": "12", "ok": "true", "val/f1": 0.5}

    assert decide(text, {"train": [measured]}, {"threshold": 0.9}).holds is holds


def test_the_verdict_names_the_deciding_fact():
    assert decide("train.accuracy >= 0.9", {"train": [{"accuracy": 0.85}]}) == Verdict(
        holds=False, why="train.accuracy is 0.85, so train.accuracy >= 0.9 does not hold"
    )


def test_a_grid_is_folded_to_its_best():
    tries = {"train": [{"accuracy": 0.8}, {"accuracy": 0.97}, {}]}

    assert decide("max(train.accuracy) > 0.9", tries).holds
    assert not decide("min(train.accuracy) > 0.9", tries).holds


@pytest.mark.parametrize("text", ["train.accuracy > 0", "not train.accuracy > 0"])
def test_what_was_never_measured_decides_for_no(text):
    assert decide(text, {"train": [{}]}) == Verdict(holds=False, why="train recorded no 'accuracy'")


@pytest.mark.parametrize(
    "text",
    ["", "train", "train.a >", "train.a > > 1", "(train.a > 1", "train.a > 1)", "1 +", "a.b $ 2", "max(1) > 2",
     "__import__('os')", "a.b > 1 c", "max(a.b", "(" * 200 + "a.b" + ")" * 200, "not " * 200 + "a.b",
     "max(" * 5000 + "a.b" + ")" * 5000,
     "a.b == '\ud800'", "a.b == '\0'", "a.b < " + "1" * 100_000 + "x"],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InvalidExpression):
        expressions.parse(text)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e400", "1" * 5000])
def test_a_number_beyond_all_bounds_in_a_condition_is_more_than_any_other(number):
    assert decide(f"a.b < {number}", {"a": [{"b": 1e300}]}) == Verdict(
        holds=True, why="a.b is 1e+300, so a.b < inf holds"
    )


@pytest.mark.parametrize("sign", ["<", ">", "==", "!=", "<=", ">="])
def test_numbers_beyond_all_bounds_are_compared_and_shown_without_harm(sign):
    results = {"a": [{"b": 10**400, "c": "1e999", "d": math.nan, "e": "²"}]}

    for metric in "bcde":
        verdict = decide(f"a.{metric} {sign} 1 and max(a.{metric}) {sign} parameters.p", results, {"p": -(10**400)})
        assert verdict.why.encode().decode()


@pytest.mark.parametrize("accuracies", [(math.nan, 0.95, 0.9), (0.95, math.nan, 0.9), (0.9, "nan", 0.95)])
def test_tries_that_diverged_are_left_out_of_the_most_and_the_least_wherever_they_come(accuracies):
    results = {"train": [{"accuracy": each} for each in accuracies]}

    assert decide("max(train.accuracy) == 0.95 and min(train.accuracy) == 0.9", results).holds


def test_where_all_tries_diverged_the_most_is_no_number():
    verdict = decide("max(train.loss) < 1", {"train": [{"loss": math.nan}, {"loss": math.nan}]})

    assert verdict == Verdict(holds=False, why="max(train.loss) is nan, so max(train.loss) < 1 does not hold")


WORDS = st.sampled_from(
    ["a.b", "max(", "min(", "(", ")", "not", "and", "or", "<", ">=", "==", "1", "1e400", "9" * 400, "'x'", "true", "a.c",
     "parameters.p", "parameters.q", "0" * 5000 + "1", "\ud800", "\0", "²", "٣"]
)  # fmt: skip
VALUES = st.booleans() | st.integers() | st.floats() | st.just(10**400) | st.text(st.characters(codec="utf-8"))


@given(st.text(max_size=60) | st.lists(WORDS, max_size=12).map(" ".join), VALUES, VALUES)
def test_any_text_is_read_or_refused_but_never_breaks(text, measured, parameter):
    try:
        expression = expressions.parse(text)
    except InvalidExpression:
        return
    verdict = expressions.evaluate(expression, {"a": [{"b": measured}]}, {"p": parameter})

    assert "\0" not in verdict.why.replace(str(measured), "").replace(str(parameter), "")
    assert verdict.why.encode().decode() == verdict.why


def test_references_take_values_with_their_type():
    values = {"parameters": {"lr": 0.1, "name": "a b; rm -rf /"}, "run": {"number": 3}}

    assert expressions.fill("lr=${{ parameters.lr }} n=${{run.number}}", values) == "lr=0.1 n=3"
    assert expressions.fill_value("${{ parameters.lr }}", values) == 0.1
    assert expressions.fill_value("x${{ parameters.lr }}", values) == "x0.1"


def test_a_value_in_a_command_is_quoted_and_never_run():
    values = {"parameters": {"name": "a b; rm -rf /", "n": 3}}

    command = expressions.fill_command("echo ${{ parameters.name }} ${{ parameters.n }}", values)

    assert command == "echo 'a b; rm -rf /' 3"


@pytest.mark.parametrize("text", ["${{ lr }}", "${{ 1 + 1 }}", "${{ env.HOME }}", "${{ run.secret }}", "${{ }}"])
def test_what_is_no_reference_is_refused(text):
    with pytest.raises(InvalidExpression):
        list(expressions.names_in(text))
