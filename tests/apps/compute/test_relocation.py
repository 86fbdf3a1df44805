"""Jobs without a template find a place in their pools, the first that can start them, also while they wait."""

from dataclasses import replace

import pytest

from accounts.models import User
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuFacts, NodeFacts
from compute.errors import InvalidJobSpec, NoResourceFits
from compute.models import Job, Resource, ResourceState
from compute.services import jobs, submissions, suspensions, trials
from compute.services.submissions import Submission
from compute.workers import forecasts, probes
from scheduler.errors import PoolNotFound
from scheduler.models import Node, Pool, Queue, Workload
from scheduler.services import pool_members, queues
from scheduler.workers import cycle
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.markup import flat

pytestmark = pytest.mark.django_db

WANTED = Submission(command="python train.py", gpu_milli=2000, pools=["default", "spare"])
GIB = 2**30


def attach(home, name: str, *, gpus: int = 2, cores: int = 40, kind: str = "simulated") -> Resource:
    """Attach a resource of one node; the second one with GPUs gets a pool of its own."""
    resource = Resource.objects.create(name=name, kind=kind, is_simulated=kind == "simulated")
    devices = tuple(GpuFacts(index, f"{name}-{index}", "V100", 32 * GIB) for index in range(gpus))
    node = NodeFacts(f"{name}-1", 1000 * cores, 64 * GIB, devices)
    drivers.install(resource, ScriptedDriver(home / name, (node,)))
    probes.probe_resource(resource=resource)
    return resource


@pytest.fixture
def sites(project, home) -> tuple[Resource, Resource]:
    """Two resources with two GPUs each, in the pools `default` and `spare`."""
    found = attach(home, "lab"), attach(home, "spare", cores=16)
    pool_members.ensure_queue(project_id=project.pk)
    return found


def submit(member, project, name: str, **changes) -> Job:
    return submissions.submit_job(actor=member, project=project, submission=replace(WANTED, name=name, **changes))


def turn() -> None:
    cycle.run_once()
    forecasts.forecast_all()


def place_of(name: str) -> tuple[str, str]:
    """Return the resource of a job, and the state of its workload."""
    return Job.objects.values_list("resource__name", "workload__state").get(name=name)


def end(name: str) -> None:
    jobs.cancel_many(actor=Actor.system("test"), job_ids=[Job.objects.get(name=name).pk], reason="It has ended.")


def test_it_begins_in_its_first_pool_and_in_the_next_where_that_is_full(member, project, sites):
    first, second = submit(member, project, "first"), submit(member, project, "second")

    assert [job.resource.name for job in (first, second)] == ["lab", "lab"]
    turn()
    turn()
    assert [place_of("first"), place_of("second")] == [("lab", "placed"), ("spare", "placed")]


def test_who_waits_moves_with_its_place_in_line_to_the_pool_where_it_can_start(member, project, sites):
    for name in ("a", "b", "waits"):
        submit(member, project, name)
        turn()
    turn()
    before = Job.objects.get(name="waits")
    assert place_of("waits") == ("lab", "pending")
    end("b")

    turn()
    turn()

    after = Job.objects.get(name="waits")
    assert place_of("waits") == ("spare", "placed")
    assert after.workload.queue == Queue.objects.get(project=project, pool__name="spare")
    assert after.workload.enqueued_at == before.workload.enqueued_at
    assert Workload.objects.get(pk=before.workload_id).state == "released"
    assert [event.message for event in after.events.order_by("seq")] == [
        "Waits for lab.2-gpu.",
        "Moved from lab to spare, where it can start now.",
    ]


def test_who_waits_is_told_which_of_its_pools_does_not_count_now_and_why(member, project, sites, client):
    Node.objects.filter(resource_name="lab").update(is_drained=True)
    submit(member, project, "first")
    turn()
    submit(member, project, "waits")
    turn()

    drained = call(member, "GET", "/compute/jobs/waits").body["closed_places"]
    Resource.objects.filter(name="lab").update(state=ResourceState.UNREACHABLE)
    away = call(member, "GET", "/compute/jobs/waits").body["closed_places"]

    assert place_of("waits") == ("spare", "pending")
    assert drained == "lab (pool default) does not count now: all of its nodes are drained or do not answer."
    assert away == "lab (pool default) does not count now: it does not answer."
    client.force_login(User.objects.get(pk=member.user_id))
    assert away in client.get("/jobs/waits/").content.decode()
    Resource.objects.filter(name="lab").update(state=ResourceState.READY)
    Node.objects.filter(resource_name="lab").update(is_drained=False)
    assert call(member, "GET", "/compute/jobs/waits").body["closed_places"] == ""


