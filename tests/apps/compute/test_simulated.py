"""The whole of compute on nodes that do not exist, with the clock in hand."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.services import jobs, resources
from compute.workers import launches, observe
from core import clock
from tests.factories import compute as make

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
NODE = {
    "name": "n-1",
    "cpu_millicores": 10**7,
    "memory_bytes": 2**50,
    "gpus": 1,
    "gpu_model": "V100",
    "gpu_memory_bytes": 2**35,
}


@pytest.fixture
def lab(db, home, site_admin):
    return resources.attach_resource(actor=site_admin, name="lab", kind="simulated", config={"nodes": [NODE]})


def test_a_simulated_job_takes_its_time_and_succeeds(lab, project):
    template = make.make_template(lab)
    with clock.frozen_at(START) as move:
        [job] = make.submit(project, template, "train", simulated_duration_s=60)
        make.start([job])
        move(START + timedelta(seconds=59))
        observe.observe_resource(resource_id=lab.pk)
        before = make.state_of(job)
        move(START + timedelta(seconds=61))
        observe.observe_resource(resource_id=lab.pk)

    job.refresh_from_db()
    assert (before, job.state) == ("running", "succeeded")
    assert job.finished_at - job.started_at == timedelta(seconds=60)


def test_its_log_says_that_nothing_is_executed(lab, project, viewer):
    [job] = make.submit(project, make.make_template(lab), "train", command="python train.py", simulated_duration_s=0)
    make.start([job], gpus=[[0, 500]])
    job.refresh_from_db()

    log = job_selectors.read_log(actor=viewer, job=job)

    assert log.data.decode().splitlines() == [
        "[simulated] This job is simulated: nothing is executed, and its node does not exist.",
        "[simulated] Node n-1, GPUs 0 (0.5), for 0 s.",
        "[simulated] The command would be: python train.py",
        "[simulated] The simulated job succeeds.",
    ]
    assert log.is_complete


@pytest.mark.parametrize(
    ("spec", "state", "reason_code"),
    [({"timeout_s": 10}, "failed", "timeout"), ({"timeout_s": 100}, "succeeded", "")],
)
def test_a_simulated_job_has_a_timeout(lab, project, spec, state, reason_code):
    with clock.frozen_at(START) as move:
        [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=60, **spec)
        make.start([job])
        move(START + timedelta(seconds=61))
        observe.observe_resource(resource_id=lab.pk)

    job.refresh_from_db()
    assert (job.state, job.reason_code) == (state, reason_code)


def test_a_simulated_job_can_be_cancelled(lab, project):
    [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=600)
    make.start([job])

    jobs.cancel_many(job_ids=[job.pk], reason="Enough.")
    observe.observe_resource(resource_id=lab.pk)
    observe.observe_resource(resource_id=lab.pk)

    assert make.state_of(job) == "cancelled"


def test_a_thousand_simulated_jobs_are_started_and_observed_quickly(lab, project):
    names = [f"job-{number}" for number in range(1000)]
    submitted = make.submit(project, make.make_template(lab), *names, simulated_duration_s=0)
    make.place(submitted)

    launches.start_placed_jobs()
    begun = time.process_time()
    observe.observe_resource(resource_id=lab.pk)
    observing_s = time.process_time() - begun

    assert Job.objects.filter(state="succeeded").count() == 1000
    assert observing_s < 1.5  # benchmarks hold the claim; this catches a lost order of magnitude
