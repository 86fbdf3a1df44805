import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from flows.engine.log_tags import Record, RecordKind, harvest


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


def test_damaged_lines_are_left_alone():
    assert records('::nearline {"kind": \n::nearline []\n::nearline {"kind":"metric","key":"a","value":"x"}\ncnvrg_linechart_a value: x') == []  # fmt: skip


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_without_harm(data, is_complete):
    found = harvest(data, is_complete=is_complete)

    assert 0 <= found.consumed <= len(data)
