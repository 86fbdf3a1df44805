"""A job that names no template gets a size and a resource of its own, or hears of each resource why not."""

from dataclasses import replace

import pytest

from accounts.errors import InvalidSecretName, SecretNotFound
from accounts.services import secrets
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuFacts, NodeFacts
from compute.errors import InvalidJobSpec, JobBelongsToRun, NoResourceFits
from compute.models import Job, Resource
from compute.services import jobs, submissions, trials
from compute.services.submissions import Submission
from compute.workers import probes
from scheduler.errors import PoolNotFound
from scheduler.models import Node, Pool
from scheduler.services import pool_members
from tests.factories import compute as make
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = pytest.mark.django_db

WANTED = Submission(command="python train.py", name="train", gpu_milli=2000)
GIB = 2**30


def attach(home, name: str, *, gpus: int = 8, kind: str = "simulated", **config: str) -> Resource:
    """Attach a resource of one node with 40 cores and 512 GiB."""
    resource = Resource.objects.create(name=name, kind=kind, is_simulated=kind == "simulated", config=config)
    devices = tuple(GpuFacts(index, f"{name}-{index}", "V100", 32 * GIB) for index in range(gpus))
    drivers.install(resource, ScriptedDriver(home / name, (NodeFacts(f"{name}-1", 40_000, 512 * GIB, devices),)))
    probes.probe_resource(resource=resource)
    return resource


@pytest.fixture
def lab(db, home) -> Resource:
    return attach(home, "lab")


def submit(member, project, **changes) -> Job:
    return submissions.submit_job(actor=member, project=project, submission=replace(WANTED, **changes))


def size_of(job: Job) -> tuple[str, int, int, int]:
    return job.template_name, job.gpu_milli, job.cpu_millicores, job.memory_bytes


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        ({}, ("lab.2-gpu", 2000, 10_000, 128 * GIB)),
        ({"gpu_milli": 300}, ("lab.0.3-gpu", 300, 1500, 512 * GIB * 3 // 80)),
        ({"gpu_milli": 8000}, ("lab.8-gpu", 8000, 40_000, 512 * GIB)),
        ({"gpu_milli": 0}, ("lab.0-gpu", 0, 1000, GIB)),
        ({"gpu_milli": None}, ("lab.0-gpu", 0, 1000, GIB)),
        ({"cpu_millicores": 500}, ("lab.2-gpu-0.5-cpu", 2000, 500, 128 * GIB)),
        ({"memory_bytes": 4 * GIB}, ("lab.2-gpu-4-GiB", 2000, 10_000, 4 * GIB)),
    ],
)
def test_it_gets_the_share_of_a_node_that_belongs_to_its_gpus(member, project, lab, wanted, size):
    job = submit(member, project, **wanted)

    assert size_of(job) == size
    assert (job.template, job.resource.name, job.state, job.workload.gpu_milli) == (None, "lab", "pending", size[1])


def test_a_template_with_as_many_gpus_is_taken_where_nothing_else_is_said(member, project, lab):
    make.make_template(lab, "large", gpu_milli=2000, cpu_millicores=8000)
    small = make.make_template(lab, "small", gpu_milli=2000, cpu_millicores=4000)

    assert submit(member, project).template == small
    assert submit(member, project, name="own", cpu_millicores=2000).template is None


def test_of_several_resources_the_one_that_exists_and_has_them_free_goes_first(member, project, home, lab):
    attach(home, "cluster", kind="kubernetes", gpu_resource="amd.com/gpu")
    move_all_to_default_pool()
    assert submit(member, project, image="python:3.12").resource.name == "cluster"

    for number in range(4):
        make.start([submit(member, project, name=f"holder-{number}", resource="lab")], gpus=[[number, 1000]])
    assert submit(member, project, name="small", gpu_milli=500).resource.name == "lab"


@pytest.mark.parametrize("change", [{"is_ready": False}, {"is_drained": True}])
def test_where_no_node_takes_work_it_waits_and_a_resource_that_does_goes_first(member, project, home, lab, change):
    Node.objects.update(**change)
    assert size_of(submit(member, project)) == ("lab.2-gpu", 2000, 10_000, 128 * GIB)
    with pytest.raises(NoResourceFits):
        submit(member, project, name="large", gpu_milli=9000)

    attach(home, "spare")
    move_all_to_default_pool()
    assert submit(member, project, name="other").resource.name == "spare"


def move_all_to_default_pool() -> None:
    pool_members.move(Pool.objects.get(name="default"), list(Resource.objects.values_list("pk", flat=True)))


def test_a_second_place_with_gpus_is_a_pool_of_its_own_and_taken_only_where_it_is_named(member, project, home, lab):
    attach(home, "spare")

    assert submit(member, project).resource.name == "lab"
    assert submit(member, project, name="there", pool="spare").resource.name == "spare"
    assert submit(member, project, name="here", resource="spare").resource.name == "spare"
    with pytest.raises(PoolNotFound):
        submit(member, project, name="nowhere", pool="none")
    assert Job.objects.count() == 3


