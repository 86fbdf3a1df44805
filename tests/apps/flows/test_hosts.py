"""Steps of one run on several machines: each host looks after its own, and outputs go by way of the store."""

from dataclasses import replace
from datetime import timedelta

import pytest

from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.output_folder import OutputFolder
from compute.models import Job, Resource
from compute.services import lost_places
from compute.workers import observe
from core import clock, hosts
from core.sealed_folder import SealedFolder
from experiments.models import Experiment
from flows.models import Run, Step
from flows.services import runs
from flows.workers import advance
from tests.factories.flows import World, newest_attempt, state_of, states

FLOW = """
flow: f
steps:
- {name: prep, command: c, compute: [this-machine.small]}
- {name: here, command: c, after: [prep], compute: [this-machine.small]}
- {name: there, command: c, after: [prep], compute: [other.small]}
- {name: back, command: c, after: [there], compute: [this-machine.small]}
"""

ON_A_CLUSTER = """
flow: f
steps:
- {name: prep, command: c, compute: [this-machine.small]}
- {name: here, command: c, after: [prep], compute: [this-machine.small]}
- {name: there, command: c, after: [prep], compute: [lab-k8s.small]}
"""


UNREAD = """
flow: f
steps:
- {name: prep, command: c, compute: [this-machine.small]}
- {name: gate, command: c, compute: [this-machine.small]}
- {name: there, command: c, after: [prep, gate], compute: [PLACES]}
- {name: last, command: c, after: [there], compute: [this-machine.small]}
"""

GIVEN_UP = """
flow: f
steps:
- {name: there, command: c, compute: [other.small, this-machine.small], retries: {output_lost: 1, infrastructure: 1}}
- {name: after, command: c, after: [there], compute: [this-machine.small]}
"""


@pytest.fixture
def two_hosts(db, settings, tmp_path, on_host) -> World:
    """`this-machine` of the host `a`, which this process is on, and `other` of the host `b`."""
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path, broker_url="redis://127.0.0.1:1", host_id="a")
    world = World(tmp_path)
    Resource.objects.filter(name="this-machine").update(host="a")
    with on_host("b"):
        hosts.take(holder="bee:1")
        world.add_resource("other", tmp_path / "other", host="b")
    return world


def input_of(run, step: str) -> dict:
    mount, *_ = newest_attempt(run, step).job.spec["inputs"]
    return mount["source"]


def test_outputs_are_read_in_their_folder_on_the_same_host_and_from_the_store_on_another(
    two_hosts: World, member, project, on_host
):
    world = two_hosts
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    driver, name = world.drivers["this-machine"], newest_attempt(run, "prep").job_name
    driver.leave(name, "model.txt", b"weights")
    world.finish(run, "prep")
    world.turn()

    prep = Job.objects.get(name=name)
    assert input_of(run, "here") == {"kind": "host_folder", "path": str(driver.open_output(name).host_folder)}
    assert (input_of(run, "there")["kind"], input_of(run, "there")["root"]) == ("tree", prep.output_root)
    assert prep.output_files == 1
    assert Experiment.objects.get(job=prep).is_recorded


def test_the_end_of_a_step_counts_once_its_own_host_has_looked_at_it(two_hosts: World, member, project, on_host):
    world = two_hosts
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    world.driver_of(newest_attempt(run, "prep").job_name).leave(newest_attempt(run, "prep").job_name, "a", b"1")
    world.finish(run, "prep")
    world.turn()
    with on_host("b"):
        world.turn()
    there = newest_attempt(run, "there").job_name
    world.drivers["other"].leave(there, "answer.txt", b"42")
    world.drivers["other"].finish(there)
    with on_host("b"):
        observe.observe_all()

    world.turn()
    elsewhere = states(run)["there"]
    with on_host("b"):
        world.turn()
    world.turn()

    assert (elsewhere, states(run)["there"]) == ("running", "succeeded")
    assert input_of(run, "back")["root"] == Job.objects.get(name=there).output_root


