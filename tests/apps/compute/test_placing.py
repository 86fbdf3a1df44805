"""Parts of GPUs, labels, levels and elastic jobs: what a resource cannot do is refused; what it does is in the rows."""

import pytest

from accounts.permissions import Actor
from compute.engine.placing import Launcher, Placing
from compute.errors import InvalidJobSpec, NoResourceFits
from compute.models import Job, SimulatedJob
from compute.services import jobs, resources, submissions, trials
from compute.services.submissions import Submission
from compute.workers import launches, observe, resizes
from scheduler.models import Placement
from scheduler.workers import cycle
from tests.factories import compute as make

SYSTEM = Actor.system("tests")
GIB = 2**30


def node(name: str, **facts) -> dict:
    return {
        "name": name,
        "cpu_millicores": 8000,
        "memory_bytes": 64 * GIB,
        "gpus": 2,
        "gpu_model": "A100",
        "gpu_memory_bytes": 40 * GIB,
        **facts,
    }


@pytest.fixture
def lab(db, home, site_admin):
    nodes = [node("n-1", labels={"rack": "r1"}), node("n-2", labels={"rack": "r2"})]
    return resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": nodes})


@pytest.fixture
def cut(db, home, site_admin):
    nodes = [node("c-1", gpus=1, mig_strategy="dynamic")]
    return resources.attach_resource(actor=site_admin, name="cut", kind="simulated", config={"nodes": nodes})


def submit(project, resource, name, **wanted) -> Job:
    wanted = {"simulated_duration_s": 600, "command": "train", "resource": resource.name, **wanted}
    return submissions.submit_job(actor=SYSTEM, project=project, submission=Submission(name=name, **wanted))


def pass_by(resource) -> None:
    """Do what the periodic tasks do, once each."""
    cycle.run_once()
    launches.start_placed_jobs()
    launches.evict_jobs()
    observe.observe_resource(resource_id=resource.pk)
    resizes.resize_jobs()


def row(job: Job) -> Job:
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (
            {"placing": Placing(mig_profile="2g.10gb")},
            "No node of lab can give a slice 2g.10gb of a GPU to such a job.",
        ),
        (
            {"placing": Placing(gpu_memory_bytes=41 * GIB)},
            "No node of lab is large enough for the job, even when it is empty.",
        ),
        ({"placing": Placing(node_labels=("gpu=h100",))}, "No node of lab has the label gpu=h100."),
        (
            {"placing": Placing(preferred_level="zone"), "replicas": 2},
            "No node of lab has the label zone, by which replicas would be kept together.",
        ),
    ],
)
def test_what_no_node_gives_is_refused_and_nothing_is_queued(project, lab, wanted, fault):
    wanted = {"resource": "lab", "command": "train", **wanted}
    for ask in (submissions.submit_job, trials.try_job):
        with pytest.raises(NoResourceFits) as refused:
            ask(actor=SYSTEM, project=project, submission=Submission(**wanted))
        assert refused.value.message == f"No resource of lab can run the job. {fault}"
    template = make.make_template(lab, gpu_milli=1000)
    named = Submission(**{**wanted, "resource": "", "template": template.full_name})
    with pytest.raises(InvalidJobSpec) as told:
        submissions.submit_job(actor=SYSTEM, project=project, submission=named)

    assert told.value.message == fault
    assert not Job.objects.exists()


def test_what_no_node_gives_now_waits_and_says_why_where_the_platform_submits_it(project, lab):
    template = make.make_template(lab, gpu_milli=1000)
    for name, placing, replicas in (
        ("slice", Placing(mig_profile="2g.10gb"), 1),
        ("memory", Placing(gpu_memory_bytes=41 * GIB), 1),
        ("label", Placing(node_labels=("gpu=h100",)), 1),
        ("level", Placing(required_level="zone"), 2),
        ("launcher", Placing(launcher=Launcher(cpu_millicores=10**6)), 1),
    ):
        make.submit(project, template, name, placing=placing, replicas=replicas)

    cycle.run_once()

    assert {job.name: (job.state, job.workload.why_code) for job in Job.objects.select_related("workload")} == {
        "slice": ("pending", "never_fits"),
        "memory": ("pending", "never_fits"),
        "label": ("pending", "not_allowed"),
        "level": ("pending", "not_together"),
        "launcher": ("pending", "never_fits"),
    }


