"""The hub: what it lists, by what it filters and sorts, and that it costs the same for any number of rows."""

import re

import pytest

from datasets.models import Dataset
from datasets.services import datasets
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset
from tests.markup import read_form

pytestmark = pytest.mark.django_db


def names(answer) -> list[str]:
    return re.findall(r'href="/datasets/team-a/([a-z0-9-]+)/"', answer.content.decode())


@pytest.fixture
def three(member, project, store_row):
    """Three datasets of different size, type and age."""
    for name, kind, size in (("alpha", "images", 30), ("beta", "text", 10), ("gamma", "images", 20)):
        made = datasets.create_dataset(actor=member, project=project, name=name, description=f"about {name}", kind=kind)
        commit_files(member, made, {f"{number}": b"x" * size for number in range(size)}, message=f"first {name}")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("project=", ["gamma", "beta", "alpha"]),
        ("sort=name", ["alpha", "beta", "gamma"]),
        ("sort=-size", ["alpha", "gamma", "beta"]),
        ("sort=files", ["beta", "gamma", "alpha"]),
        ("sort=changed", ["alpha", "beta", "gamma"]),
        ("kind=images&sort=name", ["alpha", "gamma"]),
        ("q=about+beta", ["beta"]),
        ("cached=yes", []),
        ("cached=no&sort=name", ["alpha", "beta", "gamma"]),
        ("cached=local", []),
        ("project=other", []),
    ],
)
def test_rows_are_filtered_and_sorted(browser, three, query, expected):
    assert names(browser.get(f"/datasets/?{query}")) == expected


@pytest.mark.parametrize("sort", ["-new", "name", "-size", "files", "changed"])
def test_pages_follow_any_order_without_losing_or_repeating_a_row(browser, three, monkeypatch, sort):
    from datasets.web import hub

    whole = names(browser.get(f"/datasets/?sort={sort}"))
    monkeypatch.setattr(hub, "_ROWS", 1)

    seen, url = [], f"/datasets/?sort={sort}"
    while url:
        answer = browser.get(url)
        seen += names(answer)
        found = re.search(r'rel="next" href="([^"]+)"', answer.content.decode())
        url = f"/datasets/{found[1].replace('&amp;', '&')}" if found else ""

    assert seen == whole


def test_more_rows_cost_no_more_queries(browser, member, project, three, count_queries):
    few = count_queries(browser, "/datasets/?project=")
    for _ in range(10):
        commit_files(member, make_dataset(member, project), {"a": b"a"})

    assert count_queries(browser, "/datasets/?project=") == few


def test_an_unknown_order_is_told(browser):
    answer = browser.get("/datasets/?sort=colour")

    assert (answer.status_code, "cannot be sorted by" in answer.content.decode()) == (400, True)


def test_a_dataset_is_made_by_the_form(browser, project, store_row):
    answer = browser.post(
        "/datasets/new/", {"project": "team-a", "name": "scans", "kind": "images", "description": "x"}
    )

    made = Dataset.objects.get()
    assert (answer.headers["Location"], made.name, made.kind) == ("/datasets/team-a/scans/", "scans", "images")


@pytest.mark.usefixtures("project", "store_row")
@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("name", "Not a name", "'Not a name' cannot be a name."),
        ("name", "a\0", "Null characters are not allowed."),
        ("description", "x" * 2001, "Ensure this value has at most 2000 characters (it has 2001)."),
    ],
)
def test_a_refused_dataset_stands_in_its_dialog_with_the_reason(browser, field, typed, words):
    fields = {"project": "team-a", "name": "scans", "kind": "images", "description": "x", field: typed}

    answer = browser.post("/datasets/new/", fields)

    page = answer.content.decode()
    assert answer.status_code == 422
    assert '<dialog id="new-dataset" data-opens-now' in page
    shown, errors = read_form(page, "/datasets/new/")
    assert shown == fields
    assert errors.keys() == {field}
    assert errors[field].startswith(words)
    assert not Dataset.objects.exists()


def test_a_project_without_datasets_says_how_to_begin_and_a_filter_that_nothing_matches_says_so(browser, project):
    chosen = browser.get("/datasets/?project=team-a").content.decode()
    filtered = browser.get("/datasets/?project=team-a&q=lung").content.decode()

    assert "team-a has none." in chosen
    assert "nearline data sync" in chosen
    assert "No dataset matches" in filtered


def test_an_empty_hub_says_how_to_begin_to_those_who_may(browser, viewer):
    page, seen_by_viewer = (who.get("/datasets/?project=").content.decode() for who in (browser, browser_of(viewer)))

    assert "No datasets yet" in page
    assert "nearline data init" in page
    assert "No datasets yet" in seen_by_viewer
    assert "nearline data" not in seen_by_viewer
    assert "New dataset" not in seen_by_viewer
