"""The page of branches and tags: a new name is made by its form, or refused in it."""

import html

import pytest

from datasets.models import Branch, Tag
from tests.factories.datasets import commit_files
from tests.markup import flat

pytestmark = pytest.mark.django_db

PAGE = "/datasets/team-a/xrays/names/"


@pytest.fixture
def commit(member, dataset):
    return commit_files(member, dataset, {"a.png": b"a"})


def test_a_tag_is_made_by_the_form(browser, commit):
    answer = browser.post(f"{PAGE}create/", {"kind": "tag", "label": "v1", "at": "main"})

    assert answer.headers["Location"] == PAGE
    assert Tag.objects.get().commit_id == commit.pk


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ({"label": "a b"}, "'a b' cannot name a branch, a tag or a query"),
        ({"label": "main"}, "xrays has a branch or a tag called 'main' already."),
        ({"at": "none"}, "xrays has no branch, tag or commit called 'none'."),
        ({"at": ""}, "This field is required."),
        ({"kind": "other"}, "Select a valid choice."),
    ],
)
def test_a_name_that_cannot_be_made_is_refused_in_the_form(browser, commit, typed, error):
    answer = browser.post(f"{PAGE}create/", {"kind": "tag", "label": "relabelled", "at": commit.short} | typed)

    page = flat(html.unescape(answer.content.decode()))
    kept = {"label": "relabelled", "at": commit.short} | typed
    assert answer.status_code == 422
    assert error in page
    assert all(f'value="{value}"' in page for name, value in kept.items() if value and name != "kind")
    assert not Tag.objects.exists()
    assert Branch.objects.count() == 1


def test_a_commit_without_a_message_is_not_said_to_be_missing(browser, member, dataset):
    commit_files(member, dataset, {"a.png": b"a"}, message="")

    page = flat(browser.get(PAGE).content.decode())

    assert "no message" in page
    assert "no commit yet" not in page


def test_many_tags_are_paged_and_found_by_a_part_of_their_name(browser, dataset, commit):
    Tag.objects.bulk_create(Tag(dataset=dataset, name=f"v1.{number:02}", commit=commit) for number in range(60))

    first = browser.get(PAGE).context
    later = browser.get(PAGE, {"tags": first["tags"].next_cursor}).context
    part = browser.get(PAGE, {"q": "1.5"}).context

    assert [tag.name for tag in first["tags"].items] == [f"v1.{number:02}" for number in range(50)]
    assert [tag.name for tag in later["tags"].items] == [f"v1.{number:02}" for number in range(50, 60)]
    assert [branch.name for branch in later["branches"].items] == ["main"]
    assert [tag.name for tag in part["tags"].items] == [f"v1.{number:02}" for number in range(50, 60)]
    assert "No branch has “1.5” in its name." in flat(browser.get(PAGE, {"q": "1.5"}).content.decode())
