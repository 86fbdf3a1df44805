"""The search box: by kind, short below the box, whole on its page, and never what one may not see."""

import pytest
from django.test import Client

from accounts.models import User
from tests.factories import compute as make

pytestmark = pytest.mark.django_db


def browser_of(actor) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=actor.user_id))
    return client


@pytest.fixture
def jobs(project) -> None:
    template = make.make_template(make.make_resource()[0])
    make.submit(project, template, *[f"train-{number}" for number in range(7)])


def test_the_list_below_the_box_is_a_part_with_the_newest_five_and_the_way_to_all(member, jobs):
    shown = browser_of(member).get("/search/?q=train", headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in shown
    assert shown.count('href="/jobs/train-') == 5
    assert 'href="/search/?q=train"' in shown


def test_the_page_shows_all_without_script(member, jobs):
    assert browser_of(member).get("/search/?q=train").content.decode().count('href="/jobs/train-') == 7


def test_a_stranger_finds_nothing(make_actor, jobs):
    shown = browser_of(make_actor(None)).get("/search/?q=train").content.decode()

    assert "Nothing that you may see" in shown
    assert "/jobs/train-" not in shown
