"""Where a step starts that reads datasets: in the stated order, and where the data is as far as that leaves a choice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.engine.planner import DataNow, JobNow, TemplateNow
from flows.engine.transitions import Bring
from tests.engine.flows.simulated_run import World
from tests.engine.flows.test_planner import states, world_of

GB = 10**9
HERE = DataNow("xray", "here-cache")
AWAY = DataNow("xray", "far-cache", 41 * GB, 328.0, is_ready=False, is_requested=False)
COMING = DataNow("xray", "far-cache", 10 * GB, 80.0, is_ready=False)
FAR, NEAR = "far.big", "here.small"


def world(*compute, far: DataNow = AWAY, here: DataNow = HERE, **templates: TemplateNow) -> World:
    """A step that reads a dataset, with `far.big` before `here.small` unless told otherwise."""
    made = world_of({"name": "a", "data": [{"dataset": "p/xray"}], "compute": compute or (FAR, NEAR)}, **templates)
    made.data = {("a", FAR): far, ("a", NEAR): here}
    return made


def chosen(made: World) -> str:
    made.look()
    step = made.steps["a[0]"]
    return made.graph.by_key["a"].choices[step.choice].template


def test_a_step_starts_where_its_data_is_cached():
    made = world()

    assert chosen(made) == NEAR
    assert made.steps["a[0]"].tried == ()
    assert made.whys["a[0]"] == (
        "here.small has its data sooner than far.big. "
        "xray is cached on here-cache; 41.0 GB of xray would move to far-cache, about 5 min 28 s."
    )


def test_what_is_being_filled_counts_as_much_as_what_is_cached():
    assert chosen(world(far=AWAY, here=COMING)) == NEAR
    assert chosen(world(far=COMING, here=HERE)) == NEAR
    assert chosen(world(NEAR, FAR, far=COMING, here=AWAY)) == FAR


def test_nobody_has_the_data_so_the_order_stands():
    assert chosen(world(here=AWAY)) == FAR


@pytest.mark.parametrize(("wait", "where"), [("10m", FAR), ("5m28s", FAR), ("30s", NEAR)])
def test_a_template_with_a_wait_of_its_own_goes_first_if_its_data_gets_there_within_that(wait, where):
    wait = {"5m28s": 328}.get(wait, wait)

    assert chosen(world({"template": FAR, "wait": wait}, NEAR)) == where


def test_a_stated_wait_counts_also_when_it_is_as_long_as_the_usual_one():
    assert chosen(world(FAR, NEAR, far=COMING)) == NEAR
    assert chosen(world({"template": FAR, "wait": "5m"}, NEAR, far=COMING)) == FAR


def test_a_busy_template_with_the_data_goes_after_a_free_one_that_is_first():
    assert chosen(world(**{NEAR: TemplateNow(has_capacity=False)})) == FAR
    assert chosen(world(**{name: TemplateNow(has_capacity=False) for name in (FAR, NEAR)})) == NEAR


def test_one_that_was_passed_over_for_its_data_is_still_there_to_fall_back_to():
    made = world()
    made.settle()
    made.pass_time(300)
    made.data["a", FAR] = HERE
    made.settle()

    step = made.steps["a[0]"]
    assert (chosen(made), [tried.template for tried in step.tried]) == (FAR, [NEAR])
    assert step.attempts == 2


def test_a_step_keeps_its_place_in_line_while_its_data_moves_to_the_next_template():
    made = world(NEAR, FAR)
    made.settle()
    made.pass_time(300)

    brought = [item for item in made.plan() if isinstance(item, Bring)]
    made.settle()
    assert [(item.template, item.why) for item in brought] == [(FAR, "could not start within 5 min")]
    assert (chosen(made), made.waiting()) == (NEAR, ["a[0]/1"])

    made.data["a", FAR] = DataNow("xray", "far-cache")
    made.settle()
    assert (chosen(made), made.steps["a[0]"].attempts) == (FAR, 2)


def test_a_place_that_comes_while_the_data_moves_is_taken():
    made = world(NEAR, FAR)
    made.settle()
    made.pass_time(300)
    made.settle()
    made.place("a[0]/1")
    made.settle()

    assert (chosen(made), states(made)) == (NEAR, {"a": "running"})


def test_a_job_that_can_never_start_does_not_keep_its_place():
    made = world(NEAR, FAR)
    made.settle()
    made.jobs["a[0]/1"].now = JobNow(never_fits="too big")
    made.settle()

    assert chosen(made) == FAR


def test_a_template_that_cannot_get_the_data_is_left_out_with_the_reason():
    made = world(NEAR, FAR, "other.small")
    made.settle()
    made.pass_time(300)
    made.data["a", FAR] = DataNow("xray", "far-cache", 41 * GB, None, False, False, error="far-cache has no space.")
    made.settle()

    tried = made.steps["a[0]"].tried
    assert chosen(made) == "other.small"
    assert [item.why for item in tried] == [
        "could not start within 5 min",
        "cannot get its data: far-cache has no space.",
    ]


data = st.none() | st.builds(
    DataNow, st.just("d"), st.just("s"), st.integers(0, 9), st.none() | st.floats(0, 900), st.booleans(), st.booleans()
)


@given(st.lists(st.tuples(data, st.booleans(), st.sampled_from([0, 60, 300, 600])), min_size=1, max_size=4))
def test_wherever_the_data_is_each_template_is_tried_once(choices):
    names = [f"r{number}.t" for number in range(len(choices))]
    compute = [{"template": name, "wait": wait} for name, (_, _, wait) in zip(names, choices, strict=True)]
    free = {name: TemplateNow(has_capacity=is_free) for name, (_, is_free, _) in zip(names, choices, strict=True)}
    made = world_of({"name": "a", "data": [{"dataset": "p/d"}], "compute": compute}, **free)
    made.data = {("a", name): now for name, (now, _, _) in zip(names, choices, strict=True) if now is not None}

    for _ in range(2 * len(names)):
        made.settle()
        made.pass_time(600)
        made.data = {at: DataNow("d", "s") for at in made.data}

    step = made.steps["a[0]"]
    last = made.graph.by_key["a"].choices[step.choice].template
    assert sorted([*(item.template for item in step.tried), last]) == sorted(names)