def test_a_run_on_two_hosts_ends(two_hosts: World, member, project, on_host):
    world = two_hosts
    run = world.start(member, project, FLOW)

    for _ in range(20):
        for host in ("a", "b"):
            with on_host(host):
                world.turn()
        for name in world.running():
            world.driver_of(name).leave(name, "out", b"x")
            world.driver_of(name).finish(name)

    assert state_of(run) == "succeeded"
    assert drivers.driver_of(world.resources["this-machine"]) is world.drivers["this-machine"]


def test_a_step_whose_inputs_take_long_to_look_at_is_not_taken_by_another_host(
    two_hosts: World, member, project, on_host, monkeypatch
):
    run = two_hosts.start(member, project, FLOW)
    two_hosts.turn()
    two_hosts.turn()
    two_hosts.drivers["this-machine"].leave(newest_attempt(run, "prep").job_name, "model.txt", b"weights")
    two_hosts.finish(run, "prep")
    two_hosts.turn()
    compare, later = SealedFolder.compare, clock.monotonic() + 1000
    with clock.frozen_at(clock.now()) as move_to:
        start = clock.now()

        def compare_slowly(sealed: SealedFolder):
            monkeypatch.setattr(clock, "monotonic", lambda: later)
            move_to(start + timedelta(seconds=2))
            difference = compare(sealed)
            move_to(start + timedelta(seconds=8))
            with on_host("b"):
                advance.advance_run(run.pk)
            return difference

        monkeypatch.setattr(SealedFolder, "compare", compare_slowly)
        two_hosts.finish(run, "here")

    assert states(run)["here"] == "succeeded"


@pytest.fixture
def on_cluster(world: World, tmp_path, monkeypatch) -> World:
    """A cluster beside this machine, whose disk fails."""

    def fail(_):
        raise OSError("Input/output error")

    monkeypatch.setattr(OutputFolder, "list_files", fail)
    world.add_resource("lab-k8s", tmp_path / "lab-k8s", kind="kubernetes")
    return world


@pytest.mark.parametrize(
    ("reads", "ends"),
    [
        ("prep", {"prep": "failed", "here": "skipped", "there": "skipped"}),
        ("here", {"prep": "succeeded", "here": "failed", "there": "skipped"}),
    ],
)
def test_a_step_fails_whose_output_cannot_be_stored_for_one_that_may_start_elsewhere(
    on_cluster: World, member, project, reads, ends
):
    text = ON_A_CLUSTER.replace(
        "{name: there, command: c, after: [prep]", f"{{name: there, command: c, after: [{reads}]"
    )
    run = on_cluster.start(member, project, text.replace("command: c", "command: c, retries: {output_lost: 0}"))
    on_cluster.turn()
    on_cluster.turn()
    for step in ("prep", "here"):
        if states(run)[step] == "running":
            name = newest_attempt(run, step).job_name
            on_cluster.drivers["this-machine"].leave(name, "model.txt", b"weights")
            on_cluster.finish(run, step)
            on_cluster.turn()

    assert states(run) == ends
    failed = newest_attempt(run, reads)
    assert (failed.failure, failed.reason) == ("output_lost", "The outputs could not be kept: Input/output error")


@pytest.fixture
def begin(two_hosts: World, member, project, on_host):
    """Returns a function that starts a run whose first step waits for the host `b`, runs there, or has ended there."""

    def start(stage: str) -> Run:
        run = two_hosts.start(member, project, GIVEN_UP)
        two_hosts.turn()
        if stage != "waits":
            with on_host("b"):
                two_hosts.turn()
                name = newest_attempt(run, "there").job_name
                two_hosts.drivers["other"].leave(name, "model.txt", b"weights")
                if stage == "ended":
                    two_hosts.drivers["other"].finish(name)
                observe.observe_all()
        return run

    return start


@pytest.fixture
def give_up(two_hosts: World, site_admin):
    """Returns a function that gives up the host `b`, from which no controller has reported for two minutes then."""
    with clock.frozen_at(clock.now()) as move_to:

        def give_up_host() -> None:
            move_to(clock.now() + timedelta(minutes=2))
            lost_places.give_up_host(actor=site_admin, host="bee")

        yield give_up_host