def fill(member, project) -> None:
    """Take all GPUs: those of `lab` for good, those of `spare` until `blocks` ends."""
    submit(member, project, "first", pools=["default"])
    submit(member, project, "blocks", resource="spare", pools=[])
    turn()


def test_it_gets_what_belongs_to_its_gpus_where_it_goes_and_keeps_what_it_asked_for(member, project, sites):
    fill(member, project)
    submit(member, project, "own", cpu_millicores=4000)
    submit(member, project, "share")
    end("blocks")

    turn()
    end("own")
    turn()

    sizes = dict(Job.objects.filter(resource__name="spare").values_list("name", "cpu_millicores"))
    assert sizes == {"blocks": 16_000, "own": 4000, "share": 16_000}


def test_no_more_jobs_move_than_can_start(member, project, sites):
    fill(member, project)
    for name in ("a", "b", "c"):
        submit(member, project, name, gpu_milli=1000)
    end("blocks")

    turn()

    assert [place_of(name)[0] for name in ("a", "b", "c")] == ["spare", "spare", "lab"]


def test_many_that_cannot_move_keep_no_smaller_one_from_it(member, project, sites):
    submit(member, project, "first", pools=["default"])
    submit(member, project, "half", resource="spare", pools=[], gpu_milli=1000, cpu_millicores=1000)
    submit(member, project, "blocks", resource="spare", pools=[], gpu_milli=1000, cpu_millicores=1000)
    turn()
    names = [f"large-{number}" for number in range(21)]
    for name in names:
        submit(member, project, name)
    submit(member, project, "waits", gpu_milli=1000)
    end("blocks")
    cycle.run_once()

    forecasts.forecast_all()

    assert {place_of(name)[0] for name in names} == {"lab"}
    assert place_of("waits")[0] == "spare"


def test_one_that_has_moved_very_often_moves_no_more(member, project, sites):
    fill(member, project)
    submit(member, project, "waits")
    Job.objects.filter(name="waits").update(event_seq=50)
    end("blocks")

    turn()

    assert place_of("waits") == ("lab", "pending")


@pytest.mark.parametrize("change", [{"pools": ["default"]}, {"pools": [], "resource": "lab"}])
def test_it_goes_only_where_it_may(member, project, sites, change):
    fill(member, project)
    submit(member, project, "waits", **change)
    end("blocks")

    turn()
    turn()

    assert place_of("waits") == ("lab", "pending")


def test_one_that_has_run_stays_where_its_files_are(member, project, sites):
    fill(member, project)
    submit(member, project, "waits")
    Job.objects.filter(name="waits").update(starts=1)
    end("blocks")

    turn()

    assert place_of("waits") == ("lab", "pending")


def test_a_job_of_real_nodes_is_never_simulated(member, project, home, sites):
    Resource.objects.filter(name="lab").update(is_simulated=False)
    fill(member, project)
    submit(member, project, "waits")
    end("blocks")

    turn()

    assert place_of("waits") == ("lab", "pending")


def test_a_place_that_its_owner_may_no_longer_use_is_none(member, project, sites):
    fill(member, project)
    submit(member, project, "waits")
    Resource.objects.filter(name="spare").update(unconfined_reason="There is no sandbox.")
    end("blocks")

    turn()

    assert place_of("waits") == ("lab", "pending")


def test_a_pool_that_is_gone_is_none_and_stops_nobody(member, project, sites):
    fill(member, project)
    submit(member, project, "waits")
    end("blocks")
    pool_members.move(Pool.objects.get(name="default"), [sites[1].pk])
    Pool.objects.filter(name="spare").delete()

    turn()

    # The pool's resource is in the default one now, which is the first.
    assert place_of("waits")[0] == "spare"


