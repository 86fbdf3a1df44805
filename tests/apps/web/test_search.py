"""The search box: by kind, short below the box, whole on its page, and never what one may not see."""

import re
import shutil
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute.models import Job
from datasets.models import Commit, Dataset
from datasets.selectors import trees
from experiments.models import Experiment
from flows.models import Run
from scheduler.models import Node
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset
from web import search

pytestmark = pytest.mark.django_db


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


def find(everything, who: str, text: str) -> dict[str, list[search.Hit]]:
    """Return what somebody finds, by kind."""
    return {kind: list(hits) for kind, _, hits in search.search(everything.askers[who].actor, text)}


def with_ids(text: str) -> str:
    """Put the id of the first thing of a kind where a text says `<kind>`."""
    models = {"dataset": Dataset, "commit": Commit, "run": Run, "experiment": Experiment, "job": Job}
    return re.sub("<(.*)>", lambda match: models[match[1]].objects.order_by("created_at").first().pk, text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("XRAY", "Datasets"),
        ("<dataset>", "Datasets"),
        ("<commit>", "Commits"),
        ("FIRST OF", "Commits"),
        ("A.TXT", "Files"),
        ("digits", "Flows"),
        ("digits #1", "Runs"),
        ("#1", "Runs"),
        ("<run>", "Runs"),
        ("train", "Experiments"),
        ("<experiment>", "Experiments"),
        ("<job>", "Jobs"),
    ],
)
def test_a_member_finds_by_name_id_message_and_path_and_a_stranger_finds_none_of_it(everything, text, kind):
    member = everything.askers["member"].actor
    commit_files(member, Dataset.objects.get(name="xrays"), {"deep/a.txt": b"1"}, message="The first of all\nmore")

    assert kind in find(everything, "member", with_ids(text))
    assert set(find(everything, "stranger", with_ids(text))) <= {"Pages", "Nodes"}


@pytest.mark.parametrize("kind", ["dataset", "run", "experiment", "job"])
def test_an_id_finds_just_the_thing_that_has_it_and_leads_to_its_page(everything, kind):
    (hits,) = find(everything, "member", with_ids(f"<{kind}>")).values()

    (hit,) = hits
    assert browser_of(everything.askers["member"].actor).get(hit.url).status_code == 200


def test_the_beginning_of_a_commits_id_leads_to_its_files(everything):
    commit = Commit.objects.order_by("created_at").first()

    (hit,) = find(everything, "member", commit.pk[:6].upper())["Commits"]

    assert hit.url.endswith(f"?ref={commit.pk}")
    assert browser_of(everything.askers["member"].actor).get(hit.url).status_code == 200


def test_nodes_pages_and_settings_are_found_and_of_these_only_what_one_may_open(everything):
    node = Node.objects.order_by("-pk").first()

    assert [hit.url for hit in find(everything, "stranger", "quota")["Pages"]] == ["/quotas/", "/settings/storage/"]
    assert [hit.url for hit in find(everything, "stranger", "password")["Pages"]] == ["/settings/profile/"]
    assert "Pages" not in find(everything, "member", "users")
    assert [hit.url for hit in find(everything, "root", "users")["Pages"]] == ["/settings/people/"]
    assert f"/compute/#node-{node.pk}" in [hit.url for hit in find(everything, "stranger", node.name)["Nodes"]]


def test_a_search_asks_the_database_as_often_for_many_datasets_as_for_one(everything, django_assert_max_num_queries):
    member = everything.askers["member"].actor
    xrays = Dataset.objects.get(name="xrays")
    commit_files(member, xrays, {"a.txt": b"1"})
    with CaptureQueriesContext(connection) as few:
        assert len(find(everything, "member", "a.txt")["Files"]) == 1
    for _ in range(5):
        commit_files(member, make_dataset(member, xrays.project), {"a.txt": b"1"})

    with django_assert_max_num_queries(len(few)):
        assert len(find(everything, "member", "a.txt")["Files"]) == 6


def test_the_files_of_a_store_that_is_away_do_not_hide_the_rest(everything):
    commit_files(everything.askers["member"].actor, Dataset.objects.get(name="xrays"), {"a.txt": b"1"})
    trees.forget()
    shutil.rmtree(Path(everything.values["folder"]) / "store")

    found = find(everything, "member", "xrays")

    assert "Datasets" in found
    assert [hit.url for hit in found["Files"]] == ["/datasets/team-a/xrays/?glob=%2A%2A%2F%2Axrays%2A"]


def test_a_text_that_nobody_would_write_finds_nothing_and_breaks_nothing(everything):
    for text in ("#" * 5000, "%", "*[", "_", "'\"--"):
        assert set(find(everything, "stranger", text)) <= {"Pages", "Nodes"}
