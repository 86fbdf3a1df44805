from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from flows.engine import graph as graphs
from flows.engine import planner
from flows.engine.places import PlaceForecast
from flows.engine.planner import JobNow, StepNow, TemplateNow
from flows.engine.spec import FlowSpec
from flows.engine.states import AttemptState, FailureKind, RunState, StepState
from flows.engine.transitions import Reset
from tests.engine.flows.simulated_run import World


def world_of(*steps: dict, **templates: TemplateNow) -> World:
    spec = FlowSpec.model_validate({"flow": "f", "steps": [{"command": "c", **step} for step in steps]})
    graph = graphs.build(spec, "here.small")
    names = {choice.template for node in graph.nodes for choice in node.choices}
    from flows.engine import grids

    instances = grids.expand(spec, {})
    return World(
        graph=graph,
        steps={
            f"{item.key}[{item.index}]": StepNow(f"{item.key}[{item.index}]", item.key, item.index, StepState.PENDING)
            for item in instances
        },
        templates={name: TemplateNow() for name in names} | templates,
    )


def states(world: World) -> dict[str, str]:
    return {step_id.removesuffix("[0]"): str(step.state) for step_id, step in world.steps.items()}


def test_a_diamond_waits_for_both_sides():
    world = world_of(
        {"name": "top"},
        {"name": "left", "after": ["top"]},
        {"name": "right", "after": ["top"]},
        {"name": "bottom", "after": ["left", "right"]},
    )
    world.settle()
    world.end("top[0]/1")
    world.settle()
    world.end("left[0]/1")
    world.settle()

    assert states(world) == {"top": "succeeded", "left": "succeeded", "right": "queued", "bottom": "pending"}


