"""Steps that say their size in place of templates: their places are found when a run starts, and kept with it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuFacts, NodeFacts
from compute.errors import NoResourceFits
from compute.models import Job, Resource, Template
from compute.workers import forecasts, probes
from core import clock
from flows.models import Attempt, Run, Step
from flows.services import flows, runs
from scheduler.models import Forecast, Pool, Queue
from scheduler.services import pool_members, pools
from tests.factories.browsers import browser_of
from tests.factories.flows import World, newest_attempt, state_of, states

START = datetime(2026, 11, 29, 9, tzinfo=UTC)
GIB = 2**30
FLOW = "flow: f\nsteps:\n  - name: train\n    command: c\n    simulated_duration: 600\n    gpus: {gpus}\n"


def node(name: str, gpus: int, **labels: str) -> NodeFacts:
    devices = tuple(GpuFacts(index, f"{name}-{index}", "GPU", 32 * GIB) for index in range(gpus))
    return NodeFacts(name, 8000, 64 * GIB, devices, labels=labels)


def attach(world: World, root, name: str, *nodes: NodeFacts) -> Resource:
    """Attach a simulated resource of nodes with GPUs, in the default pool."""
    resource = Resource.objects.create(name=name, kind="simulated", is_simulated=True)
    driver = ScriptedDriver(root / name, nodes or (node(f"{name}-1", 1),))
    drivers.install(resource, driver)
    probes.probe_resource(resource=resource)
    pool_members.move(Pool.objects.get(name="default"), [resource.pk])
    world.drivers[name], world.resources[name] = driver, resource
    return resource


@pytest.fixture
def at(world: World, tmp_path):
    """Two resources of one GPU each, and a clock that each call moves on."""
    for name in ("east", "west"):
        attach(world, tmp_path, name)
    with clock.frozen_at(START) as move:

        def at(seconds: float) -> None:
            move(START + timedelta(seconds=seconds))
            for _ in range(3):
                world.turn()

        yield at


def hold(world: World, member, project, resource: str, seconds: float = 3600) -> str:
    """Let another run take the GPU of a resource for so long, and return the name of its job."""
    text = FLOW.format(gpus=1).replace("flow: f", f"flow: holds-{resource}").replace("600", str(seconds))
    run = world.start(member, project, f"{text}    resource: {resource}")
    world.turn()
    world.turn()
    return newest_attempt(run, "train").job_name


def tries_of(run: Run) -> list[tuple[str, str]]:
    return list(Attempt.objects.filter(run=run).order_by("created_at", "number").values_list("state", "template"))


def test_it_gets_what_a_job_of_its_size_gets(world: World, member, project, at):
    text = FLOW.format(gpus=0.5) + "    cpu: 1.5\n    gpu_limit: 0.8\n    resource: east\n"
    at(0)

    run = world.start(member, project, text)
    at(1)

    job = Job.objects.get()
    size = job.gpu_milli, job.cpu_millicores, job.memory_bytes
    assert (job.template, job.template_name, size) == (None, "east.0.5-gpu-1.5-cpu", (500, 1500, 32 * GIB))
    assert tries_of(run) == [("running", "east.0.5-gpu-1.5-cpu")]
    world.finish_all(run)
    assert state_of(run) == "succeeded"


def test_a_step_on_this_machine_reads_what_one_on_another_left(world: World, member, project):
    text = """
flow: f
steps:
  - {name: a, command: c, cpu: 0.5, resource: lab}
  - {name: b, command: c, cpu: 1, memory: 1GiB, resource: this-machine, after: [a]}
