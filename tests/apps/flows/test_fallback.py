"""D10: a compute list whose first template is busy: the job waits its time there, then starts on the next one."""

from dataclasses import replace
from datetime import timedelta

import pytest

from compute.models import Job, ResourceState, Template
from compute.workers import probes
from core import clock
from flows.models import Attempt, RunEvent, Step
from flows.workers import advance
from tests.factories.flows import NODE, World, newest_attempt, state_of, states

FLOW = """
flow: f
steps:
  - name: train
    command: c
    compute: [{template: lab.huge, wait: 30s}, this-machine.small]
"""


@pytest.fixture
def crowded(world: World) -> World:
    """A lab whose one node is full: its template fits the node, but somebody else has it."""
    Template.objects.filter(resource=world.resources["lab"], name="huge").update(cpu_millicores=4_000_000)
    return world


def occupy(world: World, actor, project) -> None:
    world.start(actor, project, "flow: other\nsteps: [{name: all, command: c, compute: lab.huge}]")
    world.turn()
    world.turn()


def test_a_step_falls_back_when_its_first_template_has_no_room_in_time(crowded: World, member, project):
    with clock.frozen_at(clock.now()) as move:
        start = clock.now()
        occupy(crowded, member, project)
        run = crowded.start(member, project, FLOW)
        crowded.turn()
        move(start + timedelta(seconds=29))
        crowded.turn()
        assert Step.objects.get(run=run).template == "lab.huge"

        move(start + timedelta(seconds=31))
        crowded.turn()
        crowded.turn()

        step = Step.objects.get(run=run)
        assert (step.template, step.state) == ("this-machine.small", "running")
        (tried,) = step.tried
        assert (tried["template"], tried["waited_s"]) == ("lab.huge", 31.0)
        assert tried["why"].startswith("could not start within 30 s")
        assert step.why == f"lab.huge {tried['why']}."
        assert list(Attempt.objects.filter(run=run).order_by("number").values_list("state", "template")) == [
            ("superseded", "lab.huge"),
            ("running", "this-machine.small"),
        ]
        assert Job.objects.get(attempt__run=run, attempt__number=1).state == "cancelled"
        fallback = RunEvent.objects.get(run=run, kind="step.fallback")
        assert fallback.message.endswith("; this-machine.small is tried.")


def test_a_job_that_got_its_place_before_the_withdrawal_stays(crowded: World, member, project):
    with clock.frozen_at(clock.now()) as move:
        start = clock.now()
        run = crowded.start(member, project, FLOW)
        advance.advance_all()
        from scheduler.workers import cycle

        cycle.run_once()
        move(start + timedelta(seconds=31))
        advance.advance_all()
        crowded.turn()
        crowded.turn()

        assert Step.objects.get(run=run).template == "lab.huge"
        assert states(run) == {"train": "running"}
        assert Attempt.objects.filter(run=run).count() == 1


def test_a_template_that_can_never_fit_is_left_at_once(world: World, member, project):
    run = world.start(member, project, FLOW)
    with clock.frozen_at(clock.now() + timedelta(seconds=3)):
        world.turn()
        world.turn()
    with clock.frozen_at(clock.now() + timedelta(seconds=6)):
        world.turn()
        world.turn()

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("this-machine.small", "running")
    assert step.tried[0]["why"].startswith("can never run it: ")


def test_an_unreachable_resource_is_not_waited_for(world: World, member, project):
    lab = world.resources["lab"]
    type(lab).objects.filter(pk=lab.pk).update(state=ResourceState.UNREACHABLE, error="connection refused")
    world.drivers["lab"].is_away = True
    run = world.start(member, project, FLOW)

    world.turn()
    world.turn()

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("this-machine.small", "running")
    assert step.tried == [
        {"template": "lab.huge", "waited_s": 0.0, "why": "cannot be reached (connection refused)"},
    ] or step.tried[0]["why"].startswith("cannot be reached")


def test_a_template_that_vanished_after_the_push_is_passed_over(world: World, member, project):
    run = world.start(member, project, FLOW)
    Template.objects.filter(name="huge").delete()

    world.turn()
    world.turn()

    step = Step.objects.get(run=run)
    assert (step.template, step.state) == ("this-machine.small", "running")
    assert step.tried == [{"template": "lab.huge", "waited_s": 0.0, "why": "does not exist"}]


def test_a_step_none_of_whose_templates_exists_fails_with_all_reasons(world: World, member, project):
    run = world.start(member, project, FLOW)
    Template.objects.all().delete()

    world.turn()

    assert Step.objects.get(run=run).reason == (
        "None of its templates can run it: lab.huge does not exist; this-machine.small does not exist."
    )
    assert state_of(run) == "failed"


def test_the_last_template_is_waited_for_without_limit(crowded: World, member, project):
    with clock.frozen_at(clock.now()) as move:
        start = clock.now()
        occupy(crowded, member, project)
        run = crowded.start(
            member,
            project,
            "flow: f\nsteps: [{name: a, command: c, compute: [{template: lab.huge, wait: 1s}]}]",
        )
        crowded.turn()
        for hours in range(1, 5):
            move(start + timedelta(hours=hours))
            crowded.turn()

        assert states(run) == {"a": "queued"}
        assert Attempt.objects.filter(run=run).count() == 1


def test_the_first_choice_is_recorded_as_such(world: World, member, project):
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c}]")
    world.turn()

    assert Step.objects.get(run=run).decision == {
        "tried": [],
        "chosen": "this-machine.small",
        "why": "It is the first choice.",
    }


def test_simulated_nodes_get_no_data_and_say_so(world: World, member, project, tmp_path):
    from tests.factories.datasets import commit_files, make_dataset, make_store

    make_store(tmp_path / "store")
    commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"1"})
    world.add_resource("sim", tmp_path / "sim", kind="simulated")
    run = world.start(
        member,
        project,
        "flow: f\nsteps: [{name: a, command: c, data: [{dataset: team-a/digits}], compute: sim.small}]",
    )
    world.turn()

    assert states(run) == {"a": "queued"}
    assert Step.objects.get(run=run).why == "It is the first choice. Its nodes are simulated, so no data is staged."
    assert newest_attempt(run, "a").job.spec["data"] == []


def test_a_step_for_which_no_node_is_there_when_it_begins_holds_up_nothing_and_waits(world: World, member, project):
    def give_labels(**labels: str) -> None:
        world.drivers["lab"].nodes = [replace(NODE, labels=labels)]
        probes.probe_resource(resource=world.resources["lab"])

    give_labels(disk="ssd")
    text = """
flow: f
steps:
  - {name: prep, command: c}
  - {name: other, command: c, after: [prep]}
  - {name: train, command: c, after: [prep], compute: lab.small, node_labels: [disk=ssd]}
"""
    run = world.start(member, project, text)
    world.turn()
    world.turn()
    give_labels()

    world.finish(run, "prep")
    world.turn()
    assert states(run) == {"prep": "succeeded", "other": "running", "train": "queued"}

    give_labels(disk="ssd")
    world.finish_all(run)
    assert state_of(run) == "succeeded"