def test_a_suspended_job_that_is_resumed_moves_too_and_keeps_the_end_of_the_line(member, project, sites):
    fill(member, project)
    job = submit(member, project, "waits")
    suspensions.suspend_job(actor=member, job=job)
    resumed = suspensions.resume_job(actor=member, job=job)
    end("blocks")

    turn()

    after = Job.objects.get(name="waits")
    assert (after.resource.name, after.workload.enqueued_at) == ("spare", resumed.workload.enqueued_at)


def test_submitted_again_it_has_the_same_pools(member, project, sites):
    fill(member, project)
    job = submit(member, project, "waits", cpu_millicores=4000)

    again = submissions.rerun_job(actor=member, job=job, name="again")

    assert (list(again.spec["pools"]), again.cpu_millicores) == (["default", "spare"], 4000)


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"pools": ["default", "none"]}, PoolNotFound, "There is no pool called 'none'."),
        ({"pools": ["spare", "spare"]}, InvalidJobSpec, "A pool is named twice."),
        ({"pools": ["spare"], "pool": "spare"}, InvalidJobSpec, "A pool is named twice."),
        ({"resource": "lab"}, InvalidJobSpec, "A job that names its template or its resource is in one pool of that"),
        (
            {"resource": "lab", "pools": ["spare"]},
            NoResourceFits,
            "lab has no nodes in the pool spare, but in default.",
        ),
        ({"template": "lab.any", "gpu_milli": None}, InvalidJobSpec, "A job that names its template or its resource"),
        ({"template": "lab.any", "pools": []}, InvalidJobSpec, "A template says the size"),
        ({"gpu_milli": 4000}, NoResourceFits, "No resource of the pools default, spare can run the job."),
    ],
)
def test_what_cannot_be_is_refused(member, change, error, why, project):
    with pytest.raises(error, match=why):
        submit(member, project, "waits", **change)

    assert not Job.objects.exists()


def rank(site_admin, project, **ranks: int | None) -> None:
    for pool, place in ranks.items():
        queue = Queue.objects.get(project=project, pool__name=pool)
        queues.set_quota(actor=site_admin, queue=queue, pool_rank=place)


def test_who_names_no_pool_takes_those_of_the_project_in_their_order(member, site_admin, project, sites):
    rank(site_admin, project, spare=1, default=2)

    preferred = submit(member, project, "preferred", pools=[])
    named = submit(member, project, "named", pools=["default"])

    assert (preferred.resource.name, preferred.spec["pools"]) == ("spare", ("spare", "default"))
    assert (named.resource.name, named.spec["pools"]) == ("lab", ("default",))
    rank(site_admin, project, spare=None, default=None)
    assert submit(member, project, "later", pools=[]).spec["pools"] == ("default",)


def test_a_trial_looks_where_the_job_would_go(member, site_admin, project, sites):
    rank(site_admin, project, spare=1)

    trial = trials.try_job(actor=member, project=project, submission=replace(WANTED, pools=[]))

    assert (trial.starts_now, trial.outlook.nodes) == (True, ["spare-1"])


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("said", "pools"),
    [
        ({"pool": "spare", "next_pool": "default"}, ["spare", "default"]),
        ({"next_pool": "spare"}, ["default", "spare"]),
        ({"pool": "spare"}, ["spare"]),
        ({}, ["default"]),
    ],
)
def test_pools_are_chosen_in_the_form_and_shown_with_the_job(site_admin, project, said, pools):
    browser = browser_of(site_admin)

    browser.post("/jobs/new/", {"project": project.name, "command": "true", "gpus": "1", "name": "mine", **said})

    assert Job.objects.get().spec["pools"] == pools
    assert f"<td>{', then '.join(pools)}</td>" in flat(browser.get("/jobs/mine/").content.decode())


def test_pools_are_named_over_the_api(member, project, sites):
    body = {"project": project.name, "command": "true", "gpu_milli": 1000, "pools": ["spare", "default"]}

    answer = call(member, "POST", "/compute/jobs", body)

    assert (answer.status, answer.body["resource"], answer.body["pools"]) == (201, "spare", ["spare", "default"])
