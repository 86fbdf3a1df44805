"""Jobs of a higher priority go first within their project; the usual priorities have names."""

from dataclasses import replace

import pytest

from accounts.models import Project
from compute.models import Job
from compute.selectors import outlooks
from compute.services import submissions, trials
from compute.services.submissions import Submission
from compute.workers import forecasts
from scheduler.services import pool_members
from scheduler.workers import cycle
from tests.factories.api import call

pytestmark = pytest.mark.django_db

WANTED = Submission(template="scripted.small", command="python train.py", name="train", priority=75)
BODY = {"project": "team-a", "template": "scripted.small", "command": "true"}


@pytest.fixture
def full(template, project) -> None:
    """Make each job as large as the only node."""
    pool_members.ensure_queues([project.pk])
    template.cpu_millicores = 8000
    template.save()


def submit(member, project: Project, name: str, priority: int) -> Job:
    return submissions.submit_job(
        actor=member, project=project, submission=replace(WANTED, name=name, priority=priority)
    )


def states() -> dict[str, str]:
    return dict(Job.objects.order_by("pk").values_list("name", "workload__state"))


def test_of_those_that_wait_the_one_of_a_higher_priority_goes_first(member, project, full):
    submit(member, project, "older", 50)
    submit(member, project, "urgent", 51)

    cycle.run_once()

    assert states() == {"older": "pending", "urgent": "placed"}


def test_it_takes_the_place_of_a_lower_one_of_its_project(member, project, full):
    submit(member, project, "older", 50)
    cycle.run_once()
    submit(member, project, "urgent", 51)

    cycle.run_once()

    assert states() == {"older": "leaving", "urgent": "pending"}


def test_it_takes_nothing_from_another_project(member, site_admin, project, full):
    other = Project.objects.create(name="team-b")
    pool_members.ensure_queues([other.pk])
    submit(site_admin, other, "theirs", 50)
    cycle.run_once()
    submit(member, project, "urgent", 1000)

    cycle.run_once()

    assert states() == {"theirs": "placed", "urgent": "pending"}


def test_who_waits_behind_it_is_told_so(member, project, full):
    submit(member, project, "holder", 52)
    submit(member, project, "older", 50)
    cycle.run_once()
    urgent = submit(member, project, "urgent", 51)

    forecasts.update_forecasts()

    older = Job.objects.get(name="older")
    held = outlooks.find_outlooks(actor=member, jobs=[older])[older.pk].holders
    assert [(each.job, each.is_ahead, each.has_priority) for each in held if each.is_ahead] == [
        (urgent.name, True, True)
    ]


def test_a_trial_says_whom_it_would_stop(member, project, full):
    submit(member, project, "older", 50)
    cycle.run_once()

    trial = trials.try_job(actor=member, project=project, submission=replace(WANTED, name="urgent", priority=51))

    assert [stop.job for stop in trial.outlook.stops] == ["older"]
    assert states() == {"older": "placed"}


def test_a_job_that_is_submitted_again_has_the_same_priority(member, project, template):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)

    assert submissions.rerun_job(actor=member, job=job, name="again").priority == 75


@pytest.mark.usefixtures("project", "template")
@pytest.mark.parametrize(("said", "meant", "name"), [("build", 100, "build"), (0, 0, ""), (1000, 1000, "")])
def test_it_is_asked_for_by_name_or_by_number(member, said, meant, name):
    answer = call(member, "POST", "/compute/jobs", {**BODY, "priority": said})

    assert (answer.status, answer.body["priority"]) == (201, meant)
    assert Job.objects.get().priority_name == name


@pytest.mark.parametrize("said", ["urgent", -1, 1001, 1.5, True, None])
def test_what_is_no_priority_is_refused(member, project, template, said):
    answer = call(member, "POST", "/compute/jobs", {**BODY, "priority": said})

    assert (answer.status, Job.objects.count()) == (400, 0)
