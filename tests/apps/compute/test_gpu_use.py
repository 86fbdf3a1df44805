"""What jobs use of their GPUs where the place tells that of now alone, and who holds GPUs that are idle."""

from datetime import timedelta

import pytest

from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuReading, NodeFacts, UsageSample
from compute.models import Job, Resource
from compute.selectors import usage
from compute.workers import probes
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.factories.scheduler import NOON

pytestmark = pytest.mark.django_db


class MeteredDriver(ScriptedDriver):
    """A place that tells what runs use of their GPUs now."""

    readings: dict[str, GpuReading] = {}

    def measure_gpus(self):
        self._answer()
        return self.readings


@pytest.fixture
def metered(resource, home, move):
    Resource.objects.filter(pk=resource.pk).update(is_simulated=False)
    found = MeteredDriver(home / "metered", (NodeFacts("node-1", 8000, 2**34),))
    drivers.install(resource, found)
    return found


@pytest.fixture
def run(metered, project, template):
    def run(name):
        [job] = make.submit(project, template, name)
        make.start([job])
        Job.objects.filter(pk=job.pk).update(gpu_milli=1000, started_at=NOON)
        return Job.objects.select_related("resource").get(pk=job.pk)

    return run


def test_what_a_place_tells_at_each_probe_is_what_a_job_used_over_time(metered, resource, run, viewer, move):
    job = run("train")
    for minute, percent in ((0, 40), (1, None), (2, 80)):
        move(NOON + timedelta(minutes=minute))
        metered.readings = {"train": GpuReading(percent, 7), "gone": GpuReading(1, 1)}
        probes.probe_resource(resource=resource)

    found = usage.read_usage(actor=viewer, job=job, after=NOON)

    assert found == [
        UsageSample(NOON + timedelta(minutes=1), None, None, None, 7),
        UsageSample(NOON + timedelta(minutes=2), None, None, 80, 7),
    ]
    assert len(usage.read_usage(actor=viewer, job=job)) == 3


def test_gpus_that_are_not_used_are_listed_those_that_nobody_measures_last(metered, resource, run, viewer, move):
    for name in ("sleeps", "works", "dark"):
        run(name)
    for minute in range(7):
        move(NOON + timedelta(minutes=minute))
        metered.readings = {"sleeps": GpuReading(0, 9), "works": GpuReading(50 if minute == 3 else 0, 9)}
        probes.probe_resource(resource=resource)

    found = usage.list_idle_gpus(actor=viewer)

    assert [(each.job.name, each.gpu_milli, each.percent, each.text) for each in found] == [
        ("sleeps", 1000, 0, "used 0 % of 1 GPU over the last 10 min"),
        ("dark", 1000, None, "not measured"),
    ]

    browser = browser_of(viewer)
    page = browser.get("/analytics/").content.decode()
    assert page.count("not measured</td>") == 1
    assert "The use of its GPUs is not measured." in browser.get("/jobs/dark/").content.decode()
    assert "GPU utilisation" in browser.get("/jobs/sleeps/").content.decode()
