"""A step whose job is evicted is queued again, and its page and its log go on."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.models import Job
from compute.workers import launches
from core import clock
from experiments.models import Experiment
from experiments.selectors import lists
from flows.models import RunEvent, Step
from flows.selectors import runs
from scheduler.models import Placement, Workload
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.flows import World, newest_attempt, state_of, states

pytestmark = pytest.mark.django_db

FLOW = "flow: f\nsteps: [{name: train, command: c}]"


def evict(world: World, name: str) -> None:
    job = Job.objects.get(name=name)
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Its resources go to others.")
    Placement.objects.filter(workload=job.workload_id).update(evicting_since=clock.now())
    launches.evict_jobs()


def test_the_step_waits_again_and_runs_on(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    name = newest_attempt(run, "train").job_name
    driver = world.driver_of(name)
    driver.print(name, "cnvrg_tag_lr: 0.1\n")
    evict(world, name)
    assert Step.objects.get(run=run).state == "running"
    world.resources["this-machine"].refresh_from_db()
    world.turn()

    seen = [Step.objects.get(run=run).state]
    world.turn()
    world.turn()
    driver.print(f"{name}~2", "cnvrg_tag_loss: 0.5\n")
    driver.finish(f"{name}~2")
    world.turn()
    world.turn()

    assert (seen, states(run), state_of(run)) == (["queued"], {"train": "succeeded"}, "succeeded")
    assert newest_attempt(run, "train").number == 1
    kinds = list(
        RunEvent.objects.filter(run=run, kind__startswith="step").order_by("seq").values_list("kind", flat=True)
    )
    assert kinds == ["step.queued", "step.running", "step.queued", "step.running", "step.succeeded"]
    again = RunEvent.objects.filter(run=run, kind="step.queued").order_by("-seq")[0]
    assert again.message == "Its job is queued for this-machine.small again."
    assert {"lr", "loss"} <= set(Experiment.objects.get(run_id=run.pk).tags)


def test_an_experiment_ran_as_long_as_its_step(world: World, member, project):
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)) as move:
        run = world.start(member, project, FLOW)
        world.turn()
        world.turn()
        name = newest_attempt(run, "train").job_name
        move(clock.now() + timedelta(minutes=10))
        evict(world, name)
        world.turn()
        move(clock.now() + timedelta(minutes=1))
        world.turn()
        world.turn()
        move(clock.now() + timedelta(minutes=5))
        world.driver_of(name).finish(f"{name}~2")
        world.turn()
        world.turn()

        [step] = runs.list_steps(actor=member, run=run)
        told = call(member, "GET", f"/experiments?run={run.pk}").body["items"][0]["times"]

    assert told["ran_s"] == pytest.approx(900, abs=5)
    assert told["ran_s"] == step.times.ran_s
    found = {text: lists.find(actor=member, where=text, order="took").count() for text in ("took > 14m", "took > 16m")}
    assert found == {"took > 14m": 1, "took > 16m": 0}


def test_the_page_of_a_job_leads_to_its_run_and_its_experiment(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()

    page = browser_of(member).get(f"/jobs/{newest_attempt(run, 'train').job_name}/").content.decode()

    assert f'href="/runs/{run.pk}/?step=train&amp;index=0#run-step">f #1</a>' in page
    assert f'href="/experiments/{Experiment.objects.get().pk}/"' in page
