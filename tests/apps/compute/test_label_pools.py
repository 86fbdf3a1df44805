"""Jobs on a resource that labels divide among pools: each is in one of these, which its submission may choose."""

from dataclasses import replace

import pytest

from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuFacts, NodeFacts
from compute.engine.states import Gate
from compute.errors import InvalidJobSpec, InvalidResource, NoResourceFits
from compute.models import Job, JobEvent, Resource, Template
from compute.selectors import places, pool_places
from compute.selectors.places import NewJob
from compute.services import jobs, submissions, templates, trials
from compute.services.submissions import Submission
from compute.services.templates import Shape
from compute.workers import forecasts, probes
from scheduler.errors import PoolNotFound
from scheduler.models import Forecast, Pool, Queue
from scheduler.selectors.gpu_shapes import find_smallest
from scheduler.services import pool_members, pools, queues
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.markup import flat

pytestmark = pytest.mark.django_db

WANTED = Submission(command="python train.py", gpu_milli=2000, simulated_duration_s=3600)
GIB = 2**30
SYSTEM = Actor.system("tests")


def machine(name: str, gpus: int, cores: int, **labels: str) -> NodeFacts:
    devices = tuple(GpuFacts(index, f"{name}-{index}", "GPU", 32 * GIB) for index in range(gpus))
    return NodeFacts(name, 1000 * cores, 64 * GIB, devices, labels=labels)


@pytest.fixture
def lab(project, home, site_admin) -> Resource:
    """A resource with a pool for its A100 and one for its H100, and a node without GPUs in the default one."""
    lab = Resource.objects.create(name="lab", kind="simulated", is_simulated=True)
    nodes = (machine("a1", 2, 40, gpu="a100"), machine("h1", 4, 80, gpu="h100"), machine("c1", 0, 8))
    drivers.install(lab, ScriptedDriver(home / "lab", nodes))
    probes.probe_resource(resource=lab)
    pool_members.ensure_queue(project_id=project.pk)
    for model in ("a100", "h100"):
        pools.create_pool(actor=site_admin, name=model, resource_ids=[lab.pk], label=f"gpu={model}")
    return lab


def submit(member, project, name: str, **changes) -> Job:
    return submissions.submit_job(actor=member, project=project, submission=replace(WANTED, name=name, **changes))


def turn() -> None:
    cycle.run_once()
    forecasts.forecast_all()


def pool_of(name: str) -> str:
    return Job.objects.values_list("workload__queue__pool__name", flat=True).get(name=name)


@pytest.mark.parametrize(
    ("change", "pool", "cores"),
    [
        ({"pool": "a100"}, "a100", 40),
        ({"pool": "h100"}, "h100", 40),
        ({"pools": ["h100", "a100"], "gpu_milli": 4000}, "h100", 80),
        ({"resource": "lab", "pool": "h100", "gpu_milli": 1000}, "h100", 20),
        ({"resource": "lab"}, "a100", 40),
        ({"resource": "lab", "gpu_milli": 4000}, "h100", 80),
        ({"gpu_milli": 0}, "default", 1),
    ],
)
@pytest.mark.usefixtures("lab")
def test_a_job_gets_a_place_in_the_pool_that_it_names_or_that_fits(member, project, change, pool, cores):
    job = submit(member, project, "job", **change)
    cycle.run_once()

    assert (pool_of("job"), job.cpu_millicores) == (pool, 1000 * cores)
    assert Job.objects.get(name="job").workload.state == "placed"


@pytest.fixture
def small(lab, site_admin) -> Template:
    shape = Shape(cpu_millicores=1000, memory_bytes=GIB, gpu_milli=1000)
    return templates.create_template(actor=site_admin, resource=lab, name="small", shape=shape)


def rank(site_admin, project, **ranks: int) -> None:
    for pool, place in ranks.items():
        queue = Queue.objects.get(project=project, pool__name=pool)
        queues.set_quota(actor=site_admin, queue=queue, pool_rank=place)


