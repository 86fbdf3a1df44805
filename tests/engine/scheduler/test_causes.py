"""Who is stopped is told why, and for whom."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import Stop, StopCode
from scheduler.engine.snapshot import GroupView, PodSetView
from tests.factories.scheduler import decide, held, node, queue, wait

OURS, THEIRS = queue("ours", 2, age=1), queue("theirs", age=0)


@pytest.mark.parametrize(
    ("parts", "stop"),
    [
        (
            [node("n", 1), OURS, THEIRS, held("guest", "theirs", "n", {0: 1}), wait("mine", "ours", 1)],
            Stop(
                "guest", "guest", None, StopCode.RECLAIMED,
                "Another queue claims its share; theirs holds more than it may keep.", "mine",
            ),
        ),
        (
            [node("n", 1), OURS, held("low", "ours", "n", {0: 1}), wait("high", "ours", 1, priority=75)],
            Stop(
                "low", "low", None, StopCode.PREEMPTED, "high of the same queue, ours, has the higher priority.", "high"
            ),
        ),
        (
            [
                node("n", 2), node("m", 2), OURS,
                held("x", "ours", "n", {0: 1}, minute=1), held("y", "ours", "m", {0: 1}, minute=2),
                wait("wide", "ours", 2, minute=3),
            ],
            Stop("y", "y", "n", StopCode.MOVED, "It moves to n, so that wide finds capacity.", "wide"),
        ),
        (
            [
                node("n", 1), OURS,
                replace(
                    held("half", "ours", "n", {0: 1}), stale_for_s=120, structure=GroupView((PodSetView("", 2),))
                ),
            ],
            Stop(
                "half", "half", None, StopCode.STALE,
                "Fewer of its pods run than it needs, and have for longer than they may.", None,
            ),
        ),
    ],
    ids=["reclaimed", "preempted", "moved", "stale"],
)  # fmt: skip
def test_a_stop_names_its_cause(parts, stop):
    outcome = decide(*parts, actions=tuple(ACTIONS))

    assert [decision for decision in outcome.decisions if isinstance(decision, Stop)] == [stop]
