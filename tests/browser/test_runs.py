"""The page of a run: watched to its end, read by keyboard, and a log of 100 MB."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

GATE = "until [ -e {gate} ]; do sleep 0.05; done"
WATCHED = """
flow: watched
parameters:
  greeting: {{type: str, default: hello}}
steps:
  - {{name: first, command: "{gate}; echo ${{{{ parameters.greeting }}}}"}}
  - {{name: fan, after: [first], command: "true", grid: {{seed: [{seeds}]}}}}
  - {{name: last, after: [fan], command: "echo done > $NEARLINE_OUTPUT/note.txt"}}
"""
WAITING = """
flow: waiting
steps:
  - {{name: only, command: "{gate}"}}
"""
LINE = "line {:08} of a very long log, which goes on and on until it holds one hundred megabytes of text\n"
LOG_BYTES = 100_000_000


def start(product, text: str, name: str) -> dict:
    product.api("POST", "/flows", {"project": "demo", "text": text})
    return product.api("POST", f"/flows/demo/{name}/runs", {"parameters": {}})


@pytest.fixture(scope="module")
def done_run(product, sample) -> dict:
    """A run of three steps that has succeeded."""
    text = WATCHED.format(gate="true", seeds="1, 2").replace("flow: watched", "flow: done")
    run = start(product, text, "done")
    return product.wait_for(
        lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["state"] in {"succeeded", "failed"}
    )


def test_labels_of_the_time_line_stand_apart_at_each_width(open_page, admin_state, done_run, manage):
    page = open_page(admin_state).page
    manage(
        "from datetime import timedelta; from flows.models import Run;"
        f"run = Run.objects.get(id={done_run['id']!r}); run.created_at = run.finished_at - timedelta(seconds=90);"
        "run.save(update_fields=['created_at']); print('moved')"
    )
    page.goto(f"/runs/{done_run['id']}/?view=timeline")
    for width in (1440, 1101, 390):
        page.set_viewport_size({"width": width, "height": 900})
        labels = page.evaluate(
            "[...document.querySelectorAll('.axis text')].map(label => label.getBoundingClientRect())"
            ".filter(({width}) => width > 0).map(({left, right}) => [left, right])"
        )
        assert len(labels) > 1
        assert all(end < start for (_, end), (start, _) in pairwise(labels)), (width, labels)


def test_the_buttons_of_the_graph_cover_no_step_at_each_width(open_page, admin_state, done_run):
    page = open_page(admin_state).page
    for width in (1440, 420, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"/runs/{done_run['id']}/")
        page.locator(".react-flow__node").first.wait_for()

        foot = page.locator(".react-flow__controls").evaluate("buttons => buttons.getBoundingClientRect().top")
        ends = page.locator(".react-flow__node").evaluate_all(
            "nodes => nodes.map(node => node.getBoundingClientRect().bottom)"
        )
        assert [end for end in ends if end > foot] == [], width


def test_a_refused_run_form_gives_the_focus_back_to_its_button(open_page, admin_state, product, sample):
    text = "flow: refused\nparameters:\n  epochs: {type: int, default: 1}\nsteps:\n  - {name: one, command: 'true'}\n"
    product.api("POST", "/flows", {"project": "demo", "text": text})
    page = open_page(admin_state).page
    page.goto("/flows/demo/refused/")
    button = page.get_by_role("link", name="Run with other values")

    button.press("Enter")
    page.get_by_role("dialog").get_by_label("epochs").fill("many")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("is not a whole number: 'many'")
    page.keyboard.press("Escape")

    expect(button).to_be_focused()


def test_a_run_is_watched_to_its_end_without_a_reload(open_page, admin_state, product, sample):
    gate = product.home.parent / "gate"  # where jobs may look
    run = start(product, WATCHED.format(gate=GATE.format(gate=gate), seeds=", ".join(map(str, range(14)))), "watched")
    page = open_page(admin_state).page
    page.goto(f"/runs/{run['id']}/")
    page.evaluate("window.isTheSamePage = true")
    graph = page.get_by_label("Graph of the run")
    expect(graph.get_by_role("button", name=re.compile("^first, .*Running"))).to_be_visible()
    expect(graph.get_by_role("button", name=re.compile("^fan, 14 times, .*Pending"))).to_be_visible()

    gate.touch()

    expect(page.locator(".head .pill").first).to_contain_text("Succeeded")
    expect(graph.get_by_role("button", name=re.compile("^first, .*Succeeded"))).to_be_visible()
    expect(graph.get_by_role("button", name=re.compile("^fan, 14 times, .*Succeeded"))).to_be_visible()
    expect(page.locator("#run-list .track g.succeeded")).to_have_count(3)
    expect(page.locator("#run-events")).to_contain_text("Succeeded.")
    assert page.evaluate("window.isTheSamePage") is True


def test_a_log_that_is_read_stays_when_the_run_is_cancelled(open_page, admin_state, product, sample):
    text = WAITING.format(gate="echo begun; sleep 600").replace("flow: waiting", "flow: cancelled")
    run = start(product, text, "cancelled")
    page = open_page(admin_state).page
    product.wait_for(
        lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["steps"][0]["state"] == "running"
    )
    page.goto(f"/runs/{run['id']}/")
    expect(page.locator("log-view")).to_contain_text("begun")

    product.api("POST", f"/runs/{run['id']}/cancel", {})

    expect(page.locator("#run-step-head .pill")).to_contain_text("Cancelled")
    expect(page.locator("#tab-log")).to_have_attribute("aria-current", "page")
    expect(page.locator("log-view")).to_contain_text("begun")


def test_all_tabs_of_a_step_are_in_sight_beside_the_graph(open_page, admin_state, done_run):
    page = open_page(admin_state, width=1280).page
    page.goto(f"/runs/{done_run['id']}/?step=fan&index=1")

    assert page.locator("#run-step .tabs").evaluate("row => row.scrollWidth <= row.clientWidth")


def test_a_step_is_chosen_and_read_by_keyboard(open_page, admin_state, done_run):
    page = open_page(admin_state).page
    page.goto(f"/runs/{done_run['id']}/")
    node = page.get_by_label("Graph of the run").get_by_role("button", name=re.compile("^fan seed=2"))
    node.focus()

    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="fan seed=2")).to_be_visible()
    expect(page.locator("#run-step")).to_be_focused()
    assert "step=fan&index=1" in page.url
    page.keyboard.press("Escape")
    expect(node).to_be_focused()

    page.locator("#tab-inputs").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#run-step-body")).to_contain_text("Outputs of")
    expect(page.locator("#tab-inputs")).to_be_focused()
    page.go_back()
    expect(page.locator("#tab-log")).to_have_attribute("aria-current", "page")
    page.goto(page.url)
    expect(page.get_by_role("heading", name="fan seed=2")).to_be_visible()


def test_a_step_that_is_chosen_while_the_page_updates_itself_is_shown(open_page, admin_state, done_run):
    page = open_page(admin_state).page
    page.goto(f"/runs/{done_run['id']}/")
    node = page.get_by_label("Graph of the run").get_by_role("button", name=re.compile("^fan seed=2"))
    expect(node).to_be_visible()
    held = []

    def hold(route) -> None:
        held.append(route)

    page.route("**/runs/**", hold, times=1)
    with page.expect_request("**/runs/**"):
        page.evaluate("document.getElementById('run-live').dispatchEvent(new CustomEvent('live'))")

    node.focus()
    page.keyboard.press("Enter")
    held[0].continue_()

    expect(page.get_by_role("heading", name="fan seed=2")).to_be_visible()
    expect(page.locator("#run-step")).to_be_focused()


def test_outputs_are_shown_and_a_run_is_started_again_with_changes(open_page, admin_state, done_run):
    page = open_page(admin_state).page
    page.goto(f"/runs/{done_run['id']}/?step=last&tab=outputs")

    page.get_by_role("link", name="note.txt", exact=True).click()
    expect(page.locator(".preview pre")).to_have_text("done\n")
    page.wait_for_load_state()  # before that no script runs, and its link opens no dialog
    page.get_by_role("link", name="Run again").click()
    field = page.get_by_role("dialog").get_by_label("greeting")
    expect(field).to_have_value("hello")
    field.fill("good evening")
    page.get_by_role("dialog").get_by_role("button", name="Run").click()

    page.wait_for_url(re.compile(rf"/runs/run_(?!{done_run['id'].removeprefix('run_')})"))
    expect(page.get_by_role("cell", name="good evening")).to_be_visible()


def test_a_step_is_tried_again_with_what_comes_after_it(open_page, admin_state, done_run):
    page = open_page(admin_state).page
    page.goto(f"/runs/{done_run['id']}/?step=fan&index=1")

    page.get_by_role("button", name="Retry from here").click()
    expect(page.get_by_role("dialog")).to_contain_text("what comes after it (last) run again")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Retry from fan")).click()

    expect(page.locator(".head .pill").first).to_contain_text("Succeeded")
    page.goto(f"/runs/{done_run['id']}/?view=table")
    for step, tries in (("first", "1"), ("fan seed=1", "1"), ("fan seed=2", "2"), ("last", "2")):
        row = page.locator("#run-list").get_by_role("row", name=re.compile(f"{step} "))
        expect(row.get_by_role("cell").nth(4)).to_have_text(tries)


@pytest.fixture
def running_step(product, sample) -> Iterator[tuple[str, Path]]:
    """A run whose step runs until the end of the test, and the file of its log."""
    gate = product.home.parent / "gate-of-the-log"
    run = start(product, WAITING.format(gate=GATE.format(gate=gate)), "waiting")
    run = product.wait_for(
        lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["steps"][0]["state"] == "running"
    )
    yield run["id"], product.home / "jobs" / run["steps"][0]["attempts"][0]["job_name"] / "log"
    gate.touch()
    product.wait_for(lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["state"] == "succeeded")


def test_a_log_of_100_megabytes_opens_at_its_end_and_stays_small(open_page, admin_state, running_step):
    run_id, log = running_step
    lines = LOG_BYTES // len(LINE.format(0))
    with log.open("w") as file:
        file.writelines(LINE.format(number) for number in range(lines))
    page = open_page(admin_state).page
    page.goto(f"/runs/{run_id}/?step=only&tab=log")
    screen = page.get_by_label("Log", exact=True)

    expect(screen).to_contain_text(f"line {lines - 1:08} of")
    assert page.evaluate("document.querySelector('log-view pre').scrollTop") > 0
    for _ in range(25):
        first = screen.evaluate("pre => pre.textContent.slice(0, 13)")
        screen.evaluate("pre => { pre.scrollTop = 0; }")
        page.wait_for_function(
            "was => document.querySelector('log-view pre').textContent.slice(0, 13) !== was", arg=first
        )
    assert screen.evaluate("pre => pre.textContent.length") < 2_000_000
    assert f"line {lines - 1:08} of" not in screen.text_content()

    page.get_by_label(re.compile("^Find in the log")).fill("line 00000042 ")
    expect(page.locator("log-view mark.current")).to_have_text("line 00000042 ")
    expect(page.locator("[data-log=found]")).to_have_text("1 of 1")
    page.get_by_label("follow").uncheck()
    page.get_by_label("follow").check()
    expect(screen).to_contain_text(f"line {lines - 1:08} of")


def test_a_run_and_then_its_flow_are_deleted_after_a_question_that_says_what_is_lost(
    open_page, admin_state, product, sample
):
    text = WATCHED.format(gate="true", seeds="1, 2").replace("flow: watched", "flow: unneeded")
    run = start(product, text, "unneeded")
    product.wait_for(lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["state"] == "succeeded")
    page = open_page(admin_state).page
    page.goto(f"/runs/{run['id']}/")
    page.get_by_role("link", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete this run?")
    expect(question).to_contain_text("4 steps are deleted with their logs (4 attempts).")
    expect(question).to_contain_text("It cannot be restored.")
    question.get_by_role("button", name="Keep it").click()
    expect(question).to_be_hidden()
    expect(page.get_by_role("link", name="Delete")).to_be_focused()

    page.get_by_role("link", name="Delete").click()
    question.get_by_role("button", name="Delete the run").click()

    expect(page.get_by_text("Run 1 of unneeded is deleted.")).to_be_visible()
    expect(page.get_by_role("heading", name="Not run yet")).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type unneeded to confirm").fill("unneeded")
    page.get_by_role("button", name="Delete the flow").click()
    expect(page.get_by_text("demo/unneeded is deleted.")).to_be_visible()
    assert "unneeded" not in [flow["name"] for flow in product.api("GET", "/flows")["items"]]
