"""The page of a run as the server makes it: whole, in parts, for whom, and with how many queries."""

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Project
from core import clock
from flows.models import Run
from scheduler.models import Node
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.flows import World
from tests.markup import flat

pytestmark = pytest.mark.usefixtures("null_queue")

FLOW = """
flow: four
steps:
  - {name: prepare, command: "echo <b>"}
  - {name: train, after: [prepare], command: "true", grid: {lr: [0.1, 0.01]}}
  - {name: judge, after: [train], command: "true"}
"""


@pytest.fixture
def world(db, tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def run(world: World, member, project) -> Run:
    return world.start(member, project, FLOW)


@pytest.fixture
def begun(world: World, run) -> Run:
    world.turn()
    return run


def parts_in(html: str) -> dict[str, str]:
    """Return the version of each part of the page."""
    return dict(re.findall(r'data-part="(\w+)"\s+data-version="(\w+)"', html))


def ask_for_parts(client: Client, run: Run, known: dict[str, str], query: str = "") -> str:
    has = ",".join(f"{name}.{version}" for name, version in known.items())
    answer = client.get(f"/runs/{run.pk}/?{query}", headers={"HX-Request": "true", "X-Has-Parts": has})
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_page_that_has_everything_gets_nothing_and_after_a_change_what_differs(world: World, run, member):
    client = browser_of(member)
    with clock.frozen_at(run.created_at):
        known = parts_in(client.get(f"/runs/{run.pk}/?step=judge").content.decode())
        assert parts_in(ask_for_parts(client, run, known, "step=judge")) == {}

    world.turn()
    changed = parts_in(ask_for_parts(client, run, known, "step=judge"))

    assert sorted(known) == ["events", "graph_data", "head", "list", "step_body", "step_head"]
    assert {"events", "graph_data", "head", "list"} <= set(changed)
    assert "step_head" not in changed


def test_the_whole_page_and_its_parts_agree(run, member):
    client = browser_of(member)

    with clock.frozen_at(run.created_at):
        whole = parts_in(client.get(f"/runs/{run.pk}/?view=table&step=train&index=1&tab=spec").content.decode())
        asked = parts_in(ask_for_parts(client, run, {}, "view=table&step=train&index=1&tab=spec"))

    assert sorted(whole) == ["events", "head", "list", "step_body", "step_head"]
    assert asked == whole


def test_the_data_of_the_graph_are_those_of_the_run(run, member):
    page = browser_of(member).get(f"/runs/{run.pk}/").content.decode()

    data = json.loads(re.search(r'<script id="run-graph-json" type="application/json">(.*?)</script>', page)[1])

    assert [(node["id"], node["state"]) for node in data["nodes"]] == [
        ("step:prepare:0", "pending"),
        ("step:train:0", "pending"),
        ("step:train:1", "pending"),
        ("step:judge:0", "pending"),
    ]
    assert ["step:train:1", "step:judge:0"] in data["edges"]


@pytest.mark.parametrize("view", ["graph", "timeline", "table"])
@pytest.mark.parametrize("tab", ["why", "log", "inputs", "outputs", "metrics", "events", "spec"])
def test_every_tab_stands_in_every_view(begun, member, view, tab):
    page = browser_of(member).get(f"/runs/{begun.pk}/?view={view}&step=prepare&tab={tab}")

    assert page.status_code == 200
    assert f'id="tab-{tab}"' in page.content.decode()


def test_a_command_is_text(run, member):
    page = browser_of(member).get(f"/runs/{run.pk}/?step=prepare&tab=spec").content.decode()

    assert "echo &lt;b&gt;" in page


@pytest.mark.parametrize("query", ["view=pie", "step=prepare&tab=none", "step=prepare&index=x", "view=table&sort=luck"])
def test_an_address_that_makes_no_sense_is_refused_in_words(run, member, query):
    assert browser_of(member).get(f"/runs/{run.pk}/?{query}").status_code == 400


def test_why_a_step_waits_names_what_it_waits_for(world: World, run, member):
    world.turn()

    page = browser_of(member).get(f"/runs/{run.pk}/?step=judge&tab=why").content.decode()

    assert "Waits for 2 steps" in page


def test_a_step_that_waits_for_room_says_what_would_help_and_what_is_missing(world: World, run, member):
    Node.objects.update(is_drained=True)
    world.turn()
    world.turn()

    page = browser_of(member).get(f"/runs/{run.pk}/?step=prepare&tab=why").content.decode()
    [step, *_] = call(member, "GET", f"/runs/{run.pk}").body["steps"]

    assert "What would help: open node-1." in page
    assert "Nodes: 1 drained." in flat(page)
    assert (step["key"], step["advice"]) == ("prepare", "open node-1")


def test_a_failed_step_says_what_went_wrong_above_every_tab(world: World, run, member):
    world.turn()
    world.turn()
    world.finish(run, "prepare", exit_code=3)

    for tab in ("log", "spec"):
        page = browser_of(member).get(f"/runs/{run.pk}/?step=prepare&tab={tab}").content.decode()
        assert "The command exited with code 3." in page


def test_the_table_is_sorted_and_filtered_by_its_address(world: World, run, member):
    world.turn()
    world.turn()
    world.finish(run, "prepare")
    client = browser_of(member)

    def rows(query: str) -> list[str]:
        page = client.get(f"/runs/{run.pk}/?view=table&{query}").content.decode()
        return re.findall(r'data-pick="([\w:]+)"', re.search(r'id="run-list".*?</section>', page, re.DOTALL)[0])

    assert rows("") == ["prepare:0", "train:0", "train:1", "judge:0"]
    assert rows("sort=-name") == ["train:0", "train:1", "prepare:0", "judge:0"]
    assert rows("show=succeeded") == ["prepare:0"]
    assert rows("find=lr%3D0.01") == ["train:1"]
    assert rows("find=nothing") == []


def test_a_group_lists_its_members_the_worst_first(world: World, member, project):
    text = FLOW.replace("[0.1, 0.01]", str(list(range(13))))
    run = world.start(member, project, text)
    world.finish_all(run)

    page = browser_of(member).get(f"/runs/{run.pk}/?group=train").content.decode()

    assert "train, 13 times" in page
    assert page.count('id="member-train-') == 13


def test_retry_from_a_step_through_the_page(world: World, run, member):
    world.finish_all(run)
    client = browser_of(member)
    page = flat(client.get(f"/runs/{run.pk}/?step=train&index=1").content.decode())
    assert 'name="from" value="train:1"' in page
    assert "what comes after it (judge) run again" in page

    answer = client.post(f"/runs/{run.pk}/retry/", {"from": "train:1"})

    assert answer.status_code == 302
    assert Run.objects.values_list("state", "retry_key", "retry_index").get() == ("running", "train", 1)


def test_who_may_only_look_sees_no_buttons_and_may_not_retry(world: World, run, viewer):
    world.finish_all(run)
    client = browser_of(viewer)

    page = client.get(f"/runs/{run.pk}/").content.decode()

    assert "act-again" not in page
    assert "retry-form" not in page
    assert client.post(f"/runs/{run.pk}/retry/", {"from": "train"}).status_code == 403
    assert Run.objects.get().state == "succeeded"


def test_a_stranger_is_told_of_nothing(run, make_actor):
    stranger = browser_of(make_actor(None))

    assert stranger.get(f"/runs/{run.pk}/").status_code == 404
    assert stranger.get(f"/runs/{run.pk}/", headers={"HX-Request": "true"}).status_code == 404


@pytest.mark.parametrize(("query", "most"), [("", 29), ("view=timeline", 28), ("view=table&step=train&tab=inputs", 30)])
def test_the_queries_of_a_page_do_not_grow_with_the_run(world: World, member, query, most):
    client, project = browser_of(member), Project.objects.get()
    counts = []
    for size in (2, 40):
        run = world.start(member, project, FLOW.replace("[0.1, 0.01]", str(list(range(size)))))
        world.turn()
        with CaptureQueriesContext(connection) as captured:
            assert client.get(f"/runs/{run.pk}/?{query}").status_code == 200
        counts.append(len(captured))

    assert counts[0] == counts[1]
    assert counts[0] <= most
