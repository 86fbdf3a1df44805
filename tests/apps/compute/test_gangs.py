"""Jobs of several replicas: placed and started together, evicted and ended together, told one by one."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import User
from accounts.permissions import Actor
from compute.engine.placing import Launcher, Placing
from compute.errors import InvalidJobSpec, NoResourceFits
from compute.models import Job, Resource
from compute.selectors.job_rows import stamps_of_jobs
from compute.services import jobs, resources, submissions
from compute.services.submissions import Submission
from compute.workers import launches, observe
from core import clock
from scheduler.models import Placement, Workload
from scheduler.services import workloads
from scheduler.workers import cycle
from tests.factories import compute as make

SYSTEM = Actor.system("tests")
START = datetime(2026, 11, 22, 9, tzinfo=UTC)


def node(name: str) -> dict:
    return {
        "name": name,
        "cpu_millicores": 1000,
        "memory_bytes": 2**30,
        "gpus": 1,
        "gpu_model": "V100",
        "gpu_memory_bytes": 2**35,
    }


@pytest.fixture
def lab(db, home, site_admin):
    nodes = [node(f"n-{number}") for number in (1, 2, 3)]
    return resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": nodes})


@pytest.fixture
def template(lab):
    return make.make_template(lab, gpu_milli=1000)


def look(job: Job) -> Job:
    observe.observe_resource(resource_id=job.resource_id)
    job.refresh_from_db()
    return job


def start(job: Job) -> Job:
    cycle.run_once()
    launches.start_placed_jobs()
    return look(job)


@pytest.fixture
def browser(client, viewer):
    client.force_login(User.objects.get(pk=viewer.user_id))
    return client


def test_all_replicas_of_a_job_are_placed_and_started_together_and_told_one_by_one(template, project, browser):
    with clock.frozen_at(START) as move:
        [job] = make.submit(project, template, "ring", replicas=3, simulated_duration_s=60)
        running = start(job)

        assert (running.state, running.node_name, running.gpu_held_milli) == ("running", "n-1", 3000)
        assert running.replicas == [
            {
                "node": f"n-{number}",
                "gpus": [[0, 1000]],
                "slices": [],
                "pod": f"replica-{number - 1}",
                "state": "running",
                "reason": "",
            }
            for number in (1, 2, 3)
        ]
        page = browser.get("/jobs/ring/").content.decode()
        assert [name in page for name in ("n-1", "n-2", "n-3", "3 replicas")] == [True] * 4

        before = stamps_of_jobs(["ring"])
        move(START + timedelta(seconds=61))
        ended = look(job)

    assert ended.state == "succeeded"
    assert [each["state"] for each in ended.replicas] == ["succeeded"] * 3
    assert stamps_of_jobs(["ring"]) != before
    assert not Placement.objects.exists()


def test_a_gang_that_does_not_fit_starts_nothing(template, project):
    [job] = make.submit(project, template, "ring", replicas=4)

    job = start(job)

    assert (job.state, job.replicas, job.node_name) == ("pending", [], "")
    assert not Placement.objects.exists()


def test_the_overview_and_the_list_of_jobs_count_the_gpus_of_all_replicas(template, project, browser):
    [job] = make.submit(project, template, "ring", replicas=4)
    start(job)

    overview, jobs = (" ".join(browser.get(path).content.decode().split()) for path in ("/", "/jobs/"))

    assert "1 job, 4 GPUs" in overview
    assert '<td class="num">4</td>' in overview
    assert '0 <span class="sub">(4)</span>' in jobs


def test_a_gang_whose_placements_are_seen_in_part_is_claimed_as_a_whole(template, project):
    make.submit(project, template, "ring", replicas=3)
    cycle.run_once()
    first = Placement.objects.order_by("-pk").values_list("pk", flat=True)[:1]

    claimed = workloads.claim_placements(first)

    assert [place.pod for place in claimed] == ["replica-0", "replica-1", "replica-2"]
    assert not Placement.objects.filter(is_claimed=False).exists()


def test_an_evicted_gang_stops_with_all_its_replicas_and_waits_again_with_none(template, project):
    [job] = make.submit(project, template, "ring", replicas=2, simulated_duration_s=600)
    job = start(job)
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Another queue claims its share.")
    Placement.objects.update(evicting_since=clock.now())

    launches.evict_jobs()
    job = look(job)

    assert (job.state, job.evictions, job.replicas, job.node_name) == ("pending", 1, [], "")
    assert not Placement.objects.exists()


def test_a_resource_that_runs_each_job_on_one_node_refuses_a_gang(db, home, project):
    resource, _ = make.make_resource(root=home / "scripted")
    Resource.objects.update(kind="local")
    template = make.make_template(resource)

    with pytest.raises(InvalidJobSpec) as refused:
        make.submit(project, template, "ring", replicas=2)

    assert refused.value.message == (
        "scripted.small cannot run 2 replicas: a resource of kind local runs each job on one node."
    )
    assert not Job.objects.exists()


def test_the_size_of_a_workload_is_that_of_all_replicas(template, project):
    [job] = make.submit(project, template, "ring", replicas=3)

    workload = Workload.objects.get(pk=job.workload_id)

    assert (workload.gpu_milli, workload.cpu_millicores, job.gpu_milli) == (3000, 3000, 1000)


def test_the_api_says_how_many_replicas_a_job_has_and_how_each_stands(template, project, browser):
    [job] = make.submit(project, template, "ring", replicas=2, simulated_duration_s=600)
    start(job)

    answer = json.loads(browser.get("/api/v1/compute/jobs/ring").content)

    assert answer["replica_count"] == 2
    [listed] = json.loads(browser.get("/api/v1/compute/jobs").content)["items"]
    assert listed["nodes"] == answer["nodes"] == ["n-1", "n-2"]
    for page in ("/jobs/", "/", f"/compute/{job.resource.name}/", "/jobs/ring/"):
        assert "n-1 and 1 more" in browser.get(page).content.decode(), page
    assert [(each["node"], each["state"]) for each in answer["replicas"]] == [("n-1", "running"), ("n-2", "running")]
    jobs.cancel_job(actor=SYSTEM, job=job)


MPI = Placing(launcher=Launcher(cpu_millicores=200, memory_bytes=2**20))


@pytest.fixture
def large(db, home, site_admin):
    """Return a template of one GPU on a resource whose GPU nodes have cores beside, and one node without GPUs."""
    nodes = [node(f"gpu-{number}") | {"cpu_millicores": 1500, "memory_bytes": 2**31} for number in (1, 2)]
    nodes.append(node("cpu-1") | {"gpus": 0, "gpu_memory_bytes": 0})
    lab = resources.attach_resource(actor=site_admin, name="large", kind="simulated", config={"nodes": nodes})
    return make.make_template(lab, gpu_milli=1000)


def test_a_launcher_is_placed_with_all_replicas_on_a_node_without_gpus_and_counts_as_none(large, project, browser):
    [job] = make.submit(project, large, "ring", replicas=2, placing=MPI, simulated_duration_s=600)
    workload = Workload.objects.get(pk=job.workload_id)
    assert (workload.gpu_milli, workload.cpu_millicores, workload.has_many_pods) == (2000, 2200, True)

    job = start(job)

    assert [(each["node"], each["gpus"], each["pod"]) for each in job.replicas] == [
        ("cpu-1", [], "launcher-0"),
        ("gpu-1", [[0, 1000]], "replica-0"),
        ("gpu-2", [[0, 1000]], "replica-1"),
    ]
    assert (job.state, job.node_name, job.gpu_held_milli, job.gpu_asked_milli) == ("running", "cpu-1", 2000, 2000)
    assert job.sizes == [(200, 2**20), *[(job.cpu_millicores, job.memory_bytes)] * 2]
    assert {each["state"] for each in job.replicas} == {"running"}
    answer = json.loads(browser.get("/api/v1/compute/jobs/ring").content)
    assert (answer["replica_count"], len(answer["replicas"]), answer["launcher"]["cpu_millicores"]) == (2, 3, 200)
    page = " ".join(browser.get("/jobs/ring/").content.decode().split())
    assert "0 (launcher)</td>" in page
    assert "All replicas, and the launcher, were placed at once." in page


def test_a_launcher_takes_a_node_with_gpus_where_there_is_no_other_and_waits_with_its_replicas_else(
    template, project, lab
):
    [job] = make.submit(project, template, "full", replicas=3, placing=MPI, simulated_duration_s=600)

    assert start(job).state == "pending"
    assert not Placement.objects.exists()

    jobs.cancel_job(actor=SYSTEM, job=job)
    [job] = make.submit(project, template, "ring", replicas=2, placing=MPI, simulated_duration_s=600)

    assert [each["node"] for each in start(job).replicas] == ["n-3", "n-1", "n-2"]


def test_one_replica_beside_a_launcher_is_a_gang_of_two_which_is_evicted_as_one(large, project):
    [job] = make.submit(project, large, "ring", replicas=1, placing=MPI, simulated_duration_s=600)
    job = start(job)
    assert [each["state"] for each in job.replicas] == ["running", "running"]

    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Another queue claims its share.")
    Placement.objects.update(evicting_since=clock.now())
    launches.evict_jobs()
    job = look(job)

    assert (job.state, job.evictions, job.replicas) == ("pending", 1, [])


def test_what_cannot_have_a_launcher_is_refused_in_words(db, home, project, large):
    resource, _ = make.make_resource(root=home / "scripted")
    Resource.objects.filter(pk=resource.pk).update(kind="local")
    huge = Placing(launcher=Launcher(cpu_millicores=10**6))

    for template, placing, words in (
        (make.make_template(resource), MPI, "scripted.small cannot run a launcher beside replicas: a resource of kind"),
        (large, huge, "For its launcher: No node of large is large enough"),
    ):
        wanted = Submission(template=template.full_name, command="true", placing=placing)
        with pytest.raises(InvalidJobSpec) as refused:
            submissions.submit_job(actor=SYSTEM, project=project, submission=wanted)
        assert refused.value.message.startswith(words)
    assert not Job.objects.exists()


def test_a_size_of_its_own_with_a_launcher_finds_no_place_where_gangs_do_not_run(db, home, project, site_admin):
    resource, _ = make.make_resource(root=home / "scripted")
    Resource.objects.update(kind="local", unconfined_reason="")
    submission = Submission(command="mpirun ./train", resource=resource.name, cpu_millicores=100, placing=MPI)

    with pytest.raises(NoResourceFits, match="runs each job on one node"):
        submissions.submit_job(actor=site_admin, project=project, submission=submission)


def test_what_belongs_to_the_gpus_of_nodes_leaves_their_launcher_its_own(db, home, project, site_admin):
    nodes = [node(f"gpu-{number}") | {"gpus": 2, "cpu_millicores": 4000} for number in (1, 2)]
    resources.attach_resource(actor=site_admin, name="large", kind="simulated", config={"nodes": nodes})
    submission = Submission(
        command="mpirun ./train", resource="large", gpu_milli=2000, replicas=2, placing=MPI, simulated_duration_s=600
    )

    job = submissions.submit_job(actor=site_admin, project=project, submission=submission)

    assert (job.cpu_millicores, job.memory_bytes) == (3800, 2**30 - 2**20)
    assert start(job).state == "running"


def test_the_form_asks_for_a_launcher_by_its_mark_or_by_anything_said_of_it(large, project, client, member):
    client.force_login(User.objects.get(pk=member.user_id))
    said = {"project": project.name, "template": large.full_name, "command": "mpirun ./train", "replicas": "2"}

    client.post("/jobs/new/", {**said, "name": "usual", "launcher": "on"})
    client.post("/jobs/new/", {**said, "name": "small", "launcher_cpu": "0.2", "worker_port": "0"})
    client.post("/jobs/new/", {**said, "name": "none"})

    launchers = {job.name: job.spec["placing"].get("launcher") for job in Job.objects.all()}
    assert launchers == {
        "usual": asdict(Launcher()),
        "small": asdict(Launcher(cpu_millicores=200, worker_port=0)),
        "none": None,
    }


def test_a_launcher_is_submitted_once_more_with_its_job(large, project, site_admin):
    submission = Submission(template=large.full_name, command="mpirun ./train", name="ring", replicas=2, placing=MPI)
    job = submissions.submit_job(actor=site_admin, project=project, submission=submission)

    again = submissions.rerun_job(actor=site_admin, job=job)

    assert again.has_launcher
    assert again.spec["placing"] == job.spec["placing"]