@pytest.mark.parametrize(
    ("stage", "ends"),
    [
        ("waits", ("failed", "infrastructure", "The host bee was given up.")),
        ("runs", ("failed", "infrastructure", "The host bee was given up.")),
        ("ended", ("failed", "output_lost", "The outputs are lost: the files of the job are gone.")),
    ],
)
def test_a_step_whose_host_is_given_up_is_tried_again_elsewhere(two_hosts: World, begin, give_up, stage, ends):
    run = begin(stage)
    give_up()

    two_hosts.turn()

    lost = newest_attempt(run, "there")
    assert (lost.state, lost.failure, lost.reason) == ends
    Step.objects.filter(run=run).update(not_before=None)
    Run.objects.filter(pk=run.pk).update(wake_at=run.created_at)
    two_hosts.finish_all(run)
    assert newest_attempt(run, "there").template == "this-machine.small"
    assert states(run) == {"there": "succeeded", "after": "succeeded"}


@pytest.mark.parametrize("stage", ["waits", "runs", "ended"])
@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_a_run_with_a_step_whose_host_is_given_up_ends_when_it_is_cancelled(
    two_hosts: World, begin, give_up, stage, is_cancelled_first
):
    actor = Actor.system("tests")
    run = begin(stage)
    if is_cancelled_first:
        runs.cancel_run(actor=actor, run=run)
        two_hosts.turn()
    give_up()
    if not is_cancelled_first:
        runs.cancel_run(actor=actor, run=run)

    two_hosts.turn()

    assert Run.objects.get().has_ended
    assert states(run)["after"] == "cancelled"


@pytest.mark.parametrize(
    ("places", "ends"),
    [
        ("lab-k8s.small", {"prep": "succeeded", "there": "failed", "last": "skipped"}),
        ("lab-k8s.small, this-machine.small", {"prep": "succeeded", "there": "running", "last": "pending"}),
    ],
)
def test_a_step_does_not_start_where_it_cannot_read_what_its_parent_left(world: World, member, project, places, ends):
    world.add_resource("lab-k8s", world.drivers["lab"].root / "k8s", kind="kubernetes")
    run = world.start(member, project, UNREAD.replace("PLACES", places))
    world.turn()
    world.turn()
    name = newest_attempt(run, "prep").job_name
    world.drivers["this-machine"].leave(name, "model.txt", b"weights")
    world.finish(run, "prep")
    world.turn()
    Job.objects.filter(name=name).update(output_root="", output_state="failed", output_error="The disk is full.")
    world.finish(run, "gate")
    world.turn()

    del (now := states(run))["gate"]
    assert now == ends
    if ends["there"] == "failed":
        assert Step.objects.get(run=run, key="there").reason == (
            "None of its templates can run it: lab-k8s.small cannot read what 'prep' left: The disk is full."
        )
    else:
        assert input_of(run, "there")["kind"] == "host_folder"


def test_what_is_stored_of_a_step_whose_host_is_given_up_is_read_in_a_retry(
    two_hosts: World, begin, give_up, member, on_host
):
    run = begin("ended")
    with on_host("b"):
        two_hosts.turn()
    give_up()
    two_hosts.turn()
    two_hosts.finish(run, "after", exit_code=1)
    two_hosts.turn()

    runs.retry_run(actor=member, run=run)
    two_hosts.turn()

    assert newest_attempt(run, "after").number == 2
    assert input_of(run, "after")["root"] == newest_attempt(run, "there").job.output_root


def test_a_step_on_a_cluster_reads_the_output_of_a_step_on_this_machine_from_the_store(
    world: World, member, project, tmp_path
):
    world.add_resource("lab-k8s", tmp_path / "lab-k8s", kind="kubernetes")
    run = world.start(member, project, ON_A_CLUSTER)
    world.turn()
    world.turn()
    driver, name = world.drivers["this-machine"], newest_attempt(run, "prep").job_name
    driver.leave(name, "model.txt", b"weights")
    world.finish(run, "prep")
    world.turn()

    prep = Job.objects.get(name=name)
    assert states(run) == {"prep": "succeeded", "here": "running", "there": "running"}
    assert input_of(run, "here") == {"kind": "host_folder", "path": str(driver.open_output(name).host_folder)}
    assert (input_of(run, "there")["kind"], input_of(run, "there")["root"]) == ("tree", prep.output_root)