@pytest.mark.usefixtures("small")
def test_a_job_with_a_template_is_in_the_pool_that_it_its_template_or_its_project_names(member, project, site_admin):
    ask = {"template": "lab.small", "gpu_milli": None}
    submit(member, project, "any", **ask)
    submit(member, project, "named", pool="h100", **ask)
    rank(site_admin, project, h100=1)
    submit(member, project, "preferred", **ask)
    template = Template.objects.get(name="small")
    templates.change_template(actor=site_admin, template=template, changes={"pool": "a100"})
    submit(member, project, "of-template", **ask)

    assert {job.name: pool_of(job.name) for job in Job.objects.all()} == {
        "any": "a100", "named": "h100", "preferred": "h100", "of-template": "a100",
    }  # fmt: skip
    with pytest.raises(InvalidJobSpec, match="are in the pool a100"):
        submit(member, project, "other", pool="h100", **ask)


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"resource": "lab", "pool": "spare"}, NoResourceFits, "lab has no nodes in the pool spare"),
        ({"template": "lab.small", "gpu_milli": None, "pool": "spare"}, NoResourceFits, "lab has no nodes in the pool"),
        ({"resource": "lab", "pool": "none"}, PoolNotFound, "There is no pool called 'none'."),
        ({"pool": "a100", "gpu_milli": 4000}, NoResourceFits, "lab in the pool a100 has no node with 80 CPU"),
        ({"resource": "lab", "pools": ["a100", "h100"]}, InvalidJobSpec, "name one at most"),
    ],
)
@pytest.mark.usefixtures("small")
def test_a_pool_without_nodes_of_the_resource_is_refused(member, project, change, error, why):
    pool_members.create("spare")

    with pytest.raises(error, match=why):
        submit(member, project, "job", **change)

    assert not Job.objects.exists()


def test_a_template_names_a_pool_of_its_resource_or_none(site_admin, small):
    pools.create_pool(actor=site_admin, name="spare")

    with pytest.raises(InvalidResource):
        templates.change_template(actor=site_admin, template=small, changes={"pool": "spare"})

    assert Template.objects.get(pk=small.pk).pool == ""
    body = call(site_admin, "PATCH", "/compute/templates/lab.small", {"pool": "h100"}).body
    assert body["pool"] == "h100"


@pytest.mark.parametrize("ask", [{"resource": "lab"}, {"template": "lab.small"}, {"pools": ["a100", "h100"]}])
@pytest.mark.usefixtures("small")
def test_a_gang_gets_the_pool_that_is_large_enough_for_all_of_it(member, project, ask):
    size = {"gpu_milli": None} if "template" in ask else {"gpu_milli": 1000}

    for replicas in (2, 3, 5):
        submit(member, project, f"gang-{replicas}", replicas=replicas, **ask, **size)

    assert [pool_of(f"gang-{replicas}") for replicas in (2, 3, 5)] == ["a100", "h100", "a100"]


def test_a_template_whose_pool_is_gone_is_changed_and_used_like_one_that_names_none(
    member, project, lab, site_admin, small
):
    template = templates.change_template(actor=site_admin, template=small, changes={"pool": "h100"})
    pool = Pool.objects.get(name="h100")
    pools.take_out_label(actor=site_admin, pool=pool, resource_ids=[lab.pk], label="gpu=h100")
    pools.delete_pool(actor=site_admin, pool=pool)

    template = templates.change_template(actor=site_admin, template=template, changes={"cpu_millicores": 2000})
    submit(member, project, "named", template="lab.small", gpu_milli=None, pool="a100")

    assert (template.cpu_millicores, pool_of("named")) == (2000, "a100")


def test_a_refusal_names_some_of_the_many_pools_of_a_resource(member, project, lab, site_admin):
    for number in range(20):
        name = f"rare-{number:02}"
        pools.create_pool(actor=site_admin, name=name, resource_ids=[lab.pk], label=f"gpu={name}")
    pools.create_pool(actor=site_admin, name="spare")

    with pytest.raises(NoResourceFits) as refusal:
        submit(member, project, "job", resource="lab", pool="spare")

    assert "but in default, a100, h100" in refusal.value.message
    assert "rare-19" not in refusal.value.message


def test_a_waiting_job_moves_to_the_next_of_its_pools_on_the_same_resource(member, project, lab):
    submit(member, project, "first", pool="a100")
    cycle.run_once()
    waits = submit(member, project, "waits", pools=["a100", "h100"])
    assert pool_of("waits") == "a100"

    turn()
    cycle.run_once()

    waits.refresh_from_db()
    assert (pool_of("waits"), waits.spec["pool"], waits.workload.state) == ("h100", "h100", "placed")
    message = JobEvent.objects.get(job=waits, message__startswith="Moved").message
    assert message == "Moved from lab in the pool a100 to lab in the pool h100, where it can start now."


def test_forecasts_tell_each_pool_of_a_resource_apart(member, project, lab):
    submit(member, project, "holder", pool="a100")
    cycle.run_once()
    submit(member, project, "waits", pool="a100")
    cycle.run_once()
    forecasts.forecast_all()

    shown = call(member, "GET", "/compute/jobs/waits").body

    assert shown["pool"] == "a100"
    assert [(place["pool"], place["is_chosen"]) for place in shown["outlook"]["places"]] == [("a100", True)]
    assert "holder" in shown["outlook"]["text"]
    assert Forecast.objects.get(name="waits").pool.name == "a100"
    page = flat(browser_of(member).get("/jobs/waits/").content.decode())
    assert '<th scope="row">Pool</th><td>a100</td>' in page
    assert "lab.2-gpu in the pool a100" in page