def test_a_chain_of_consequences_is_followed_in_one_plan():
    world = world_of({"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]})
    world.settle()
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.look()

    assert states(world) == {"a": "failed", "b": "skipped", "c": "skipped"}
    assert world.reasons["c[0]"] == "'b' was skipped."


def test_each_kind_of_failure_has_its_own_budget_and_waits_longer_each_time():
    world = world_of({"name": "a", "retries": {"infrastructure": 2, "timeout": 1}})
    waits = []
    for number, kind in enumerate(["infrastructure", "timeout", "infrastructure"], start=1):
        world.settle()
        world.end(f"a[0]/{number}", FailureKind(kind))
        world.settle()
        waits.append((world.steps["a[0]"].not_before - world.now).total_seconds())
        world.pass_time(waits[-1])
    world.settle()
    world.end("a[0]/4", FailureKind.INFRASTRUCTURE)
    world.settle()

    assert waits == [1.0, 1.0, 2.0]
    assert states(world) == {"a": "failed"}
    assert world.steps["a[0]"].failures == {"infrastructure": 3, "timeout": 1}


def test_failures_of_the_cluster_are_counted_each_by_itself_and_take_nothing_of_the_users_retries():
    world = world_of({"name": "a", "retries": {"user_error": 1, "infrastructure": 1, "node_lost": 2}})
    for number, kind in enumerate(["node_lost", "evicted", "user_error", "node_lost", "infrastructure"], start=1):
        world.settle()
        world.end(f"a[0]/{number}", FailureKind(kind))
        world.settle()
        world.pass_time(60)
    world.settle()
    assert states(world) == {"a": "queued"}

    world.end("a[0]/6", FailureKind.EVICTED)
    world.settle()

    assert states(world) == {"a": "failed"}
    assert world.steps["a[0]"].failures == {"node_lost": 2, "evicted": 2, "user_error": 1, "infrastructure": 1}


def test_a_step_in_backoff_starts_no_earlier_than_said():
    world = world_of({"name": "a", "retries": 1})
    world.settle()
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()
    world.pass_time(0.9)
    world.settle()

    assert states(world) == {"a": "backoff"}


def test_a_retry_stays_with_the_template_that_was_found_to_work():
    world = world_of(
        {"name": "a", "retries": 1, "compute": ["far.big", "here.small"]},
        **{"far.big": TemplateNow("cannot be reached")},
    )
    world.settle()
    world.templates["far.big"] = TemplateNow()
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()
    world.pass_time(1)
    world.settle()

    assert world.attempts["a[0]/2"].choice == 1


def test_a_retry_after_the_budget_of_waiting_keeps_what_was_tried():
    world = world_of({"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]})
    world.settle()
    world.pass_time(10)
    world.settle()

    (tried,) = world.steps["a[0]"].tried
    assert (tried.template, tried.waited_s, tried.why) == ("far.big", 10.0, "could not start within 10 s")
    assert world.jobs["a[0]/1"].now.end == "cancelled"


def test_a_job_that_was_placed_is_never_left():
    world = world_of({"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]})
    world.settle()
    world.place("a[0]/1")
    world.pass_time(1000)
    world.settle()

    assert list(world.attempts) == ["a[0]/1"]


def test_a_job_that_lost_its_place_waits_its_time_again_and_is_then_left():
    world = world_of({"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]})
    world.settle()
    world.pass_time(9)
    world.place("a[0]/1")
    world.settle()
    world.evict("a[0]/1")
    world.settle()
    world.pass_time(9)
    world.settle()
    assert (states(world), list(world.attempts)) == ({"a": "queued"}, ["a[0]/1"])

    world.pass_time(1)
    world.settle()

    assert list(world.attempts) == ["a[0]/1", "a[0]/2"]
    assert [tried.waited_s for tried in world.steps["a[0]"].tried] == [10.0]


def test_a_job_that_lost_its_place_runs_again_when_it_gets_another_one():
    world = world_of({"name": "a"})
    world.settle()
    for step in (world.place, world.evict, world.place, world.end):
        step("a[0]/1")
        world.settle()

    assert (states(world), list(world.attempts)) == ({"a": "succeeded"}, ["a[0]/1"])


def test_where_nothing_else_works_the_step_goes_on_waiting():
    world = world_of(
        {"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]},
        **{"here.small": TemplateNow("cannot be reached")},
    )
    world.settle()
    world.pass_time(1000)
    world.settle()
    assert list(world.attempts) == ["a[0]/1"]

    world.templates["here.small"] = TemplateNow()
    world.settle()
    assert world.attempts["a[0]/2"].choice == 1


def test_a_grid_counts_as_done_when_all_of_it_is():
    world = world_of({"name": "a", "grid": {"x": [1, 2, 3]}}, {"name": "b", "after": ["a"]})
    world.settle()
    world.end("a[0]/1")
    world.end("a[2]/1")
    world.settle()
    assert states(world)["b"] == "pending"

    world.end("a[1]/1")
    world.settle()
    assert states(world)["b"] == "queued"


def test_what_waits_behind_others_is_out_of_reach_until_they_move():
    graph = world_of({"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]}).graph
    live = {"a": 3, "b": 2, "c": 1}

    assert planner.within_reach(graph, live, {"a": 2}, {"b": 2, "c": 1}) == {"a"}
    assert planner.within_reach(graph, live, {"a": 3}, {"b": 2, "c": 1}) == {"a", "b", "c"}
    assert planner.within_reach(graph, {"b": 2, "c": 1}, {"b": 1}, {"b": 0, "c": 1}) == {"b"}
    assert planner.within_reach(graph, live, {"a": 3}, {}) == {"a", "b"}


def test_a_plan_goes_further_only_where_a_step_ends_that_never_began():
    world = world_of({"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c", "after": ["b"]})
    world.settle()
    world.end("a[0]/1")
    assert not planner.goes_further(world.snapshot(), world.plan())

    world.settle()
    world.end("b[0]/1", FailureKind.USER_ERROR)
    assert planner.goes_further(world.snapshot(), world.plan())


def test_the_same_snapshot_gives_the_same_plan():
    world = world_of({"name": "a", "grid": {"x": [1, 2]}}, {"name": "b", "after": ["a"]})

    assert planner.plan(world.snapshot(), world.now) == planner.plan(world.snapshot(), world.now)


# --- whatever happens, in whatever order


@st.composite
def flows(draw):
    count = draw(st.integers(1, 7))
    steps = []
    for number in range(count):
        parents = draw(st.lists(st.sampled_from(range(number)), unique=True, max_size=3)) if number else []
        step = {"name": f"s{number}", "after": [f"s{parent}" for parent in parents]}
        if draw(st.booleans()):
            step["grid"] = {"x": list(range(draw(st.integers(1, 3))))}
        if draw(st.booleans()):
            step["compute"] = [{"template": "far.big", "wait": "5s"}, "here.small"]
        if draw(st.booleans()):
            step["data"] = [{"dataset": "p/n"}]
        step["retries"] = {"user_error": draw(st.integers(0, 2)), "infrastructure": 2}
        steps.append(step)
    return steps


def end_one(failure: FailureKind | None):
    def deed(world: World, data) -> None:
        if world.running():
            world.end(data.draw(st.sampled_from(world.running())), failure)

    return deed


def place_one(world: World, data) -> None:
    if world.waiting():
        world.place(data.draw(st.sampled_from(world.waiting())))


def evict_one(world: World, data) -> None:
    staying = [name for name in world.running() if not world.jobs[name].now.is_stopping]
    if staying:
        world.evict(data.draw(st.sampled_from(staying)))


def cancel_seldom(world: World, data) -> None:
    world.is_cancelled = world.is_cancelled or data.draw(st.integers(0, 9)) == 0


DEEDS = {
    "look": lambda world, _: world.look(),
    "look twice": lambda world, _: (world.look(), world.look()),
    "die while looking": lambda world, _: world.look(dies=True),
    "let time pass": lambda world, data: world.pass_time(data.draw(st.sampled_from([0.5, 3, 100]))),
    "place": place_one,
    "evict": evict_one,
    "succeed": end_one(None),
    "fail": end_one(FailureKind.USER_ERROR),
    "lose": end_one(FailureKind.INFRASTRUCTURE),
    "cancel": cancel_seldom,
}


def go_on(world: World) -> None:
    """Let everything go well until the run ends."""
    for _ in range(200):
        world.settle()
        for name in world.waiting():
            world.place(name)
        for name in world.running():
            if world.jobs[name].now.is_stopping:
                world.jobs[name].now = JobNow(end=AttemptState.CANCELLED)
            else:
                world.end(name)
        world.pass_time(100)
        if world.state is not RunState.RUNNING:
            return


@settings(max_examples=150, deadline=None)
@given(flows(), st.data())
def test_every_step_succeeds_at_most_once_and_none_is_forgotten(steps, data):
    world = world_of(*steps)
    for _ in range(data.draw(st.integers(0, 40))):
        DEEDS[data.draw(st.sampled_from(sorted(DEEDS)))](world, data)

    # From here on nothing goes wrong any more, so the run comes to its end.
    go_on(world)

    assert world.state is not RunState.RUNNING, states(world)
    succeeded = {step_id for step_id, step in world.steps.items() if step.state is StepState.SUCCEEDED}
    assert succeeded == set(world.successes)
    assert all(count == 1 for count in world.successes.values())
    if world.state is RunState.SUCCEEDED:
        assert succeeded == set(world.steps)
    assert not world.waiting()
    assert not world.running()


def test_the_next_template_is_tried_exactly_when_the_budget_of_waiting_is_over():
    world = world_of({"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]})
    world.settle()
    world.pass_time(9.999)
    world.look()
    assert world.attempts.keys() == {"a[0]/1"}

    world.pass_time(0.001)
    world.look()

    assert world.attempts.keys() == {"a[0]/1", "a[0]/2"}
    assert world.attempts["a[0]/2"].choice == 1


def test_when_the_budget_is_over_and_no_other_template_works_the_next_look_is_two_seconds_away():
    world = world_of(
        {"name": "a", "compute": [{"template": "far.big", "wait": "10s"}, "here.small"]},
        **{"here.small": TemplateNow("cannot be reached")},
    )
    world.settle()
    moments = []
    for seconds in (9.0, 1.0, 0.5):
        world.pass_time(seconds)
        (reminder,) = planner.plan(world.snapshot(), world.now)
        moments.append((reminder.at - world.now).total_seconds())

    assert moments == [1.0, 2.0, 2.0]


def counts(world: World) -> dict[str, int]:
    return dict(Counter(str(step.state) for step in world.steps.values()))


def test_parts_run_one_by_one_unless_more_are_allowed():
    world = world_of({"name": "a", "completions": 3}, {"name": "b", "after": ["a"]})
    world.settle()
    assert states(world) == {"a": "queued", "a[1]": "pending", "a[2]": "pending", "b": "pending"}

    world.end("a[0]/1")
    world.settle()

    assert states(world) == {"a": "succeeded", "a[1]": "queued", "a[2]": "pending", "b": "pending"}


def test_a_step_with_parts_succeeds_once_all_of_them_have():
    world = world_of({"name": "a", "completions": 5, "parallelism": 2}, {"name": "b", "after": ["a"]})
    most = 0
    for index in range(5):
        world.settle()
        most = max(most, counts(world).get("queued", 0))
        world.end(f"a[{index}]/1")
    world.settle()

    assert most == 2
    assert states(world)["b"] == "queued"


def test_a_part_that_is_tried_again_keeps_its_place_among_those_that_run():
    world = world_of({"name": "a", "completions": 3, "retries": 1})
    world.settle()
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()

    assert states(world) == {"a": "backoff", "a[1]": "pending", "a[2]": "pending"}


def test_no_part_begins_after_one_has_failed_for_good():
    world = world_of({"name": "a", "completions": 5, "parallelism": 2}, {"name": "b", "after": ["a"]})
    world.settle()
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()

    assert [str(world.steps[f"a[{index}]"].state) for index in range(5)] == ["failed", "queued", *["skipped"] * 3]
    assert world.reasons["a[4]"] == "Of its parts 1 did not succeed."
    world.end("a[1]/1")
    world.settle()
    assert (str(world.state), states(world)["b"]) == ("failed", "skipped")


def test_a_part_that_alone_is_opened_again_begins_whatever_became_of_the_others():
    world = world_of({"name": "a", "completions": 3, "parallelism": 2})
    world.settle()
    for index in (0, 1):
        world.end(f"a[{index}]/1", FailureKind.USER_ERROR)
    world.settle()
    assert states(world) == {"a": "failed", "a[1]": "failed", "a[2]": "skipped"}

    world.steps["a[1]"] = planner.as_reset(world.steps["a[1]"])
    snapshot = replace(world.snapshot(), to_reset=("a[1]",))
    (reset, start) = planner.plan(snapshot, world.now)

    assert (reset, start.step_id) == (Reset("a[1]"), "a[1]")


def test_the_tries_of_a_grid_go_on_after_a_failure_so_many_at_once():
    world = world_of({"name": "a", "grid": {"x": [1, 2, 3, 4]}, "parallelism": 2})
    world.settle()
    assert counts(world) == {"queued": 2, "pending": 2}

    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()

    assert counts(world) == {"failed": 1, "queued": 2, "pending": 1}


def test_parts_that_no_template_can_run_all_end():
    world = world_of({"name": "a", "completions": 3}, **{"here.small": TemplateNow("is gone", is_unknown=True)})
    world.settle()

    assert counts(world) == {"failed": 1, "skipped": 2}
    assert world.state is RunState.FAILED


def world_with_a_size(**step: object) -> World:
    """Return a run of one step that says its size, and has two places."""
    world = world_of({"name": "a", "gpus": 1, **step}, **{name: TemplateNow() for name in ("x.1-gpu", "y.1-gpu")})
    world.graph = world.graph.with_places({"a": ["x.1-gpu", "y.1-gpu"]})
    return world


def test_a_step_with_a_size_stays_in_line_where_no_forecast_says_better():
    world = world_with_a_size()
    world.settle()
    world.now += timedelta(days=2)
    world.settle()

    assert [attempt.choice for attempt in world.attempts.values()] == [0]


def test_a_job_with_data_goes_where_it_starts_much_earlier_and_another_one_only_where_it_starts_now():
    data = {"data": [{"dataset": "p/d"}]}
    starts = [(data, 600, 100, 2), (data, 600, 400, 1), ({}, 600, 100, 1), ({}, 600, 0, 2), ({}, 0, 0, 1)]
    for step, here_s, there_s, attempts in starts:
        world = world_with_a_size(**step)
        world.settle()
        forecasts = {"x.1-gpu": PlaceForecast((here_s,), 60), "y.1-gpu": PlaceForecast((there_s,), 60)}
        world.attempts["a[0]/1"] = replace(world.attempts["a[0]/1"], forecasts=forecasts)
        world.settle()

        assert len(world.attempts) == attempts, (step, here_s, there_s)


def test_a_job_that_fits_nowhere_is_not_sent_to_and_fro_for_ever():
    world = world_with_a_size()
    for number in (1, 2):
        world.settle()
        world.jobs[f"a[0]/{number}"].now = JobNow(never_fits="it is too large")
    world.settle()
    world.now += timedelta(hours=1)
    world.settle()

    assert [attempt.choice for attempt in world.attempts.values()] == [0, 1]


def test_a_place_that_has_room_is_taken_and_each_is_welcome_after_a_failure():
    world = world_with_a_size(retries=1)
    world.templates["x.1-gpu"] = TemplateNow(has_capacity=False)
    world.settle()
    world.templates |= {"x.1-gpu": TemplateNow(), "y.1-gpu": TemplateNow(has_capacity=False)}
    world.end("a[0]/1", FailureKind.USER_ERROR)
    world.settle()
    world.now += timedelta(minutes=1)
    world.settle()

    assert [attempt.choice for attempt in world.attempts.values()] == [1, 0]
