"""Experiments by keys alone, and what only a browser can show of their filter."""

import itertools
import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def tab_to(page: Page, matches: str, *, key: str = "Tab", most: int = 120) -> None:
    """Press a key until what has the focus matches a CSS selector."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", matches):
            return
    raise AssertionError(f"{key} never led to {matches}")


def test_two_experiments_are_compared_by_keys_alone(open_page, admin_state, finished_run):
    page = open_page(admin_state).page
    page.goto(f"/experiments/?project=demo&run={finished_run['id']}&c=metrics.loss&all=1")

    for _ in range(2):
        tab_to(page, ".pick:not(:checked)")
        page.keyboard.press("Space")
    expect(page.locator("picked-curves canvas")).to_be_visible()
    tab_to(page, "[data-compares]", key="Shift+Tab")
    expect(page.locator("[data-compares]")).to_have_text("Compare 2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Compare 2 experiments")).to_be_visible()
    expect(page.locator("curve-board canvas")).to_be_visible()

    tab_to(page, ".chart")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-axis]")).to_have_text("step 1")
    expect(page.locator(".curve-legend output").filter(has_text="0.7")).to_have_count(1)
    tab_to(page, "button[aria-pressed]", key="Shift+Tab")
    page.keyboard.press("Space")
    expect(page.locator("button[aria-pressed=false]")).to_have_count(1)
    tab_to(page, "[data-sets=x]", key="Shift+Tab")
    page.keyboard.press("ArrowDown")
    expect(page).to_have_url(re.compile("x=relative"))


def test_a_filter_is_completed_judged_and_kept_as_a_view(open_page, admin_state, finished_run):
    page = open_page(admin_state).page
    page.goto("/experiments/?project=demo")
    field = page.get_by_role("combobox", name="Filter")

    field.press_sequentially("los")
    expect(page.get_by_role("option", name="metrics.loss")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("< ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("At character 15: a value is missing after '<'.")
    field.fill("metrics.loss < 1")
    page.keyboard.press("Enter")
    expect(page.locator("#experiments tbody tr")).to_have_count(1)

    page.wait_for_load_state()  # before that no script runs, and its button does nothing
    page.get_by_role("button", name="Save view").click()
    page.get_by_label("Name").fill("low losses")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The view 'low losses' is saved")).to_be_visible()
    page.goto("/experiments/?project=demo")
    page.locator("summary", has_text="Views").click()
    page.get_by_role("link", name="low losses").click()
    expect(page.get_by_role("combobox", name="Filter")).to_have_value("metrics.loss < 1")


def test_labels_of_parallel_coordinates_stand_apart_however_long_their_names(open_page, admin_state, product, sample):
    ids = [
        product.api("POST", "/experiments", {
            "project": "demo", "title": f"long {number}",
            "parameters": {f"{'wide' * 20}_{axis}": f"{'value' * 20}-{number}" for axis in range(12)},
        })["id"] for number in range(2)
    ]  # fmt: skip
    page = open_page(admin_state).page
    page.goto(f"/experiments/compare/?ids={','.join(ids)}")
    expect(page.locator("parallel-coordinates .name")).to_have_count(12)

    boxes = "texts => texts.map(text => text.getBoundingClientRect()).map(({left, right}) => [left, right])"
    names, ticks = (page.locator(f"parallel-coordinates {css}").evaluate_all(boxes) for css in (".name", ".tick"))
    lines = page.locator("parallel-coordinates .axis > line").evaluate_all(boxes)

    assert [right < left for (_, right), (left, _) in itertools.pairwise(names)] == [True] * 11
    ends = [right for _, right in ticks[:22:2]]
    assert [end < left for end, (left, _) in zip(ends, lines[1:], strict=True)] == [True] * 11
    expect(page.locator("parallel-coordinates .name title").first).to_have_text(f"{'wide' * 20}_0")
