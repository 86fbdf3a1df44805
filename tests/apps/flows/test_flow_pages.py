"""Pages of flows, as they are without script: start, edit, run, compare."""

import json
import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.permissions import Role
from flows.models import Flow, FlowDraft, FlowVersion, Run
from flows.services import drafts, flows
from flows.services.drafts import Writing
from tests.factories.browsers import browser_of
from tests.factories.experiments import make_run
from tests.factories.flows import World
from tests.markup import flat

FLOW = """\
flow: digits
parameters:
  epochs: {type: int, help: How long to learn.}
  optimizer: {type: str, choices: [adam, sgd], default: adam}
  note: {type: str, default: hello}
steps:
  - {name: prepare, command: prepare}
  - {name: train, command: train, after: [prepare]}
"""
EDIT = "/flows/team-a/digits/edit/"
RUN = "/flows/team-a/digits/run/"


@pytest.fixture
def browser(member) -> Client:
    return browser_of(member)


@pytest.fixture
def version(world: World, member, project) -> FlowVersion:
    return flows.save_version(actor=member, project=project, text=FLOW)


def config_of(page) -> dict:
    found = re.search(r'<script id="editor-config" type="application/json">(.*?)</script>', page.content.decode())
    return json.loads(found[1])


def test_a_new_flow_starts_from_canvas_yaml_or_an_example(world: World, browser, project):
    page = browser.get("/flows/new/").content.decode()

    starts = re.findall(r"start=([\w-]+)", page)
    assert starts == ["canvas", "yaml", "digits"]


def test_an_example_opens_with_its_text_and_its_code(world: World, browser, project):
    page = browser.get("/flows/new/?project=team-a&start=digits&draft=~1")

    config = config_of(page)
    assert (config["key"], config["example"], config["version"]["number"]) == ("~1", "digits", None)
    assert config["version"]["text"].startswith("# Handwritten digits")
    browser.post("/flows/new/", {"project": "team-a", "key": "~1", "example": "digits", "text": FLOW})
    assert FlowVersion.objects.get().bundle


def test_drafts_of_flows_that_do_not_exist_yet_are_offered_again(world: World, member, browser, project):
    drafts.keep_draft(actor=member, project=project, key="~1", writing=Writing("flow: half  # yes"), revision=0)

    page = flat(browser.get("/flows/new/").content.decode())
    assert ">half</a>" in page
    assert config_of(browser.get("/flows/new/?project=team-a&draft=~1"))["draft"]["text"] == "flow: half  # yes"


def test_a_project_of_others_offers_nothing(world: World, viewer):
    page = browser_of(viewer).get("/flows/new/?project=team-a").content.decode()

    assert "No project to write to" in page


def test_the_editor_begins_with_the_draft_and_knows_what_can_be_named(world: World, version, member, browser, project):
    drafts.keep_draft(
        actor=member, project=project, key="digits", writing=Writing("flow: mine", base_version=1), revision=0
    )

    config = config_of(browser.get(EDIT))

    assert (config["version"]["number"], config["version"]["text"]) == (1, FLOW)
    assert (config["draft"]["text"], config["draft"]["revision"]) == ("flow: mine", 1)
    assert {each["name"]: each["detail"] for each in config["templates"]}["lab.small"] == "1 CPU, 1 GiB"
    assert config["secrets"] == []
    assert config["may_write"] is True


def test_the_names_of_secrets_are_told_to_admins_only(world: World, version, make_actor, project):
    from accounts.services import secrets

    admin = make_actor(Role.ADMIN)
    secrets.set_secret(actor=admin, project=project, name="API_KEY", value="hush")

    assert config_of(browser_of(admin).get(EDIT))["secrets"] == ["API_KEY"]
    assert "API_KEY" not in browser_of(make_actor(Role.MEMBER, name="other")).get(EDIT).content.decode()


def test_a_viewer_may_look_at_the_editor_and_keep_nothing(world: World, version, viewer):
    browser = browser_of(viewer)

    assert config_of(browser.get(EDIT))["may_write"] is False
    assert browser.post(EDIT, {"text": FLOW.replace("train}", "other}"), "base": "1"}).status_code == 403
    assert FlowVersion.objects.count() == 1


def test_the_plain_form_keeps_a_version(world: World, version, browser):
    answer = browser.post(EDIT, {"text": FLOW.replace("command: train", "command: learn"), "base": "1"})

    assert answer.headers["Location"] == "/flows/team-a/digits/"
    assert FlowVersion.objects.get(number=2).spec["steps"][1]["command"] == "learn"


def test_the_plain_form_shows_problems_with_their_lines(world: World, version, browser):
    page = browser.post(EDIT, {"text": FLOW.replace("[prepare]", "[prepaer]"), "base": "1"}).content.decode()

    assert "There is no step &#x27;prepaer&#x27;. Did you mean &#x27;prepare&#x27;?" in page
    assert 'href="#line-8"' in page
    assert FlowVersion.objects.count() == 1


def test_the_plain_form_does_not_overwrite_what_somebody_else_kept(world: World, version, make_actor, browser, project):
    kim = make_actor(Role.MEMBER, name="kim")
    flows.save_version(actor=kim, project=project, text=FLOW.replace("command: train", "command: theirs"))
    mine = FLOW.replace("command: train", "command: mine")

    page = browser.post(EDIT, {"text": mine, "base": "1"}).content.decode()

    assert "kim saved version 2 while you edited" in page
    assert "command: mine" in page
    assert FlowVersion.objects.count() == 2
    browser.post(EDIT, {"text": mine, "base": re.search(r'name="base" value="(\d+)"', page)[1]})
    assert FlowVersion.objects.get(number=3).text == mine