def test_what_a_driver_cannot_do_is_refused(project, lab):
    template = make.make_template(lab, gpu_milli=500)
    lab.kind = "local"
    lab.save()
    for placing, replicas, fault in (
        (Placing(gpu_limit_milli=800), 1, "cannot let a job use more of a GPU than its share"),
        (Placing(min_replicas=1), 2, "runs each job on one node"),
    ):
        with pytest.raises(InvalidJobSpec, match=fault):
            make.submit(project, template, "job", placing=placing, replicas=replicas)

    assert not Job.objects.exists()


def test_a_limit_above_the_share_of_a_template_is_taken(project, lab):
    template = make.make_template(lab, gpu_milli=500)
    wanted = Submission(name="job", template=template.full_name, command="train", placing=Placing(gpu_limit_milli=800))

    job = submissions.submit_job(actor=SYSTEM, project=project, submission=wanted)

    assert Placing.read(job.spec["placing"]) == wanted.placing


def test_a_slice_is_charged_by_its_part_of_the_device_and_known_to_job_and_driver(project, cut):
    first = submit(project, cut, "first", placing=Placing(mig_profile="3g.20gb"))
    second = submit(project, cut, "second", placing=Placing(gpu_memory_bytes=9 * GIB))
    pass_by(cut)

    found = {row(job).name: (job.state, job.slices, job.gpus, job.workload.gpu_milli) for job in (first, second)}
    assert found == {
        "first": ("running", ["0:3g.20gb@4"], [[0, 500]], 500),
        "second": ("running", ["0:1g.10gb@0"], [[0, 250]], 250),
    }
    assert SimulatedJob.objects.get(name="first").gpus == "0:3g.20gb@4"
    assert [row(job).gpu_cap for job in (first, second)] == ["", ""]

    third = submit(project, cut, "third", placing=Placing(mig_profile="4g.20gb"))
    pass_by(cut)
    assert (row(third).state, third.workload.why != "") == ("pending", True)


def test_an_elastic_job_shrinks_for_others_and_grows_again_and_its_rows_say_so(project, lab):
    elastic = submit(project, lab, "elastic", gpu_milli=1000, replicas=4, placing=Placing(min_replicas=1))
    pass_by(lab)
    assert len(row(elastic).replicas) == 4

    firm = submit(project, lab, "firm", gpu_milli=2000, priority=100)
    pass_by(lab)
    pass_by(lab)

    assert (row(firm).state, row(elastic).state, elastic.evictions) == ("running", "running", 0)
    assert [each["pod"] for each in elastic.replicas] == ["replica-0", "replica-1"]
    assert (elastic.gpu_held_milli, elastic.workload.gpu_milli) == (2000, 2000)
    assert SimulatedJob.objects.get(name="elastic").replicas == 2
    assert sum(milli for each in Placement.objects.all() for _, milli in each.gpus) == 4000
    said = [event.message for event in elastic.events.order_by("seq")]
    assert said[-1] == "Shrinks from 4 to 2 of 4 replicas."

    jobs.cancel_many(actor=SYSTEM, job_ids=[firm.pk], reason="")
    for _ in range(3):
        pass_by(lab)
    assert len(row(elastic).replicas) == 4


def test_a_resubmitted_job_asks_for_the_same(project, lab):
    placing = Placing(gpu_memory_bytes=4 * GIB, gpu_limit_milli=500, node_labels=("rack=r1",))
    job = submit(project, lab, "first", placing=placing)

    again = submissions.rerun_job(actor=SYSTEM, job=job, name="again")

    assert Placing.read(again.spec["placing"]) == placing
