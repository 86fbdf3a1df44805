"""Steps with `fallback: soonest` or `cheapest` go where they are forecast to be done first, or where they cost least."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.models import Job, Template
from compute.workers import forecasts
from core import clock
from core.models import Failure
from flows.models import Attempt, Step
from flows.services import flows
from tests.factories.flows import World, newest_attempt, states

START = datetime(2026, 11, 21, 14, tzinfo=UTC)
FLOW = """
flow: f
steps:
  - name: train
    command: c
    simulated_duration: 600
    fallback: soonest
    compute: [lab.huge, cloud.huge]
"""


@pytest.fixture
def at(world: World, tmp_path):
    """Two simulated resources whose template `huge` takes all there is, and a clock that each call moves on."""
    world.add_resource("cloud", tmp_path / "cloud", kind="simulated")
    type(world.resources["lab"]).objects.filter(name="lab").update(kind="simulated", is_simulated=True)
    Template.objects.filter(name="huge").update(cpu_millicores=4_000_000)
    with clock.frozen_at(START) as move:

        def at(seconds: float) -> None:
            move(START + timedelta(seconds=seconds))
            for _ in range(3):
                world.turn()

        yield at


def hold(world: World, project, member, resource: str, seconds: float) -> str:
    """Let another run take all of a resource for so long, and return the name of its job."""
    text = f"flow: holds-{resource}\nsteps: [{{name: all, command: c, compute: {resource}.huge, "
    run = world.start(member, project, f"{text}simulated_duration: {seconds}}}]")
    world.turn()
    world.turn()
    return newest_attempt(run, "all").job_name


def test_a_step_does_not_wait_for_a_node_that_is_held_for_100_000_seconds(world: World, member, project, at):
    at(0)
    hold(world, project, member, "lab", 100_000)
    hold(world, project, member, "cloud", 300)

    run = world.start(member, project, FLOW)
    at(1)

    step = Step.objects.get(run=run)
    assert (step.template, step.state, step.tried) == ("cloud.huge", "queued", [])
    assert step.why == (
        "cloud.huge is done first, in about 14 min 59 s; "
        "on lab.huge it would start in about 1 d 3 h and be done 1 d 3 h later."
    )


def test_a_step_that_waits_moves_when_another_place_is_done_with_it_sooner(world: World, member, project, at):
    at(0)
    hold(world, project, member, "lab", 2000)
    holder = hold(world, project, member, "cloud", 4000)
    run = world.start(member, project, FLOW)
    at(1)
    assert (Step.objects.get(run=run).template, states(run)) == ("lab.huge", {"train": "queued"})

    world.driver_of(holder).finish(holder)
    at(10)
    forecasts.forecast_all()
    at(12)

    assert list(Attempt.objects.filter(run=run).order_by("number").values_list("state", "template")) == [
        ("superseded", "lab.huge"),
        ("running", "cloud.huge"),
    ]
    (tried,) = Step.objects.get(run=run).tried
    assert tried["why"] == "is forecast to be done with it 33 min 8 s later than cloud.huge"


def test_a_step_stays_where_a_move_would_gain_little(world: World, member, project, at):
    at(0)
    hold(world, project, member, "lab", 300)
    holder = hold(world, project, member, "cloud", 4000)
    run = world.start(member, project, FLOW)
    at(250)
    world.driver_of(holder).finish(holder)
    at(255)

    forecasts.forecast_all()
    at(260)

    assert (Step.objects.get(run=run).template, Attempt.objects.filter(run=run).count()) == ("lab.huge", 1)


def test_the_tries_of_a_grid_spread_over_the_places(world: World, member, project, at):
    at(0)

    run = world.start(member, project, f"{FLOW}    grid: {{seed: [1, 2, 3, 4]}}\n")
    at(1)

    steps = Step.objects.filter(run=run).order_by("index")
    assert list(steps.values_list("template", flat=True)) == ["lab.huge", "cloud.huge"] * 2


def test_the_cheapest_template_is_taken_though_it_is_done_later(world: World, member, project, at):
    Template.objects.filter(name="huge", resource__name="lab").update(price_per_hour=6)
    Template.objects.filter(name="huge", resource__name="cloud").update(price_per_hour=3)
    at(0)
    hold(world, project, member, "cloud", 3600)

    run = world.start(member, project, FLOW.replace("soonest", "cheapest"))
    at(1)

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("cloud.huge", "queued")
    assert step.why.startswith("cloud.huge costs least, 0.50, and is done in about 1 h")


def test_a_wait_has_no_place_where_forecasts_decide(world: World, member, project):
    text = FLOW.replace("[lab.huge, cloud.huge]", "[{template: lab.huge, wait: 5m}, lab.small]")

    checked = flows.validate_spec(actor=member, project=project, text=text)

    (problem,) = checked.problems
    assert problem.message == "With `fallback: soonest` forecasts decide how long the step waits; remove this `wait`."


def test_a_step_for_which_no_forecast_can_be_made_starts_by_the_order_and_says_so(world: World, member, project, at):
    at(0)
    holder = hold(world, project, member, "cloud", 3600)
    Job.objects.filter(name=holder).update(spec=Job.objects.get(name=holder).spec | {"simulated_duration_s": "soon"})

    run = world.start(member, project, FLOW)
    at(1)

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("lab.huge", "running")
    failure = Failure.objects.get(kind="flows.forecast", item_id=run.pk)
    assert step.why == (
        f"It is the first choice. The order of its templates decides, as no forecast could be made: {failure.error}."
    )


def test_a_step_that_waits_where_nothing_is_forecast_moves_by_the_order_and_says_so(world: World, member, project, at):
    at(0)
    hold(world, project, member, "lab", 2000)
    holder = hold(world, project, member, "cloud", 4000)
    run = world.start(member, project, FLOW)
    at(1)
    world.driver_of(holder).finish(holder)
    at(300)
    assert Step.objects.get(run=run).template == "lab.huge"

    at(302)

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("cloud.huge", "running")
    (tried,) = step.tried
    assert tried["why"].startswith("could not start within 5 min (")
    assert tried["why"].endswith("), and no forecast says where it would be done first")
