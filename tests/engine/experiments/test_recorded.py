import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engine.recorded import Problem, Record, RecordKind, harvest

HUGE = "9" * 400
DEEP = 100_000


def records(text: str) -> list[Record]:
    return list(harvest(text.encode(), is_complete=True).records)


def test_lines_of_the_sdk_are_read():
    text = (
        'hello\n::nearline {"kind": "metric", "key": "loss", "value": 0.5, "step": 3, "at": 1700000000.5}\n'
        '::nearline {"kind": "param", "key": "C", "value": 10}\n'
        '::nearline {"kind": "tag", "key": "stage", "value": "final"}\n'
    )

    assert records(text) == [
        Record(RecordKind.METRIC, "loss", 0.5, 3, datetime(2023, 11, 14, 22, 13, 20, 500000, UTC)),
        Record(RecordKind.PARAMETER, "C", 10),
        Record(RecordKind.TAG, "stage", "final"),
    ]


def test_a_checkpoint_is_a_step_and_a_moment():
    assert records('::nearline {"kind": "checkpoint", "key": "checkpoint", "value": 900, "at": 1700000000500}\n') == [
        Record(RecordKind.CHECKPOINT, "checkpoint", 900, 900, datetime(2023, 11, 14, 22, 13, 20, 500000, UTC))
    ]


@pytest.mark.parametrize("value", ['"soon"', "1.5", "true", "null"])
def test_a_checkpoint_without_a_whole_step_is_told(value):
    assert reasons(f'::nearline {{"kind": "checkpoint", "key": "c", "value": {value}}}') == [
        "its step is not a whole number"
    ]


def test_tags_of_cnvrg_are_read():
    text = (
        "cnvrg_tag_accuracy: 0.97\ncnvrg_tag_model: 'resnet 50'\n"
        "cnvrg_linechart_loss group: 'train' key: '4' x: 'epoch' y: 'loss' value: 1.5e-3\n"
        "cnvrg_linechart_loss value: 0.25\n"
    )

    assert records(text) == [
        Record(RecordKind.TAG, "accuracy", "0.97"),
        Record(RecordKind.TAG, "model", "resnet 50"),
        Record(RecordKind.METRIC, "loss/train", 0.0015, 4),
        Record(RecordKind.METRIC, "loss", 0.25),
    ]


def test_nan_and_infinity_are_legal():
    nan, infinite = records(
        '::nearline {"kind": "metric", "key": "a", "value": NaN}\n'
        '::nearline {"kind": "metric", "key": "b", "value": -Infinity}\n'
    )

    assert math.isnan(nan.value)
    assert infinite.value == -math.inf


def test_a_line_that_may_go_on_waits_for_its_end():
    first = harvest(b"cnvrg_tag_a: 1\ncnvrg_tag_b: 2", is_complete=False)

    assert first.records == (Record(RecordKind.TAG, "a", "1"),)
    assert first.consumed == len(b"cnvrg_tag_a: 1\n")


def reasons(text: str) -> list[str]:
    """Return why the lines of a text could not be read; none of them recorded anything."""
    found = harvest(text.encode(), is_complete=True)
    assert found.records == ()
    return [problem.reason for problem in found.problems.first]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('::nearline {"kind": ', "it is no JSON that can be read"),
        ("::nearline []", "it is no JSON object"),
        ('::nearline {"kind":"metric","value":1}', "it has no 'key'"),
        ('::nearline {"kind":"guess","key":"a","value":1}', "its kind is none of metric, param, tag, artifact, checkpoint"),
        ('::nearline {"kind":"metric","key":"a","value":"x"}', "its value is not a number"),
        ('::nearline {"kind":"metric","key":"a","value":true}', "its value is not a number"),
        (f'::nearline {{"kind":"metric","key":"a","value":{HUGE}}}', "its value is too large for a number"),
        (f'::nearline {{"kind":"metric","key":"a","value":{"9" * 5000}}}', "it is no JSON that can be read"),
        ('::nearline {"kind":"metric","key":"a","value":1,"step":1.5}', "its step is not a whole number"),
        ('::nearline {"kind":"metric","key":"a","value":1,"step":1e999}', "its step is not a whole number"),
        (f'::nearline {{"kind":"metric","key":"a","value":1,"step":{HUGE}}}', "its step is too large"),
        ('::nearline {"kind":"metric","key":"\\ud800","value":1}', "its key holds half of a character (a lone surrogate)"),
        ('::nearline {"kind":"tag","key":"a","value":"\\udfff"}', "its value holds half of a character (a lone surrogate)"),
        ('::nearline {"kind":"tag","key":"a\\u0000","value":1}', "its key holds a NUL character"),
        ('::nearline {"kind":"param","key":"a","value":"\\u0000"}', "its value holds a NUL character"),
        ('::nearline {"kind":"tag","key":"","value":1}', "its key is empty"),
        ('::nearline {"kind":"tag","key":"a","value":' + "[" * DEEP + "]" * DEEP + "}", "it is no JSON that can be read"),
        ("cnvrg_linechart_a value: x", "its value is not a number"),
        ("cnvrg_linechart_a key: 1", "it has no 'value'"),
        (f"cnvrg_linechart_a value: 1 key: {'9' * 24}", "its step is too large"),
        (f"cnvrg_linechart_a value: 1 key: {'9' * 5000}", "its step is too large"),
        ("cnvrg_tag_a: b\0c", "its value holds a NUL character"),
        ("cnvrg_tag_a: " + "x" * 300_000, "the line is longer than 256 KiB"),
        ("::nearline " + "x" * 300_000, "the line is longer than 256 KiB"),
    ],
)  # fmt: skip
def test_a_line_that_means_to_record_something_and_cannot_be_read_says_why(line, reason):
    assert reasons(line) == [reason]


