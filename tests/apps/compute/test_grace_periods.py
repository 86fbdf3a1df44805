"""A job that is to end has the time between SIGTERM and SIGKILL that it asked for, within an admin's limit."""

from dataclasses import replace

import pytest

from compute.errors import InvalidJobSpec
from compute.models import Job
from compute.services import jobs, submissions, suspensions
from compute.services.submissions import Submission
from compute.workers import launches, observe
from scheduler.models import Workload
from tests.factories import compute as make
from tests.factories.api import call

pytestmark = pytest.mark.django_db

WANTED = Submission(template="scripted.small", command="python train.py", name="train", grace_period_s=45)


@pytest.fixture
def job(project, template) -> Job:
    """Return a job that runs and has 45 seconds."""
    [job] = make.submit(project, template, "train", grace_period_s=45)
    make.start([job])
    return Job.objects.get(pk=job.pk)


def test_it_has_that_time_when_it_is_evicted(job, driver):
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Another queue claims its share.")

    launches.evict_jobs()

    assert driver.jobs.graces_s == {"train": 45}


@pytest.mark.parametrize("end", [suspensions.suspend_job, jobs.cancel_job])
def test_it_has_that_time_when_a_person_stops_it(job, member, driver, end):
    end(actor=member, job=job)

    launches.stop_ending_jobs()

    assert driver.jobs.graces_s == {"train": 45}


def test_a_stop_that_did_not_arrive_is_repeated_with_that_time(job, member, driver):
    suspensions.suspend_job(actor=member, job=job)

    observe.observe_resource(resource_id=job.resource_id)

    assert driver.jobs.graces_s == {"train": 45}


def test_without_a_word_it_has_ten_seconds(project, template, member, driver):
    [job] = make.submit(project, template, "train")
    make.start([job])
    jobs.cancel_job(actor=member, job=job)

    launches.stop_ending_jobs()

    assert driver.jobs.graces_s == {"train": 10}


def test_more_than_an_admin_allows_is_refused(member, project, template):
    with pytest.raises(InvalidJobSpec, match="400 s is longer than the 300 s that this installation allows"):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, grace_period_s=400))

    assert not Job.objects.exists()


def test_a_step_gets_no_more_than_an_admin_has_come_to_allow(project, template, settings):
    settings.NEARLINE = replace(settings.NEARLINE, max_grace_period_s=20)

    [job] = make.submit(project, template, "train", grace_period_s=45)

    assert (job.grace_period_s, job.spec["grace_period_s"]) == (20, 20)


def test_a_job_that_is_submitted_again_has_the_same_time(member, project, template):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)

    assert submissions.rerun_job(actor=member, job=job, name="again").grace_period_s == 45


def test_it_is_asked_for_over_the_api(member, project, template):
    body = {"project": project.name, "template": "scripted.small", "command": "true", "name": "train"}

    answer = call(member, "POST", "/compute/jobs", {**body, "grace_period_s": 30})
    refused = call(member, "POST", "/compute/jobs", {**body, "name": "second", "grace_period_s": 301})

    assert (answer.status, Job.objects.get(name="train").grace_period_s) == (201, 30)
    assert (refused.status, refused.body["code"]) == (400, "compute.invalid_job_spec")
