"""For which steps data is brought ahead: those of whose parents all that is left runs, and none ended badly."""

import pytest

from flows.engine import planner
from flows.engine.planner import TemplateNow
from flows.engine.states import StepState
from tests.engine.flows.test_planner import world_of

DATA = {"data": [{"dataset": "p/xray"}]}
STEPS = (
    {"name": "a"},
    {"name": "b"},
    {"name": "c", "after": ["a", "b"], **DATA},
    {"name": "d", "after": ["c"], **DATA},
    {"name": "e", "after": ["a"]},
    {"name": "f", **DATA},
)


def next_readers(live=(), pending=(), running=(), ended=()):
    counts = [dict.fromkeys(keys, 1) for keys in (live, pending, running)]
    graph = world_of(*STEPS).graph
    return [node.key for node in planner.next_readers(graph, *counts, {key: {state: 1} for key, state in ended})]


def test_all_that_is_left_of_the_parents_runs():
    assert next_readers(live="abcdef", pending="cdef", running="ab") == ["c"]
    assert next_readers(live="bcd", pending="cd", running="b", ended=[("a", StepState.SUCCEEDED)]) == ["c"]


def test_a_parent_waits():
    assert next_readers(live="abcd", pending="cd", running="a") == []


@pytest.mark.parametrize("state", [StepState.FAILED, StepState.CANCELLED, StepState.SKIPPED])
def test_a_parent_ended_badly(state):
    assert next_readers(live="bcd", pending="cd", running="b", ended=[("a", state)]) == []


def test_steps_further_below_follow_once_their_parents_run():
    ended = [("a", StepState.SUCCEEDED), ("b", StepState.SUCCEEDED)]

    assert next_readers(live="cd", pending="d", running="c", ended=ended) == ["d"]


def test_the_likely_start_is_the_one_that_the_step_gets():
    made = world_of({"name": "a"}, {"name": "b", "after": ["a"], "compute": ["x.s", "y.s"], **DATA})
    made.templates = {**made.templates, "x.s": TemplateNow("cannot be reached"), "y.s": TemplateNow()}
    (step,) = (each for each in made.snapshot().steps if each.key == "b")

    likely = planner.likely_start(made.snapshot(), step, made.now)
    made.settle()
    made.place("a[0]/1")
    made.end("a[0]/1")
    made.settle()

    assert likely.template == "y.s"
    assert made.graph.by_key["b"].choices[made.steps["b[0]"].choice].template == "y.s"