def test_a_trial_says_what_happens_in_the_pool_that_is_named(member, project, lab):
    submit(member, project, "holder", pool="a100")
    cycle.run_once()

    tried = {
        pool: trials.try_job(actor=member, project=project, submission=replace(WANTED, pool=pool))
        for pool in ("a100", "h100")
    }

    assert {pool: trial.starts_now for pool, trial in tried.items()} == {"a100": False, "h100": True}
    assert tried["h100"].outlook.nodes == ["h1"]


def test_what_a_full_pool_holds_is_no_capacity_of_another(member, project, small):
    submit(member, project, "holder", pool="a100")
    cycle.run_once()
    Job.objects.filter(name="holder").update(state="running", node_name="a1", gpus=[[0, 1000], [1, 1000]])
    in_a100 = Template.objects.get(pk=small.pk)
    in_a100.pool = "a100"
    in_h100 = Template.objects.get(pk=small.pk)
    in_h100.pool = "h100"

    assert pool_places.find_with_capacity([in_a100, in_h100]) == {(small.pk, "h100")}


def test_a_job_that_is_submitted_once_more_is_in_the_same_pool_while_the_resource_has_it(
    member, project, lab, site_admin
):
    job = submit(member, project, "job", resource="lab", pool="h100")

    again = submissions.rerun_job(actor=member, job=job, name="again")
    pool = Pool.objects.get(name="h100")
    pools.take_out_label(actor=site_admin, pool=pool, resource_ids=[lab.pk], label="gpu=h100", moves_work=True)
    later = submissions.rerun_job(actor=member, job=again, name="later")

    assert (pool_of("again"), pool_of("later")) == ("default", "default")
    assert (again.spec["pool"], later.spec["pool"]) == ("h100", "default")


def test_jobs_of_flows_are_forecast_in_the_pool_of_their_template(project, small, site_admin):
    template = templates.change_template(actor=site_admin, template=small, changes={"pool": "h100"})
    job = NewJob(project_id=project.pk, project=project.name, command="x", simulated_duration_s=60.0)

    (place,) = places.forecast_places({"step": (job, {template.full_name: template})}).values()

    assert tuple(place.starts_in_s) == (0.0,)


def test_the_smallest_template_of_a_pool_is_one_whose_jobs_may_be_there(small, site_admin):
    shape = Shape(cpu_millicores=1000, memory_bytes=GIB, gpu_milli=500, pool="h100")
    templates.create_template(actor=site_admin, resource=small.resource, name="half", shape=shape)

    smallest = {pool.name: find_smallest(pool.pk) for pool in Pool.objects.all()}

    assert {name: each.name for name, each in smallest.items() if each is not None} == {
        "default": "lab.small", "a100": "lab.small", "h100": "lab.half",
    }  # fmt: skip


def test_nodes_name_their_pool_in_the_api_and_on_the_page(member, lab):
    nodes = call(member, "GET", "/scheduler/nodes").body["items"]

    assert {node["name"]: node["pool"] for node in nodes} == {"a1": "a100", "h1": "h100", "c1": "default"}
    page = flat(browser_of(member).get("/compute/lab/").content.decode())
    assert '<td class="sub">a100</td>' in page
    assert '<td class="sub">h100</td>' in page


def test_a_job_keeps_the_pool_and_the_pods_of_its_template_once_its_data_is_ready(project, small, site_admin):
    templates.change_template(actor=site_admin, template=small, changes={"pool": "h100"})
    Template.objects.update(pod={"priority_class": "batch"})
    wanted = make.make_request(project, Template.objects.get(), "waited")
    jobs.submit_many(actor=SYSTEM, requests=[replace(wanted, gate=Gate.CALLER)])

    jobs.open_gates(actor=SYSTEM, specs={Job.objects.get().pk: wanted.spec})

    assert pool_of("waited") == "h100"
    assert Job.objects.get().spec["pod"] == {"priority_class": "batch"}


def test_the_form_names_the_pools_of_templates_and_resources_that_labels_divide(member, small, site_admin):
    shape = Shape(cpu_millicores=1000, memory_bytes=GIB, pool="h100")
    templates.create_template(actor=site_admin, resource=small.resource, name="tiny", shape=shape)
    make.make_resource("whole")

    page = flat(browser_of(member).get("/jobs/new/").content.decode())

    assert ">lab.small: 1 CPU, 1 GiB, 1 GPU, pool default or a100 or h100 (simulated)</option>" in page
    assert ">lab.tiny: 1 CPU, 1 GiB, pool h100 (simulated)</option>" in page
    assert ">lab, pool default or a100 or h100 (simulated)</option>" in page
    assert ">whole (simulated)</option>" in page