@pytest.fixture
def digits(member, project, home) -> None:
    make_store(home / "store")
    commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"x"})


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"gpu_milli": 9000}, "lab has no node with 45 CPU, 576 GiB, 9 GPU."),
        ({"gpu_milli": 10**12}, "lab has no node with"),
        ({"memory_bytes": 2**50}, "lab has no node with"),
        ({"cpu_millicores": 41_000}, "lab has no node with 41 CPU"),
        ({"data": ["team-a/digits"]}, "lab has no cache site that its jobs can read."),
    ],
)
def test_what_no_resource_can_run_is_refused_with_the_reason_of_each(member, project, lab, wanted, why):
    with pytest.raises(NoResourceFits) as refusal:
        submit(member, project, **wanted)

    assert refusal.value.message.startswith("No resource of the pool default can run the job.")
    assert why in refusal.value.message
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"image": "python:3.12"}, "machine runs no containers."),
        ({"command": ""}, "machine runs no containers."),
        ({"replicas": 2}, "machine runs each job on one node."),
        ({"volumes": ["/mnt:/mnt"]}, "machine gives jobs no volumes; this one asks for /mnt:/mnt."),
    ],
)
def test_what_a_machine_cannot_do_is_refused_in_words(member, project, home, wanted, why):
    attach(home, "machine", kind="local")

    with pytest.raises(NoResourceFits, match=why):
        submit(member, project, **wanted)
    assert not Job.objects.exists()


def test_volumes_that_an_admin_offers_are_given_and_others_are_refused_in_words(member, project, home):
    attach(home, "box", kind="docker")
    cluster = attach(home, "cluster", kind="kubernetes", job_claims=["scans:ro"])
    move_all_to_default_pool()

    with pytest.raises(NoResourceFits) as refusal:
        submit(member, project, volumes=["other:/mnt/a:ro"])
    job = submit(member, project, volumes=["scans:/mnt/a:ro"])

    assert "box gives jobs no volumes; this one asks for other:/mnt/a:ro." in refusal.value.message
    assert "other is not offered to jobs on cluster. An admin offers: scans:ro." in refusal.value.message
    assert (job.resource_id, *job.spec["volumes"]) == (cluster.pk, "scans:/mnt/a:ro")


def test_ports_are_refused_where_nobody_can_reach_them(member, project, home):
    attach(home, "host", kind="ssh")

    with pytest.raises(NoResourceFits, match=r"Ports of jobs on host cannot be reached; this one has 8888\."):
        submit(member, project, ports=[8888])
    assert not Job.objects.exists()


def test_a_cluster_gives_no_part_of_a_slice(member, project, home):
    attach(home, "cluster", kind="kubernetes", gpu_resource="nvidia.com/mig-1g.10gb")

    with pytest.raises(NoResourceFits, match="cluster gives whole GPUs only"):
        submit(member, project, gpu_milli=500)


def test_simulated_nodes_take_an_image_ports_and_volumes_and_keep_them_in_the_job(member, project, lab):
    job = submit(member, project, command="", image="jupyter/base-notebook", ports=[8888], volumes=["/mnt:/mnt"])

    job.refresh_from_db()
    assert (job.spec["command"], job.spec["ports"], job.spec["volumes"]) == ("", [8888], ["/mnt:/mnt"])


@pytest.mark.parametrize(
    "wanted",
    [
        {"gpu_milli": 1500},
        {"cpu_millicores": 0},
        {"memory_bytes": 0},
        {"template": "lab.gpu-1"},
        {"template": "lab.gpu-1", "gpu_milli": None, "resource": "lab"},
        {"env": {"A=B": "1"}},
        {"env": {"": "1"}},
    ],
)
def test_a_size_that_makes_no_sense_is_refused(member, project, lab, wanted):
    make.make_template(lab, "gpu-1", gpu_milli=1000)

    with pytest.raises(InvalidJobSpec):
        submit(member, project, **wanted)
    assert not Job.objects.exists()


def test_a_secret_that_the_project_does_not_have_is_refused_at_once(member, project, lab):
    with pytest.raises(SecretNotFound, match="The project has no secret called TOKEN"):
        submit(member, project, secrets=["TOKEN"])

    assert not Job.objects.exists()


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "NEARLINE_TOKEN"])
def test_no_secret_takes_the_name_of_a_variable_that_jobs_have(site_admin, project, name):
    with pytest.raises(InvalidSecretName, match="is a variable that jobs have already"):
        secrets.set_secret(actor=site_admin, project=project, name=name, value="hidden")


def test_it_has_its_variables_and_the_secrets_that_it_names(member, site_admin, project, lab):
    secrets.set_secret(actor=site_admin, project=project, name="TOKEN", value="hidden")

    job = submit(member, project, env={"EPOCHS": "20"}, secrets=["TOKEN"])

    assert (job.spec["env"], list(job.spec["secret_names"])) == ({"EPOCHS": "20"}, ["TOKEN"])
    assert "hidden" not in str(job.spec)


def test_it_is_tried_as_it_would_be_submitted(member, project, lab):
    trial = trials.try_job(actor=member, project=project, submission=WANTED)

    assert (trial.starts_now, [place.template for place in trial.outlook.places]) == (True, ["lab.2-gpu"])
    assert not Job.objects.exists()


def test_a_job_is_submitted_once_more_as_it_was(member, project, lab):
    first = submit(member, project, image="python:3.12", env={"EPOCHS": "20"}, is_preemptible=False)
    jobs.cancel_job(actor=member, job=first)

    second = submissions.rerun_job(actor=member, job=first, name="again")

    assert size_of(second)[1:] == size_of(first)[1:]
    assert (second.name, second.state, second.is_preemptible) == ("again", "pending", False)
    assert {key: second.spec[key] for key in ("command", "image", "env")} == {
        key: first.spec[key] for key in ("command", "image", "env")
    }


def test_the_job_of_a_step_is_not_submitted_again(member, project, lab):
    job = submit(member, project)
    Job.objects.filter(pk=job.pk).update(kind="experiment")

    with pytest.raises(JobBelongsToRun):
        submissions.rerun_job(actor=member, job=Job.objects.get(pk=job.pk))
    assert Job.objects.count() == 1
