"""Pages on which there is nothing yet: they offer what the reader may do, and nothing that would be refused."""

import re
from dataclasses import replace

import pytest

from config.env import ProjectCreators
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db

PAGES = ["/", "/analytics/", "/datasets/", "/experiments/", "/flows/", "/flows/new/", "/jobs/", "/jobs/new/"]


def commands_on(page: str) -> list[str]:
    return re.findall('<code tabindex="0">(nearline [^<]*)</code>', page)


@pytest.mark.parametrize("path", PAGES)
def test_who_may_write_nowhere_is_told_whom_to_ask(viewer, path):
    page = browser_of(viewer).get(path).content.decode()

    assert "Ask an admin of a project for the role of a member. Site admins create projects." in page
    assert commands_on(page) == []


@pytest.mark.parametrize("path", PAGES)
def test_who_is_in_no_project_creates_one_where_everybody_may(make_actor, path, settings):
    settings.NEARLINE = replace(settings.NEARLINE, project_creators=ProjectCreators.EVERYONE)

    page = browser_of(make_actor(None)).get(path).content.decode()

    assert "Ask an admin of a project for the role of a member, or create one:" in page
    assert set(commands_on(page)) == {"nearline project create NAME"}
