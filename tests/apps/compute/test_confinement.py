"""Who may run jobs on a resource whose jobs no sandbox keeps from the platform's files."""

from dataclasses import replace

import pytest

from accounts.models import User
from compute.errors import NoResourceFits, ResourceUnconfined
from compute.models import Job
from compute.selectors import resources
from compute.services import submissions
from compute.services.submissions import Submission
from compute.workers import launches, probes
from tests.factories import compute as make
from tests.factories.api import call

pytestmark = pytest.mark.django_db

REASON = "Namespaces for users cannot be made: Operation not permitted."
WANTED = Submission(template="scripted.small", command="cat secret.key", name="spy")


@pytest.fixture
def unconfined(resource, driver, template):
    """Let the resource say that it cannot confine jobs."""
    driver.nodes = [replace(node, unconfined_reason=REASON) for node in driver.nodes]
    probes.probe_resource(resource=resource)
    return resource


def test_a_member_may_not_submit_a_job_and_is_told_why(member, project, unconfined):
    with pytest.raises(ResourceUnconfined, match=f"only site admins may run them: {REASON}"):
        submissions.submit_job(actor=member, project=project, submission=WANTED)

    assert not Job.objects.exists()


def test_nor_one_that_names_no_template(member, project, unconfined):
    with pytest.raises(NoResourceFits, match=f"only site admins may run them: {REASON}"):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, template="", gpu_milli=0))

    assert not Job.objects.exists()


def test_a_site_admin_may(site_admin, project, unconfined):
    assert submissions.submit_job(actor=site_admin, project=project, submission=WANTED).state == "pending"


def test_everybody_may_where_the_setting_says_so(member, project, unconfined, settings):
    settings.NEARLINE = replace(settings.NEARLINE, allow_unconfined_jobs=True)

    assert submissions.submit_job(actor=member, project=project, submission=WANTED).state == "pending"


def test_everybody_may_once_the_resource_confines_jobs_again(member, project, unconfined, driver):
    driver.nodes = [replace(node, unconfined_reason="") for node in driver.nodes]
    probes.probe_resource(resource=unconfined)

    assert submissions.submit_job(actor=member, project=project, submission=WANTED).state == "pending"


def test_a_job_that_waited_while_confinement_was_lost_fails_instead_of_starting(
    member, project, resource, driver, template
):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)
    driver.nodes = [replace(node, unconfined_reason=REASON) for node in driver.nodes]
    probes.probe_resource(resource=resource)

    make.place([job])
    launches.start_placed_jobs()

    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "user_error")
    assert REASON in job.reason
    assert driver.jobs.started == {}


def test_jobs_of_the_platform_itself_start(project, unconfined, template):
    (job,) = make.submit(project, template, "own")

    make.start([job])

    assert make.state_of(job) == "running"


def test_the_start_tells_it_in_the_terminal(unconfined):
    (text,) = resources.describe_unconfined()

    assert text == (
        f"Jobs on scripted are not confined: {REASON}\n"
        "They can read and change the platform's files. Only site admins may run them."
    )


def test_the_compute_page_and_the_api_say_so(client, member, unconfined):
    client.force_login(User.objects.get(pk=member.user_id))

    page = client.get("/compute/").content.decode()
    _, answer = call(member, "GET", "/compute/resources")

    assert REASON in page
    assert "Only site admins may run them." in page
    assert [item["unconfined_reason"] for item in answer["items"]] == [REASON]
