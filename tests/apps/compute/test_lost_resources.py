"""What people see of a resource that does not answer, and of its jobs."""

from datetime import UTC, datetime

import pytest

from compute.models import Resource
from compute.workers import observe
from core import clock
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.markup import flat

pytestmark = pytest.mark.django_db

CONTACT_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def browser(site_admin):
    return browser_of(site_admin)


@pytest.fixture
def lost(project, template, resource, driver):
    """A resource that was lost while one of its jobs ran and another waited."""
    running, _ = make.submit(project, template, "train", "later")
    make.start([running])
    Resource.objects.filter(pk=resource.pk).update(last_contact_at=CONTACT_AT)
    driver.is_away = True
    with clock.frozen_at(CONTACT_AT.replace(hour=13)):
        observe.observe_resource(resource_id=resource.pk)
    return driver


def test_a_resource_that_does_not_answer_is_shown_as_lost_with_its_last_contact(lost, browser):
    with clock.frozen_at(CONTACT_AT.replace(hour=13)):
        page = flat(browser.get("/compute/").content.decode())

    assert ">Lost<" in page
    assert "last contact<time" in page
    assert ">1 h ago</time>" in page
    assert "<p>The scripted resource is away.</p>" in page
    assert "How its jobs stand is unknown until it answers; they are not failed." in page


def test_a_job_that_ran_there_is_shown_as_unknown_and_one_that_waits_as_pending(lost, browser):
    page = flat(browser.get("/jobs/").content.decode())

    why = "scripted does not answer. The job was running at the last contact, and may still be."
    assert page.count(">Unknown<") == 1
    assert page.count(why) == 1
    assert why in flat(browser.get("/jobs/train/").content.decode())


def test_the_page_of_a_job_there_says_that_its_usage_cannot_be_read(lost, browser):
    page = flat(browser.get("/jobs/train/").content.decode())

    assert "<b>What it uses cannot be read now</b><p>scripted, where it ran, does not answer.</p>" in page


def test_the_api_keeps_the_last_known_state_and_says_that_it_is_unknown(lost, site_admin):
    items = call(site_admin, "GET", "/compute/jobs").body["items"]

    assert [(job["name"], job["state"], job["is_unknown"]) for job in items] == [
        ("later", "pending", False),
        ("train", "running", True),
    ]


def test_once_the_resource_answers_its_jobs_are_known_again(lost, browser, resource):
    lost.is_away = False
    observe.observe_resource(resource_id=resource.pk)

    assert ">Unknown<" not in browser.get("/jobs/").content.decode()


def test_a_job_whose_start_nobody_answered_says_so(project, template, driver):
    (job,) = make.submit(project, template, "train")
    driver.is_away = True

    make.start([job])

    job.refresh_from_db()
    assert (job.state, job.reason) == (
        "starting",
        "Its start was not answered: The scripted resource is away.",
    )
    assert job.events.order_by("-seq").values_list("message", flat=True)[0] == job.reason