@pytest.mark.parametrize(
    "at",
    ['"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-01:00"', '"1969-12-31"', '"yesterday"', "-1", "1e300", "1e999",
     HUGE],
)  # fmt: skip
def test_a_moment_that_no_database_holds_is_told(at):
    line = f'::nearline {{"kind":"metric","key":"a","value":1,"at":{at}}}'

    assert reasons(line) == ["its moment ('at') is none between the years 1970 and 9999"]


def test_a_whole_number_beyond_64_bits_is_kept_as_a_text():
    line = f'::nearline {{"kind":"param","key":"seed","value":{HUGE}}}'

    assert records(line) == [Record(RecordKind.PARAMETER, "seed", HUGE)]


def test_a_step_that_is_no_number_names_a_series_in_any_script():
    assert records("cnvrg_linechart_loss value: '1' key: '²'") == [Record(RecordKind.METRIC, "loss/²", 1.0)]


def test_all_problems_are_counted_and_the_first_five_are_kept():
    found = harvest(b"cnvrg_linechart_loss value: x\n" * 7 + b"cnvrg_tag_a: 1\n", is_complete=False)

    assert found.records == (Record(RecordKind.TAG, "a", "1"),)
    assert found.problems.count == 7
    assert found.problems.first == (Problem("its value is not a number", "cnvrg_linechart_loss value: x"),) * 5
    assert (found.problems + found.problems).count == 14
    assert len((found.problems + found.problems).first) == 5


def test_lines_that_only_mention_our_words_are_no_problem():
    text = "see cnvrg_tag_a: 1\n ::nearline {}\ncnvrg_tag_a\ncnvrg_linechart_loss\ncnvrg_other: 1"

    assert harvest(text.encode(), is_complete=True).problems.count == 0


def test_a_line_of_many_blanks_costs_no_more_than_any_other():
    line = b"cnvrg_tag_a: b" + b" " * 200_000 + b"c\ncnvrg_linechart_a value: 1" + b" " * 200_000 + b"x"

    assert len(harvest(line, is_complete=True).records) == 2


def test_what_is_shown_of_a_line_is_short_and_can_be_stored():
    (problem,) = harvest(b"cnvrg_linechart_a\0 value:\xff" + b"x" * 500, is_complete=True).problems.first

    assert problem.line == "cnvrg_linechart_a\N{REPLACEMENT CHARACTER} value:\N{REPLACEMENT CHARACTER}" + "x" * 93 + "…"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just(int(HUGE))
    | st.sampled_from(["\ud800", "a\0b", "nan", "0001-01-01T00:00:00+23:59", 2**53, 1e300, -1e300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
OWN = st.fixed_dictionaries(
    {}, optional={"kind": st.sampled_from(["metric", "param", "tag", "artifact"]) | JSON, "key": JSON, "value": JSON,
                  "step": JSON, "at": JSON | st.datetimes().map(datetime.isoformat)}
).map(lambda said: b"::nearline " + json.dumps(said).encode())  # fmt: skip
CNVRG = st.tuples(
    st.sampled_from(["cnvrg_tag_", "cnvrg_linechart_", " cnvrg_tag_a: ", "cnvrg_linechart_a value: ", "::nearline "]),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=10)
             | st.sampled_from(["a: ", " value: ", "'1'", " key: ", "²", "9" * 24, "group:'", " ", "\0", "1e999", "nan"])),
).map(lambda parts: (parts[0] + "".join(parts[1])).encode())  # fmt: skip


@given(st.lists(OWN | CNVRG | st.binary(max_size=100), max_size=4), st.booleans())
def test_whatever_a_job_prints_is_storable_in_every_database_or_a_problem(lines, is_complete):
    data = b"\n".join(lines)

    found = harvest(data, is_complete=is_complete)

    assert 0 <= found.consumed <= len(data)
    assert found.problems.count >= len(found.problems.first)
    for problem in found.problems.first:
        assert is_storable(problem.reason)
        assert is_storable(problem.line)
        assert len(problem.line) <= 120
    for record in found.records:
        assert is_storable(record.key)
        assert 0 < len(record.key) <= 200
        assert record.step is None or abs(record.step) < 2**53
        assert record.at is None or 1970 <= record.at.astimezone(UTC).year <= 9999
        if record.kind is RecordKind.METRIC:
            assert isinstance(record.value, float)
        elif isinstance(record.value, str):
            assert is_storable(record.value)
            assert len(record.value) <= 5000
        else:
            float(record.value)


def is_storable(text: str) -> bool:
    return "\0" not in text and text.encode().decode() == text
