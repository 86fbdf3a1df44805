"""A real training loop on this machine is evicted again and again, loses at most one interval each, and ends right."""

import json
import os
import random
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute.adapters import drivers
from compute.adapters.local.driver import LocalDriver
from compute.models import Checkpoint, Job, Resource, Template
from compute.selectors import checkpoints as selectors
from compute.services import submissions
from compute.services.submissions import Submission
from compute.workers import checkpoints, launches, observe, probes
from core import clock
from experiments.workers import harvest, jobs
from scheduler.models import Placement, Workload
from tests.factories import compute as make
from tests.journeys import training

pytestmark = pytest.mark.django_db

EVICTIONS = int(os.environ.get("NEARLINE_TEST_EVICTIONS", "3"))
"""50 by hand: `NEARLINE_TEST_EVICTIONS=50`."""

STEPS_EACH = 20
STEPS = STEPS_EACH * EVICTIONS
DICE = random.Random(20261126)
LIMITS = [number * STEPS_EACH + DICE.randrange(1, STEPS_EACH) for number in range(EVICTIONS)]
"""Where the loop stands when it is evicted. It saves every ten steps."""
DEADLINE_S = 300
SOURCES = Path(__file__).resolve().parents[3] / "client" / "src"


@pytest.fixture
def driver(tmp_path) -> Iterator[LocalDriver]:
    driver = LocalDriver(tmp_path / "jobs")
    yield driver
    driver.close()


@pytest.fixture
def template(driver) -> Template:
    resource = Resource.objects.create(name="this-machine", kind="local")
    drivers.install(resource, driver)
    probes.probe_resource(resource=resource)
    return make.make_template(resource)


def now(job: Job) -> Job:
    return Job.objects.select_related("resource", "project").get(pk=job.pk)


def wait_until(holds) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_state(job: Job, state: str) -> None:
    def look() -> bool:
        observe.observe_resource(resource_id=job.resource_id)
        return now(job).state == state

    wait_until(look)


def evict(job: Job) -> None:
    Workload.objects.filter(pk=now(job).workload_id).update(state="leaving", reason="Another queue claims its share.")
    Placement.objects.filter(workload=now(job).workload_id).update(evicting_since=clock.now())
    launches.evict_jobs()
    wait_for_state(job, "pending")


def test_each_eviction_costs_at_most_the_steps_since_the_last_checkpoint(member, project, template, driver, tmp_path):
    command = f"exec env PYTHONPATH={SOURCES} {sys.executable} {shlex.quote(training.__file__)} {STEPS} 0"
    wanted = Submission(template="this-machine.small", command=command, name="train", checkpoints=True)
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    folder = tmp_path / "jobs" / ".checkpoints" / job.checkpoint_id
    folder.mkdir(parents=True)

    told = []
    for limit in LIMITS:
        (folder / "limit").write_text(str(limit))
        make.start([now(job)])
        wait_until(lambda limit=limit: training.read_progress(folder) == limit)
        wait_for_state(job, "running")
        jobs.follow_jobs()
        harvest.read_running()
        evict(job)
        row = Checkpoint.objects.get()
        told.append(row.resumed_step)
        assert selectors.find_state(actor=member, job=now(job)).lost_s == row.lost_s >= 0
    (folder / "limit").unlink()
    make.start([now(job)])
    wait_for_state(job, "succeeded")

    result = json.loads((Path(now(job).output_folder) / "result.json").read_text())
    lost = [int(line) for line in result["lost"].split()]
    assert told == [limit // training.EVERY * training.EVERY or None for limit in LIMITS]
    assert lost == [0, *(limit % training.EVERY for limit in LIMITS)]
    assert result["weight"] == training.result_of(STEPS)
    checkpoints.delete_due()
    assert driver.list_checkpoints() == []
