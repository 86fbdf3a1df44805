"""The project switcher: addresses say what lists show, the session remembers the last choice."""

import re
from html import unescape

import pytest
from django.test import Client

from accounts.models import Project
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(site_admin, project) -> Client:
    Project.objects.create(name="team-b")
    return browser_of(site_admin)


@pytest.fixture
def two_jobs(project, browser) -> None:
    template = make.make_template(make.make_resource()[0])
    make.submit(project, template, "job-of-a")
    make.submit(Project.objects.get(name="team-b"), template, "job-of-b")


def test_a_chosen_project_limits_its_list_and_those_that_are_opened_later(browser, two_jobs):
    chosen = browser.get("/jobs/?project=team-b").content.decode()
    later = browser.get("/datasets/")

    assert "job-of-b" in chosen
    assert "job-of-a" not in chosen
    assert (later.status_code, later["Location"]) == (302, "/datasets/?project=team-b")


def test_the_rail_leads_to_the_lists_of_the_chosen_project_also_from_elsewhere(browser):
    browser.get("/datasets/?project=team-b")

    shown = browser.get("/compute/").content.decode()

    assert 'href="/flows/?project=team-b"' in shown
    assert 'href="/settings/profile/"' in shown


def test_all_projects_is_a_choice_too(browser, two_jobs):
    browser.get("/jobs/?project=team-b")

    browser.get("/jobs/?project=")
    shown = browser.get("/jobs/")

    assert shown.status_code == 200
    assert "job-of-a" in shown.content.decode()


def test_an_address_with_other_filters_shows_what_it_says(browser, two_jobs):
    browser.get("/jobs/?project=team-b")

    shown = browser.get("/jobs/?state=pending")

    assert "job-of-a" in shown.content.decode()


def test_a_project_that_cannot_be_seen_is_not_remembered(browser):
    assert browser.get("/jobs/?project=nowhere").status_code == 404

    assert browser.get("/jobs/").status_code == 200


def test_a_chosen_project_that_is_no_more_is_forgotten(browser):
    browser.get("/jobs/?project=team-b")
    Project.objects.filter(name="team-b").delete()

    assert browser.get("/jobs/?project=team-b").status_code == 404
    assert browser.get("/jobs/").status_code == 200


@pytest.fixture
def many_projects(browser) -> None:
    Project.objects.bulk_create(Project(id=f"prj_{number}", name=f"many-{number:03}") for number in range(210))


def test_beyond_two_hundred_projects_the_switcher_leads_to_the_others(browser, many_projects):
    shown = browser.get("/jobs/?state=pending").content.decode()
    (more,) = re.findall(r'href="(/projects/\?[^"]*)"', shown)
    others = browser.get(unescape(more))

    assert "/jobs/?project=many-199" in shown
    assert "/jobs/?project=many-200" not in shown
    names = [project.name for project in others.context["projects"].items]
    assert names == [*(f"many-{number}" for number in range(200, 210)), "team-a", "team-b"]
    assert '<a href="/?project=team-b">team-b</a>' in others.content.decode()


@pytest.mark.parametrize(
    ("page", "link"),
    [("/jobs/", "/jobs/?project=many-207"), ("/settings/health/", "/?project=many-207")],
)
def test_the_switcher_finds_each_project_by_a_part_of_its_name(browser, many_projects, page, link):
    assert f'name="from" value="{page}"' in browser.get(page, {"state": "pending"}).content.decode()

    found = browser.get("/projects/", {"q": "Y-207", "from": page}, headers={"HX-Request": "true"}).content.decode()

    assert re.findall(r'href="([^"]*)"', found) == [link]


@pytest.mark.parametrize("path", ["/projects/", "/quotas/", "/jobs/", "/datasets/", "/search/"])
@pytest.mark.parametrize("name", ["q", "person", "from"])
def test_no_text_is_too_long_to_be_looked_for(browser, path, name):
    assert browser.get(path, {name: "%" * 60_000}).status_code == 200


@pytest.mark.parametrize("path", ["/datasets?q=", "/audit?person="])
def test_the_api_says_that_a_text_is_too_long_to_be_looked_for(site_admin, path):
    status, told = call(site_admin, "GET", path + "a" * 60_000)

    assert (status, told["code"]) == (400, "core.malformed_request")


def test_the_switcher_says_when_no_project_has_such_a_name(browser):
    assert "No project of yours has “zebra” in its name." in browser.get("/projects/?q=zebra").content.decode()
