"""What a job loses when it is stopped, and how people are told."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.engine.checkpoints import Saved, count_lost_s, describe, find_last_told

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
START, END = NOON, NOON + timedelta(seconds=100)


@pytest.mark.parametrize(
    ("saved_s", "lost_s"), [(None, 100), (-50, 100), (0, 100), (60, 40), (100, 0), (130, 0)]
)  # fmt: skip
def test_work_is_lost_since_the_last_checkpoint_of_the_run_or_else_since_its_start(saved_s, lost_s):
    saved_at = None if saved_s is None else START + timedelta(seconds=saved_s)

    assert count_lost_s(started_at=START, ended_at=END, saved_at=saved_at) == lost_s


@pytest.mark.parametrize(
    ("saved", "has_restarted", "text"),
    [
        (Saved(), False, ""),
        (Saved(900, NOON), True, "Last checkpoint: step 900, 40 s ago."),
        (Saved(900, NOON, 900, 40), True, "Last checkpoint: step 900, 40 s ago. Resumed from step 900, lost 40 s."),
        (Saved(900, NOON, 800, 3), False, "Last checkpoint: step 900, 40 s ago. It resumes from step 800, lost 3.0 s."),
        (Saved(None, None, None, 100), False, "It restarts without a checkpoint, lost 1 min 40 s."),
        (Saved(None, None, None, 100), True, "Restarted without a checkpoint, lost 1 min 40 s."),
    ],
)
def test_it_is_told_in_words(saved, has_restarted, text):
    assert describe(saved, has_restarted=has_restarted, now=NOON + timedelta(seconds=40)) == text


def line(value: str, at: str = "1000", kind: str = "checkpoint") -> bytes:
    return f'::nearline {{"kind": "{kind}", "key": "c", "value": {value}, "at": {at}}}\n'.encode()


def test_the_last_checkpoint_in_the_end_of_a_log_is_found():
    log = b'ne {"kind": "checkpoint"}\n' + line("800") + line("900", "2000") + line("1", kind="metric") + b"loss 0.5\n"

    assert find_last_told(log) == (900, datetime.fromtimestamp(2, UTC))


@pytest.mark.parametrize(
    "log",
    [b"", b"loss 0.5", line("1.5"), line("true"), line('"9"'), line("9", "null"), line("9", "1e300"), line("9" * 400)],
)
def test_a_log_without_one_that_can_be_read_tells_of_none(log):
    assert find_last_told(log) is None


def test_a_line_that_is_nested_too_deeply_tells_of_none():
    assert find_last_told(b'::nearline {"kind": ' + b"[" * 200_000) is None
