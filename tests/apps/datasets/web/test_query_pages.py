"""The pages of saved queries: made, looked at, made into a commit, deleted."""

import html

import pytest

from datasets.models import Commit, Query
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files
from tests.markup import flat

pytestmark = pytest.mark.django_db

PAGE = "/datasets/team-a/xrays/queries/"


@pytest.fixture
def commit(member, dataset):
    return commit_files(member, dataset, {"a.png": b"a" * 2000, "b/c d.png": b"c", "notes.txt": b"n"})


def test_a_query_is_made_by_a_form_and_shows_what_it_selects(browser, commit):
    answer = browser.post(
        PAGE, {"name": "pictures", "globs": "*.png\r\n\r\nb/**", "types": "png, jpg", "max_size_bytes": "1 kB"}
    )

    assert answer.headers["Location"] == f"{PAGE}pictures/"
    assert Query.objects.get().conditions == {
        "globs": ["*.png", "b/**"],
        "types": ["png", "jpg"],
        "max_size_bytes": 1000,
    }
    page = flat(browser.get(f"{PAGE}pictures/").content.decode())
    assert f'?ref={commit.id}&amp;file=b/c%20d.png">b/c d.png</a>' in page
    assert "a.png</a>" not in page
    assert "1 of 3 files, 1 B" in page
    assert "nearline data clone team-a/xrays@main:pictures" in page


def test_a_size_that_is_none_is_said_so_and_what_was_typed_stays(browser, commit):
    page = flat(
        browser.post(PAGE, {"name": "pictures", "contains": "x-ray", "min_size_bytes": "huge"}).content.decode()
    )

    assert "&#x27;huge&#x27; is not a size." in page
    assert 'value="x-ray"' in page
    assert not Query.objects.exists()


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ({"name": "a b"}, "'a b' cannot name a branch, a tag or a query"),
        ({"regex": "("}, "The regular expression cannot be used."),
        ({"ref": "none"}, "xrays has no branch, tag or commit called 'none'."),
    ],
)
def test_what_is_no_query_is_refused_in_the_form(browser, commit, typed, error):
    answer = browser.post(PAGE, {"name": "pictures", "contains": "x-ray"} | typed)

    page = flat(html.unescape(answer.content.decode()))
    assert answer.status_code == 422
    assert error in page
    assert 'value="x-ray"' in page
    assert not Query.objects.exists()


def test_what_is_selected_becomes_a_commit_that_the_page_links(browser, commit):
    browser.post(PAGE, {"name": "pictures", "types": "png"})

    answer = browser.post(f"{PAGE}pictures/select/", {"ref": "main"})

    made = Commit.objects.get(source="query")
    assert answer.headers["Location"] == f"/datasets/team-a/xrays/?ref={made.id}"
    page = flat(browser.get(f"{PAGE}pictures/").content.decode())
    assert "2 of 3 files, 2.0 kB, as commit" in page
    # It is on no branch, so the dataset has as many commits as before.
    assert 'id="commits-count">1</span>' in page


def test_who_may_only_read_sees_queries_and_no_way_to_change_them(browser, viewer, commit):
    browser.post(PAGE, {"name": "pictures", "types": "png"})

    page = browser_of(viewer).get(PAGE).content.decode()

    assert ">pictures</a>" in page
    assert "New query" not in page
    assert "Delete" not in page


def test_a_query_is_deleted(browser, commit):
    browser.post(PAGE, {"name": "pictures", "types": "png"})

    answer = browser.post(f"{PAGE}pictures/delete/")

    assert answer.headers["Location"] == PAGE
    assert not Query.objects.exists()
    assert "No query yet" in browser.get(PAGE).content.decode()
