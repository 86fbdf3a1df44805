"""The whole of compute on nodes that do not exist, with the clock in hand."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from accounts.permissions import Actor
from compute.adapters import drivers
from compute.models import Job, SimulatedJob
from compute.selectors import jobs as job_selectors
from compute.services import jobs, resources
from compute.workers import launches, moves, observe
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

OLD_FACTS = {
    "node": "n-1",
    "gpus": "",
    "command": "python train.py",
    "cpu_millicores": 1000,
    "memory_bytes": 2**30,
    "duration_s": 60.0,
    "timeout_s": None,
    "started_at": START.timestamp(),
    "stopped_at": None,
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

    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="Enough.")
    observe.observe_resource(resource_id=lab.pk)
    observe.observe_resource(resource_id=lab.pk)

    assert make.state_of(job) == "cancelled"


def test_a_look_at_a_thousand_jobs_that_ended_costs_a_statement_each(lab, project, django_assert_max_num_queries):
    names = [f"job-{number}" for number in range(1000)]
    submitted = make.submit(project, make.make_template(lab), *names, simulated_duration_s=0)
    make.place(submitted)

    launches.start_placed_jobs()
    with django_assert_max_num_queries(1100):
        observe.observe_resource(resource_id=lab.pk)

    assert Job.objects.filter(state="succeeded").count() == 1000


def test_another_process_sees_the_same_jobs_whatever_its_home_folder(lab, project, settings, tmp_path):
    [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=600)
    make.start([job])

    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path / "elsewhere")
    [report] = drivers.driver_of(lab).list_jobs()

    assert (report.name, report.token) == ("train", job.token)


def test_jobs_that_an_earlier_version_kept_in_files_go_on(lab, project, home):
    [job] = make.submit(project, make.make_template(lab), "train", simulated_duration_s=60)
    with clock.frozen_at(START) as move:
        make.start([job])
        SimulatedJob.objects.all().delete()
        folder = home / "simulated" / f"lab-{lab.pk}"
        for state, name in (("live", "train"), ("ended", "older")):
            facts = {**OLD_FACTS, "name": name, "token": job.token}
            (folder / state).mkdir(parents=True)
            (folder / state / f"{name}.json").write_text(json.dumps(facts))

        moves.move_simulated_jobs()
        moves.move_simulated_jobs()
        move(START + timedelta(seconds=61))
        observe.observe_resource(resource_id=lab.pk)

    assert make.state_of(job) == "succeeded"
    assert b"The command would be: python train.py" in drivers.driver_of(lab).read_log("older", 0, 10_000).data
    assert not folder.exists()
