"""What jobs see of GPUs at their start, as their resource tells it: noted once, shown everywhere, told where it differs."""

import pytest

from compute.engine.ports import ReplicaReport, ReportState
from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from compute.models import Job, Resource
from compute.workers import launches, observe
from core import clock
from scheduler.models import Gpu, Node, Placement, Workload
from tests.factories import compute as make
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db

GIB = 2**30
ONE = VisibleGpus((SeenGpu("GPU-a", 80 * GIB),))
ALL = VisibleGpus(tuple(SeenGpu(f"GPU-{name}", 80 * GIB) for name in "abcd"))
DIFFERS = "Sees 4 GPUs, was given 1. Nothing keeps it from using all that it sees."


@pytest.fixture
def real(resource):
    Resource.objects.filter(pk=resource.pk).update(is_simulated=False)
    resource.refresh_from_db()
    return resource


@pytest.fixture
def start(real, project, template):
    def start(name, gpus=((0, 1000),)):
        [job] = make.submit(project, template, name)
        make.start([job], gpus=[list(gpu) for gpu in gpus])
        return job

    return start


def look(resource, job):
    observe.observe_resource(resource_id=resource.pk)
    return Job.objects.select_related("resource").get(pk=job.pk)


def messages_of(job):
    return list(job.events.order_by("seq").values_list("message", flat=True))


def test_what_a_job_sees_is_noted_without_an_event_where_it_is_what_it_was_given(real, driver, start):
    job = start("train", gpus=[(0, 500)])
    before = messages_of(job)
    driver.jobs.change("train", gpus_seen=ONE)

    seen = look(real, job)

    assert seen.gpu_check == {
        "text": "Sees 1 of 1 GPU, 80 GiB (has 0.5: nothing caps it).",
        "differs": False,
        "replicas": [{"gpus": [{"uuid": "GPU-a", "memory_bytes": 80 * GIB}], "openable": None, "variable": None}],
    }
    assert messages_of(seen) == before


def test_what_differs_is_told_once_as_an_event(real, driver, start):
    job = start("train")
    driver.jobs.change("train", gpus_seen=ALL)

    look(real, job)
    seen = look(real, job)

    assert (seen.gpu_check["text"], seen.gpu_check["differs"]) == (DIFFERS, True)
    assert [(event.state, event.message) for event in seen.events.order_by("-seq")[:1]] == [("running", DIFFERS)]
    assert messages_of(seen).count(DIFFERS) == 1
    assert seen.event_seq == len(messages_of(seen))


def test_a_gpu_that_has_another_number_than_when_its_node_was_asked_is_told(real, driver, start):
    node = Node.objects.get(resource_id=real.pk)
    for index, name in enumerate("ab"):
        Gpu.objects.create(node=node, index=index, uuid=f"GPU-{name}", model="A100", memory_bytes=80 * GIB)
    right, wrong = start("right"), start("wrong", gpus=[(1, 1000)])
    driver.jobs.change("right", gpus_seen=VisibleGpus((SeenGpu("GPU-a"),)))
    driver.jobs.change("wrong", gpus_seen=ONE)

    texts = [look(real, job).gpu_check["text"] for job in (right, wrong)]

    assert texts == [
        "Sees 1 of 1 GPU, 80 GiB.",
        "Sees GPU-a, was given GPU-b. The GPUs of its node have other numbers than before.",
    ]


def test_what_was_told_at_its_end_alone_is_noted_too(real, driver, start):
    job = start("short")
    driver.jobs.change("short", gpus_seen=ONE)
    driver.finish("short")

    seen = look(real, job)

    assert (seen.state, seen.gpu_check_shown) == ("succeeded", "Sees 1 of 1 GPU, 80 GiB.")


def test_a_gang_is_told_by_its_replicas(real, driver, start):
    job = start("gang")
    places = [{"node": f"node-{rank}", "gpus": [[0, 1000]]} for rank in range(2)]
    Job.objects.filter(pk=job.pk).update(replicas=places, replica_count=2)
    replicas = tuple(ReplicaReport(ReportState.RUNNING, gpus_seen=seen) for seen in (ONE, ALL))
    driver.jobs.change("gang", replicas=replicas)

    assert look(real, job).gpu_check["text"] == f"Replica 1: {DIFFERS}"


def test_a_run_that_is_queued_again_says_nothing_of_the_last_one(real, driver, start):
    job = start("train")
    driver.jobs.change("train", gpus_seen=ALL)
    look(real, job)
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="It leaves.")
    Placement.objects.filter(workload=job.workload_id).update(evicting_since=clock.now())
    launches.evict_jobs()

    seen = look(real, job)

    assert (seen.state, seen.gpu_check, seen.gpu_check_shown) == ("pending", {}, "")


def test_nobody_believes_a_report_of_another_run(real, driver, start):
    job = start("train")
    driver.jobs.change("train", gpus_seen=ALL)
    Job.objects.filter(pk=job.pk).update(token="another")

    assert look(real, job).gpu_check == {}


def test_jobs_without_gpus_cost_nothing_and_others_only_once(real, driver, start, django_assert_num_queries):
    for name in ("one", "two"):
        start(name, gpus=())
    with_gpu = start("three")
    with clock.frozen_at(clock.now()):
        look(real, with_gpu)
        with django_assert_num_queries(2):
            observe.observe_resource(resource_id=real.pk)
        driver.jobs.change("three", gpus_seen=ONE)
        look(real, with_gpu)
        with django_assert_num_queries(2):
            observe.observe_resource(resource_id=real.pk)


def test_page_and_api_say_what_it_sees_or_that_it_is_not_known(real, driver, start, viewer):
    unknown, known = start("unknown"), start("known")
    driver.jobs.change("known", gpus_seen=ALL)
    look(real, known)
    browser = browser_of(viewer)

    pages = [browser.get(f"/jobs/{job.name}/").content.decode() for job in (unknown, known)]
    answers = [browser.get(f"/api/v1/compute/jobs/{job.name}").json()["gpu_check"] for job in (unknown, known)]

    assert "Not known: its resource has not told what it sees." in pages[0]
    assert "What it sees is not what it was given" not in pages[0]
    assert "What it sees is not what it was given" in pages[1]
    assert DIFFERS in pages[1]
    assert (answers[0], answers[1]["text"], answers[1]["replicas"][0]["gpus"][3]["uuid"]) == (None, DIFFERS, "GPU-d")


def test_simulated_jobs_and_jobs_without_gpus_are_not_said_to_be_unknown(resource, real, start):
    plain, with_gpu = start("plain", gpus=()), start("train")
    Resource.objects.filter(pk=resource.pk).update(is_simulated=True)

    assert [look(resource, job).gpu_check_shown for job in (plain, with_gpu)] == ["", ""]