def test_what_a_flow_says_shows_without_script(world: World, version, browser):
    page = browser.get("/flows/team-a/digits/").content.decode()

    assert '<svg class="graph' in page
    assert "command: prepare" in page
    assert f'{RUN}?version=1"' in page
    assert "must be given" in page


def test_one_click_runs_a_flow_that_needs_nothing(world: World, member, browser, project):
    flows.save_version(actor=member, project=project, text=FLOW.replace("type: int,", "type: int, default: 3,"))
    page = browser.get("/flows/team-a/digits/").content.decode()
    assert f'<form method="post" action="{RUN}"' in page

    answer = browser.post(RUN, {})

    run = Run.objects.get()
    assert answer.headers["Location"] == f"/runs/{run.pk}/"
    assert run.parameters == {"epochs": 3, "optimizer": "adam", "note": "hello"}


def test_the_form_of_a_run_says_what_is_wrong_beside_each_field(world: World, version, browser):
    filled = {"parameter:epochs": "many", "parameter:optimizer": "magic", "parameter:note": ""}

    page = browser.post(RUN, filled).content.decode()

    assert "The parameter &#x27;epochs&#x27; is not a whole number: &#x27;many&#x27;." in page
    assert "The parameter &#x27;optimizer&#x27; must be one of adam, sgd, not magic." in page
    assert 'value="many"' in page
    assert Run.objects.count() == 0
    browser.post(RUN, filled | {"parameter:epochs": "2", "parameter:optimizer": "sgd"})
    assert Run.objects.get().parameters == {"epochs": 2, "optimizer": "sgd", "note": ""}


def test_the_form_can_be_filled_like_an_earlier_run(world: World, version, member, browser):
    browser.post(RUN, {"parameter:epochs": "7", "parameter:optimizer": "sgd"})

    page = browser.get(f"{RUN}?like={Run.objects.get().pk}").content.decode()

    assert 'value="7"' in page
    assert "<option selected>sgd</option>" in page


def test_versions_are_compared_as_picture_words_and_text(world: World, version, member, browser, project):
    changed = FLOW.replace("command: train", "command: learn").replace("epochs:", "rounds:")
    flows.save_version(
        actor=member, project=project, text=f"{changed}  - {{name: report, command: r, after: [train]}}\n"
    )

    page = browser.get("/flows/team-a/digits/versions/").content.decode()

    assert "<b>+ report</b> is new" in page
    assert "<b>~ train</b> changed in command" in page
    assert "<b>~ the flow</b> changed in parameters" in page
    assert '<path class="edge added"' in page
    assert '<span class="removed">-  - {name: train, command: train, after: [prepare]}' in page


def test_a_flow_with_one_version_has_nothing_to_compare(world: World, version, browser):
    assert "There is one version so far" in browser.get("/flows/team-a/digits/versions/").content.decode()


@pytest.mark.usefixtures("version")
def test_the_pages_cost_no_more_queries_for_more_versions(member, browser, project, django_assert_max_num_queries):
    for number in range(6):
        text = FLOW.replace("command: train", f"command: t{number}")
        flows.save_version(actor=member, project=project, text=text)
        drafts.keep_draft(actor=member, project=project, key=f"~{number}", writing=Writing(text), revision=0)
    assert (Flow.objects.count(), FlowDraft.objects.count()) == (1, 6)

    for path in ("/flows/new/", EDIT, "/flows/team-a/digits/versions/", RUN):
        with django_assert_max_num_queries(20):
            assert browser.get(path).status_code == 200


def test_the_title_of_a_step_stands_in_place_of_its_name_on_the_pages_of_flow_and_run(
    world: World, browser, member, project
):
    text = "flow: titled\nsteps:\n  - {name: fit, title: Train the model, command: 'true', grid: {C: [1, 10]}}\n"
    run = world.start(member, project, text)

    flow_page = flat(browser.get("/flows/team-a/titled/").content.decode())
    run_page = flat(browser.get(f"/runs/{run.pk}/?view=table").content.decode())

    assert ">Train the model</text>" in flow_page
    assert ">Train the model C=1</a>" in run_page
    assert ">Train the model C=10</a>" in run_page


def test_who_cancels_a_run_that_has_just_ended_sees_how_it_ended(world: World, member, browser, project):
    run = world.start(member, project, FLOW.replace("type: int,", "type: int, default: 3,"))
    world.finish_all(run)

    page = browser.post(f"/runs/{run.pk}/cancel/", follow=True)

    assert page.redirect_chain == [(f"/runs/{run.pk}/", 302)]
    assert "Run #1 has ended already." in page.content.decode()


def test_a_flow_without_runs_says_how_it_is_run_by_its_name(world: World, version, browser):
    page = browser.get("/flows/team-a/digits/").content.decode()

    assert "nearline flow run team-a/digits<" in page


def test_every_run_of_a_flow_is_reached_from_its_page_and_many_cost_as_few_queries_as_one(member, project, browser):
    for number in range(1, 32):
        make_run(project, number=number)

    query, numbers, costs = "?version=1", [], []
    while query:
        with CaptureQueriesContext(connection) as queries:
            page = browser.get(f"/flows/team-a/digits/{query}")
        costs.append(len(queries))
        numbers.append([run.number for run in page.context["runs"]])
        older = re.search(r'rel="next" href="([^"]*)"', page.content.decode())
        query = unescape(older[1]) if older else ""

    assert numbers == [list(range(31, 16, -1)), list(range(16, 1, -1)), [1]]
    assert costs[1] == costs[2]  # of fifteen runs and of one