"""
    run = world.start(member, project, text)

    world.finish_all(run)

    assert [name for _, name in tries_of(run)] == ["lab.0-gpu-0.5-cpu", "this-machine.0-gpu-1-cpu-1-GiB"]
    assert state_of(run) == "succeeded"


def test_what_has_no_place_is_refused_with_the_reason_of_each_resource(world: World, member, project, at):
    text = FLOW.format(gpus=4)

    (problem,) = flows.validate_spec(actor=member, project=project, text=text).problems
    fits = flows.save_version(actor=member, project=project, text=FLOW.format(gpus=1))
    Resource.objects.filter(name__in=("east", "west")).update(detached_at=START)

    assert (problem.line, problem.code) == (6, "no_place")
    assert problem.message.startswith("No resource of the pool default can run the job.")
    assert "east has no node with 32 CPU, 256 GiB, 4 GPU." in problem.message
    with pytest.raises(NoResourceFits, match=r"'train': No resource of the pool default can run the job\."):
        runs.start_run(actor=member, version=fits, parameters={})
    assert not Run.objects.exists()


def test_a_pool_or_a_resource_that_does_not_exist_is_a_problem_of_its_line(world: World, member, project):
    text = "flow: f\nsteps:\n  - name: a\n    command: c\n    cpu: 1\n    {where}\n"

    answers = [
        flows.validate_spec(actor=member, project=project, text=text.format(where=where)).problems
        for where in ("resource: nowhere", "pools: [nowhere]")
    ]

    assert [(each.line, each.code, each.message) for problems in answers for each in problems] == [
        (6, "unknown_resource", "There is no compute resource called 'nowhere'."),
        (6, "unknown_pool", "There is no pool called 'nowhere'."),
    ]


def test_volumes_that_hinder_a_place_are_told_at_their_line(world: World, member, project):
    text = "flow: f\nsteps:\n  - name: a\n    command: c\n    cpu: 1\n    volumes: [/srv/a:/mnt/a]\n    {}\n"

    answers = [
        flows.validate_spec(actor=member, project=project, text=text.format(line)).problems
        for line in ("resource: this-machine", "resource: nowhere", "gpus: 3")
    ]

    assert [(each.line, each.code) for problems in answers for each in problems] == [
        (6, "no_volumes"),
        (7, "unknown_resource"),
        (7, "no_place"),
    ]
    assert "this-machine gives jobs no volumes; this one asks for /srv/a:/mnt/a." in answers[0][0].message


def test_it_begins_where_it_can_start_now(world: World, member, project, at):
    at(0)
    hold(world, member, project, "east")

    run = world.start(member, project, FLOW.format(gpus=1))
    at(1)

    assert tries_of(run) == [("running", "west.1-gpu")]
    assert Step.objects.get(run=run).why == "west.1-gpu can start it now, east.1-gpu cannot."


def test_while_it_waits_it_goes_where_it_can_start_now_and_back_too(world: World, member, project, at):
    at(0)
    holders = {name: hold(world, member, project, name) for name in ("east", "west")}
    run = world.start(member, project, FLOW.format(gpus=1))
    at(1)
    assert tries_of(run) == [("queued", "east.1-gpu")]

    world.driver_of(holders["west"]).finish(holders["west"])
    at(10)
    forecasts.forecast_all()
    assert Job.objects.filter(name=newest_attempt(run, "train").job_name, resource__name="east").exists()
    at(12)

    assert tries_of(run) == [("superseded", "east.1-gpu"), ("running", "west.1-gpu")]
    (tried,) = Step.objects.get(run=run).tried
    assert tried["why"] == "cannot start it now, and west.1-gpu can"


def test_it_is_told_of_another_place_with_what_it_gets_there_and_goes_there(
    world: World, member, project, at, tmp_path
):
    small = replace(node("small-1", 1), cpu_millicores=2000, memory_bytes=8 * GIB)
    attach(world, tmp_path, "small", small)
    at(0)
    holders = {name: hold(world, member, project, name) for name in ("east", "small", "west")}
    run = world.start(member, project, FLOW.format(gpus=1))
    at(1)
    job = Job.objects.get(name=newest_attempt(run, "train").job_name)
    forecasts.forecast_all()

    places = Forecast.objects.get(name=job.name).facts["places"]

    assert job.cpu_millicores == 8000
    assert {place["template"]: place["starts_at"] is not None for place in places} == {
        "east.1-gpu": True,
        "small.1-gpu": True,
        "west.1-gpu": True,
    }

    world.driver_of(holders["small"]).finish(holders["small"])
    at(10)
    forecasts.forecast_all()
    at(12)
    assert tries_of(run) == [("superseded", "east.1-gpu"), ("running", "small.1-gpu")]


def test_a_place_where_its_share_is_taken_is_not_told_as_free(world: World, member, project, at, tmp_path):
    attach(world, tmp_path, "large", replace(node("large-1", 1), cpu_millicores=32_000, memory_bytes=128 * GIB))
    at(0)
    for name in ("east", "west"):
        hold(world, member, project, name)
    world.start(member, project, "flow: cores\nsteps: [{name: a, command: c, cpu: 20, resource: large}]\n")
    at(1)
    run = world.start(member, project, FLOW.format(gpus=1))
    at(2)
    forecasts.forecast_all()
    at(4)

    (place,) = (
        place
        for place in Forecast.objects.get(name=newest_attempt(run, "train").job_name).facts["places"]
        if place["resource"] == "large"
    )
    assert tries_of(run) == [("queued", "east.1-gpu")]
    assert datetime.fromisoformat(place["starts_at"]) > clock.now()


def test_a_place_that_was_left_is_as_good_as_before(world: World, member, project, at):
    at(0)
    holders = {name: hold(world, member, project, name) for name in ("east", "west")}
    run = world.start(member, project, FLOW.format(gpus=1) + "    retries: 1\n")
    at(1)
    Step.objects.filter(run=run).update(tried=[{"template": "west.1-gpu", "waited_s": 1.0, "why": "was full"}])

    world.driver_of(holders["west"]).finish(holders["west"])
    at(10)
    forecasts.forecast_all()
    at(12)
    assert tries_of(run) == [("superseded", "east.1-gpu"), ("running", "west.1-gpu")]
    world.finish(run, "train", exit_code=1)
    at(20)

    assert tries_of(run)[-1] == ("running", "west.1-gpu")


def test_what_is_attached_and_detached_meanwhile_shifts_no_place(world: World, member, project, at, tmp_path):
    at(0)
    hold(world, member, project, "east")
    run = world.start(member, project, FLOW.format(gpus=1) + "    retries: 2\n")
    at(1)

    attach(world, tmp_path, "alps", node("alps-1", 4))
    Resource.objects.filter(name="east").update(detached_at=START)
    world.finish(run, "train", exit_code=1)
    at(30)

    assert tries_of(run) == [("failed", "west.1-gpu"), ("running", "west.1-gpu")]
    world.finish(run, "train", exit_code=1)
    at(60)
    world.finish(run, "train", exit_code=1)
    assert state_of(run) == "failed"

    runs.retry_run(actor=member, run=run)
    hold(world, member, project, "west")
    at(62)

    assert tries_of(run)[-1] == ("running", "alps.1-gpu")


def test_a_retry_needs_places_for_what_it_tries_again_alone(world: World, member, project, at):
    text = FLOW.format(gpus=1) + "  - {name: look, command: c, cpu: 1, resource: this-machine, after: [train]}\n"
    at(0)
    run = world.start(member, project, text)
    at(1)
    world.finish(run, "train")
    at(2)
    world.finish(run, "look", exit_code=1)
    at(3)
    Resource.objects.filter(name__in=("east", "west")).update(detached_at=START)

    with pytest.raises(NoResourceFits):
        runs.retry_run(actor=member, run=run, step="train")
    runs.retry_run(actor=member, run=run)
    at(4)

    assert states(run) == {"train": "succeeded", "look": "running"}


def test_the_pools_of_a_step_go_before_those_that_its_project_prefers(world: World, member, project, at, site_admin):
    pool_members.ensure_queue(project_id=project.pk)
    pools.create_pool(actor=site_admin, name="coast", resource_ids=[world.resources["west"].pk])
    pools.create_pool(actor=site_admin, name="hills", resource_ids=[world.resources["east"].pk])
    Queue.objects.filter(project=project, pool__name="hills").update(pool_rank=1)
    at(0)

    world.start(member, project, FLOW.format(gpus=0.5))
    at(1)
    world.start(member, project, FLOW.format(gpus=0.5) + "    pools: [coast, hills]\n")
    at(2)

    jobs = Job.objects.order_by("created_at")
    assert [(job.template_name, job.spec["pools"]) for job in jobs] == [
        ("east.0.5-gpu", ["hills"]),
        ("west.0.5-gpu", ["coast", "hills"]),
    ]


@pytest.fixture
def lab_of_two_pools(world: World, site_admin, tmp_path) -> None:
    lab = attach(world, tmp_path, "cloud", node("a", 1, gpu="a100"), node("h", 1, gpu="h100"))
    Template.objects.create(resource=lab, name="one", cpu_millicores=1000, memory_bytes=GIB, gpu_milli=1000)
    for model in ("a100", "h100"):
        pools.create_pool(actor=site_admin, name=model, resource_ids=[lab.pk], label=f"gpu={model}")


@pytest.mark.usefixtures("lab_of_two_pools")
def test_the_tries_of_a_grid_go_to_two_pools_of_one_resource(world: World, member, project, at):
    at(0)

    run = world.start(
        member,
        project,
        FLOW.format(gpus=1) + "    pools: [h100, a100]\n    fallback: soonest\n    grid: {seed: [1, 2]}\n",
    )
    at(1)

    assert states(run) == {"train": "running", "train[1]": "running"}
    assert {name for _, name in tries_of(run)} == {"cloud.one in the pool h100", "cloud.one in the pool a100"}
    assert {(job.template.name, job.spec["pool"]) for job in Job.objects.all()} == {("one", "h100"), ("one", "a100")}


def test_it_goes_where_it_is_done_first_or_where_it_costs_least(world: World, member, project, at):
    for resource, price in (("east", 6), ("west", 3)):
        template = Template(resource=world.resources[resource], name="one", price_per_hour=price, gpu_milli=1000)
        template.cpu_millicores, template.memory_bytes = 1000, GIB
        template.save()
    at(0)
    hold(world, member, project, "west")

    soonest = world.start(member, project, FLOW.format(gpus=1) + "    fallback: soonest\n")
    at(1)
    cheapest = world.start(member, project, FLOW.format(gpus=1) + "    fallback: cheapest\n")
    at(2)

    assert tries_of(soonest) == [("running", "east.one")]
    assert "east.one is done first" in Step.objects.get(run=soonest).why
    assert tries_of(cheapest) == [("queued", "west.one")]
    assert "west.one costs least, 0.50" in Step.objects.get(run=cheapest).why


def test_the_pages_of_flow_and_run_say_the_size(world: World, member, project, at):
    run = world.start(member, project, FLOW.format(gpus=0.5) + "    memory: 8GiB\n    pools: [default]\n")
    browser = browser_of(member)

    before = browser.get(f"/runs/{run.pk}/").content.decode()
    at(1)
    after = browser.get(f"/runs/{run.pk}/").content.decode()

    assert "0.5 GPU, 8 GiB in default" in before
    assert "east.0.5-gpu-8-GiB" in after
