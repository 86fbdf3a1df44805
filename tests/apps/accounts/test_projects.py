"""Who may create projects: a setting."""

from dataclasses import replace

import pytest

from accounts.errors import PermissionDenied
from accounts.models import Membership, Project
from accounts.services import projects
from config.env import ProjectCreators
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def _everyone_may(settings):
    settings.NEARLINE = replace(settings.NEARLINE, project_creators=ProjectCreators.EVERYONE)


def page_of(actor, path: str) -> str:
    browser = browser_of(actor)
    return browser.get(path).content.decode()


def test_a_viewer_creates_no_project_and_is_offered_none(viewer):
    with pytest.raises(PermissionDenied, match="Only a site admin may create projects") as refused:
        projects.create_project(actor=viewer, name="team-b")

    assert "site admin" in refused.value.hint
    assert not Project.objects.filter(name="team-b").exists()
    assert "New project" not in page_of(viewer, "/settings/members/")


def test_who_is_in_no_project_is_told_who_creates_one(make_actor):
    page = page_of(make_actor(None), "/settings/profile/")

    assert "Site admins create projects." in page
    assert "nearline project create" not in page


def test_a_site_admin_creates_a_project(site_admin):
    project = projects.create_project(actor=site_admin, name="team-b")

    assert Membership.objects.get(project=project).user.username == "root"
    assert "New project" in page_of(site_admin, "/settings/members/")


@pytest.mark.usefixtures("_everyone_may")
def test_everyone_creates_projects_where_the_settings_say_so(make_actor):
    stranger = make_actor(None)

    assert "nearline project create NAME" in page_of(stranger, "/settings/profile/")
    project = projects.create_project(actor=stranger, name="team-b")

    assert Membership.objects.get(project=project).role == "admin"
