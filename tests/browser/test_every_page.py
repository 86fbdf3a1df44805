"""Every page, in both themes and both widths: complete, quiet, within its width, and open to those who do not see it."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

AXE = Path(__file__).resolve().parents[2] / "platform/web/ui/node_modules/axe-core/axe.min.js"
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PAGES = [
    "/",
    "/datasets/",
    "/datasets/?q=nothing-has-this-name",
    "/datasets/demo/digits/",
    "/datasets/demo/digits/?path=1",
    "/datasets/demo/digits/?path=1&file=1/0000.png",
    "/datasets/demo/digits/?file=labels.csv",
    "/datasets/demo/digits/?file=attack.svg",
    "/datasets/demo/digits/?glob=*.png",
    "/datasets/demo/digits/commits/",
    "/datasets/demo/digits/compare/",
    "/datasets/demo/digits/compare/?file=README.md",
    "/datasets/demo/digits/usage/",
    "/datasets/demo/digits/imports/",
    "/datasets/demo/digits/edit/?path=README.md",
    "/datasets/demo/digits/names/",
    "/datasets/demo/digits/settings/",
    "/flows/",
    "/flows/new/",
    "/flows/demo/digits/",
    "/flows/new/?project=demo&start=yaml&draft=~page",
    "/flows/demo/digits/edit/",
    "/flows/demo/digits/versions/",
    "/flows/demo/digits/run/",
    "{run}",
    "{run}?step=report",
    "/experiments/?project=demo",
    "/experiments/?project=demo&group=flow",
    "/experiments/?project=demo&q=flow+%3C",
    "/experiments/numbers/?key=loss&ids={ids}",
    "{experiment}",
    "{experiment}?artifact=count.txt",
    "/experiments/compare/?ids={ids}",
    "/jobs/",
    "/jobs/?sort=-gpus&state=succeeded",
    "/jobs/new/",
    "{job}",
    "/cache/",
    "/cache/?need=1TB",
    "/compute/",
    "/compute/attach/",
    "/forecasts/",
    "/quotas/",
    "/quotas/?try=demo&gpus=4",
    "/search/?q=digits",
    "/settings/tokens/",
    "/settings/profile/",
    "/accounts/password/set/",
    "/settings/people/",
    "/settings/cache/",
    "/settings/sources/",
    "/settings/audit/",
    "/components/",
    "/components/?sort=size",
    "/settings/members/",
    "/settings/projects/demo/delete/",
]
EMPTY_PAGES = ["/", "/datasets/", "/flows/", "/flows/new/", "/experiments/", "/jobs/", "/jobs/new/", "/cache/",
               "/compute/", "/quotas/", "/forecasts/", "/search/?q=x", "/settings/profile/", "/settings/tokens/", "/settings/members/",
               "/settings/deleted-projects/", "/settings/cache/", "/settings/audit/"]  # fmt: skip

SERIOUS = """async () => (await axe.run(document, {
        resultTypes: ['violations'], rules: {'label-content-name-mismatch': {enabled: true}}})).violations
    .filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html, any}) => html.slice(0, 140)
        + ' ' + (any[0]?.message ?? '').slice(0, 120)).join(' | ')}`)"""
# Such a font feature shows `>=` and `80x3` with other characters than were written.
WITH_LIGATURES = """() => [...document.querySelectorAll('body, body *')]
    .filter((element) => getComputedStyle(element).fontVariantLigatures !== 'none')
    .slice(0, 3).map(({outerHTML}) => outerHTML.slice(0, 140))"""
# Charts are drawn anew in the frame after the one in which the window has another width.
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_quiet_fits_and_can_be_read_by_all(open_page, admin_state, product, finished_run, theme):
    hold_a_gpu(product, f"held-{theme}")
    watched = open_page(admin_state, theme=theme)
    attempt = finished_run["steps"][0]["attempts"][0]
    experiments = [step["experiment_id"] for step in finished_run["steps"]]
    names = {
        "run": f"/runs/{finished_run['id']}/",
        "experiment": f"/experiments/{experiments[0]}/",
        "ids": ",".join(experiments),
        "job": f"/jobs/{attempt['job_name']}/",
    }

    faults = {path: look(watched.page, path.format(**names)) for path in PAGES}

    assert_none(faults)


def hold_a_gpu(product, name: str) -> None:
    """Let a job on a node that does not exist hold a GPU, so that there is something to draw."""
    job = {"project": "demo", "template": "lab.gpu-half", "name": name, "command": "true", "simulated_duration_s": 600}
    product.api("POST", "/compute/jobs", job)
    product.wait_for(
        lambda: [item["name"] for item in product.api("GET", "/compute/jobs?state=running")["items"]],
        lambda names: name in names,
    )


def test_a_page_without_content_says_what_will_stand_there(open_page, stranger_state):
    watched = open_page(stranger_state, theme="dark")
    faults, silent = {}, []

    for path in EMPTY_PAGES:
        faults[path] = look(watched.page, path)
        if watched.page.locator("main :is(.empty-state, form, table, .box):visible").count() == 0:
            silent.append(path)

    assert_none(faults)
    assert silent == []


def test_the_page_knows_its_theme_before_its_first_paint(open_page, admin_state):
    watched = open_page(admin_state, theme="dark")
    watched.page.goto("/")

    assert watched.page.locator("html").get_attribute("data-bs-theme") == "dark"
    watched.page.get_by_role("button", name="Theme: system").click()
    assert watched.page.locator("html").get_attribute("data-bs-theme") == "light"
    watched.page.reload()
    assert watched.page.locator("html").get_attribute("data-bs-theme") == "light"


def test_a_row_of_the_cache_is_at_most_two_lines_high_on_a_phone(open_page, admin_state, product, sample, tmp_path):
    product.cli("data", "cache", sample, "--wait", cwd=tmp_path)
    watched = open_page(admin_state, width=390)
    watched.page.goto("/cache/")

    heights = watched.page.locator("#sites tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")

    assert heights
    assert max(heights) < 70


def test_the_rail_folds_on_a_phone_and_escape_closes_it(open_page, admin_state):
    watched = open_page(admin_state, width=390)
    watched.page.goto("/")
    entry = watched.page.get_by_role("navigation", name="Main").get_by_role("link", name="Datasets")

    watched.page.get_by_role("button", name="Menu").click()
    entry.wait_for(state="visible")
    watched.page.keyboard.press("Escape")

    entry.wait_for(state="hidden")


def test_the_focus_stays_in_the_open_rail_of_a_phone(open_page, admin_state):
    page = open_page(admin_state, width=390).page
    page.goto("/")
    button = page.get_by_role("button", name="Menu")
    links = page.get_by_role("navigation", name="Main").get_by_role("link")

    button.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(links.first).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(links.last).to_be_focused()
    page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")

    expect(links.first).not_to_be_visible()
    expect(button).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("summary").first).to_be_focused()


def test_the_search_is_all_keyboard(open_page, admin_state, finished_run):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/cache/")

    page.keyboard.press("/")
    page.keyboard.insert_text("digits")
    expect(page.locator("#found a").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#found a")).to_have_count(0)
    page.keyboard.insert_text("digits")
    expect(page.locator("#found a").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#found a").first).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_contain_text("digits")
    assert page.url.endswith("/datasets/demo/digits/")


def test_control_k_finds_a_commit_by_its_id_and_a_file_from_anywhere(open_page, admin_state, product, sample):
    page = open_page(admin_state).page
    commit = product.api("GET", "/datasets/demo/digits/commits")["items"][0]
    page.goto("/experiments/")

    page.get_by_label("Filter").first.focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox").first).to_be_focused()
    page.keyboard.insert_text(commit["id"][:8])
    expect(page.locator("#found a").first).to_contain_text(commit["message"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/datasets/demo/digits/?ref={commit['id']}")
    page.keyboard.press("Control+k")
    page.keyboard.type("0003.PNG")
    expect(page.locator("#found")).to_contain_text("2/0003.png")

    expect(page.locator("#found a", has_text="1/0003.png")).to_have_attribute(
        "href", "/datasets/demo/digits/?file=1/0003.png"
    )


def test_on_a_phone_all_that_was_found_is_in_sight(open_page, admin_state, finished_run):
    page = open_page(admin_state, width=PHONE["width"], height=PHONE["height"]).page
    page.goto("/")

    page.get_by_role("searchbox").first.fill("digits")
    expect(page.locator("#found a").first).to_be_visible()
    found = page.locator("#found").bounding_box()

    assert found["x"] >= 0
    assert found["x"] + found["width"] <= PHONE["width"]


def test_the_first_tab_offers_to_skip_to_the_content(open_page, admin_state):
    watched = open_page(admin_state)
    watched.page.goto("/datasets/")

    watched.page.keyboard.press("Tab")

    assert watched.page.evaluate("document.activeElement.textContent") == "Skip to the content"


def test_the_switcher_changes_what_lists_show(open_page, admin_state, finished_run, product):
    if not any(item["name"] == "other" for item in product.api("GET", "/projects")["items"]):
        product.api("POST", "/projects", {"name": "other"})
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/jobs/?project=")
    jobs = page.locator("#jobs tbody tr")
    expect(jobs.first).to_be_visible()

    page.get_by_label("Project: all projects").click()
    page.get_by_role("link", name="other", exact=True).click()
    expect(jobs).to_have_count(0)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Datasets").click()
    expect(page.locator("main")).not_to_contain_text("demo/digits")
    page.get_by_label("Project: other").click()
    page.get_by_role("link", name="All projects").click()

    expect(page.locator("main")).to_contain_text("digits")


def test_a_dialog_is_opened_and_closed_by_the_keyboard_and_gives_the_focus_back(open_page, admin_state):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/components/")
    opener = page.get_by_role("button", name="Remove", exact=True).first

    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("The thing is named, and what is lost is said.")
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_a_refused_form_stays_as_it_was_sent_with_the_reason_at_its_field(open_page, admin_state):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/quotas/")
    dialog = page.get_by_role("dialog", name="Move a resource to another pool")
    page.get_by_role("button", name="Pools", exact=True).click()
    dialog.get_by_role("radio").first.check()
    label = dialog.get_by_label("Only nodes with this label")
    dialog.get_by_label("new pool called").fill("wide")
    for typed in ("gpu", "a100"):
        label.fill(typed)
        label.press("Enter")

        expect(dialog.get_by_role("alert")).to_have_text(f"'{typed}' is no label of a node; write one like gpu=a100.")

    expect(label).to_be_focused()
    expect(label).to_have_accessible_description("'a100' is no label of a node; write one like gpu=a100.")
    expect(dialog.get_by_role("radio").first).to_be_checked()
    expect(dialog.get_by_label("new pool called")).to_have_value("wide")
    watched.complaints.clear()  # the browser notes the status 400 in its console


def test_a_form_with_one_field_says_there_why_it_was_refused_until_it_is_taken(open_page, admin_state, product, sample):
    dataset = product.api("POST", "/datasets", {"project": "demo", "name": "typed-wrong"})
    watched = open_page(admin_state)
    page, dialog = watched.page, watched.page.get_by_role("dialog")
    page.goto(f"/datasets/demo/{dataset['name']}/settings/")
    page.get_by_role("button", name="Delete this dataset").click()
    field = dialog.get_by_label("to confirm")
    field.fill("typed")
    field.press("Enter")

    expect(dialog.get_by_role("alert")).to_have_text(
        "The name that was typed is not the dataset's. Nothing was deleted."
    )
    expect(field).to_be_focused()
    field.fill("typed-wrong")
    field.press("Enter")

    expect(page.get_by_text("demo/typed-wrong is deleted.")).to_be_visible()
    expect(page).to_have_url("/datasets/")
    watched.complaints.clear()  # the browser notes the status 400 in its console


def test_a_refused_dataset_is_open_again_with_what_was_typed(open_page, admin_state, sample):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/datasets/?project=")
    dialog = page.get_by_role("dialog", name="New dataset")
    page.get_by_role("button", name="New dataset").click()
    dialog.get_by_label("Project").select_option("demo")
    dialog.get_by_label("Name").fill("digits")
    dialog.get_by_label("What is in it?").fill("Ziffern")
    dialog.get_by_label("Name").press("Enter")

    expect(dialog.get_by_role("alert")).to_contain_text("There is a dataset demo/digits already.")
    expect(dialog.get_by_label("Project")).to_have_value("demo")
    expect(dialog.get_by_label("What is in it?")).to_have_value("Ziffern")
    expect(page).to_have_url("/datasets/?project=")
    watched.complaints.clear()  # the browser notes the status 422 in its console


def test_a_dialog_that_was_asked_for_leads_back_to_what_was_typed(open_page, admin_state, sample):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/datasets/demo/digits/commits/")
    menu = page.get_by_label("More with").first
    dialog = page.get_by_role("dialog")
    menu.click()
    page.get_by_role("link", name="Branch or tag here").first.click()
    dialog.get_by_label("Kind").select_option("branch")
    dialog.get_by_label("Name").fill("main")
    dialog.get_by_label("Name").press("Enter")

    expect(page.get_by_role("textbox", name="Name")).to_have_value("main")
    expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    page.go_back()

    expect(dialog.get_by_label("Kind")).to_have_value("branch")
    expect(dialog.get_by_label("Name")).to_have_value("main")
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    menu.click()
    page.get_by_role("link", name="Branch or tag here").first.click()
    expect(dialog.get_by_label("Name")).to_have_value("")
    watched.complaints.clear()  # the browser notes the status 422 in its console


def test_names_of_the_greatest_length_fit_a_phone(open_page, admin_state, product):
    name = "n" * 63
    if not any(item["name"] == name for item in product.api("GET", "/projects")["items"]):
        product.api("POST", "/projects", {"name": name})
        flow = f"flow: {name}\ntitle: {'A long title ' * 15}\nsteps: [{{name: look, command: ls}}]\n"
        product.api("POST", "/flows", {"project": name, "text": flow})
    page = open_page(admin_state, width=PHONE["width"], height=PHONE["height"]).page
    too_wide = {}

    for path in ("/", "/flows/", "/flows/new/", "/analytics/", "/search/", "/settings/members/", "/settings/storage/"):
        page.goto(f"{path}?project={name}&q={name}")
        too_wide[path] = page.evaluate(TOO_WIDE)
    page.goto(f"/settings/projects/{name}/delete/")
    too_wide["delete"] = page.evaluate(TOO_WIDE)
    page.goto("/jobs/?project=")
    choices = page.locator(".filters select[name=project]").bounding_box()

    page.goto("/quotas/")
    names = page.locator("td", has=page.get_by_title(name)).first.bounding_box()

    assert {path: pixels for path, pixels in too_wide.items() if pixels} == {}
    assert names["width"] < PHONE["width"]
    assert choices["width"] == 320


@pytest.mark.parametrize("path", ["/settings/people/", "/settings/audit/", "/datasets/demo/digits/settings/"])
def test_on_a_phone_the_current_tab_is_in_sight(open_page, admin_state, sample, path):
    page = open_page(admin_state, width=PHONE["width"], height=PHONE["height"]).page
    page.goto(path)
    page.locator(".tabs > [aria-current]").evaluate("tab => document.fonts.ready")

    box = page.locator(".tabs > [aria-current]").bounding_box()

    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


def test_the_numbers_of_a_chart_are_a_click_away(open_page, admin_state):
    watched = open_page(admin_state)
    watched.page.goto("/components/")
    box = watched.page.locator("section.box", has_text="Two lines with a gap")

    box.get_by_text("Numbers").click()

    expect(box.locator("details").get_by_role("row")).to_have_text(
        ["step train test", "0 1 1", "1 0.5 0.75", "2 \N{EN DASH} 0.7", "3 0.25 0.69"]
    )


def test_while_the_server_breaks_or_is_away_the_page_stays_says_so_and_comes_back(open_page, admin_state, product):
    name = "comes-back"
    product.api("POST", "/compute/jobs", {
        "project": "demo", "template": "lab.gpu-1", "name": name, "command": "true", "simulated_duration_s": 3600,
    })  # fmt: skip
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/jobs/{name}/")
    pill, note = page.locator(".head .pill"), page.locator("#server-note")
    expect(pill).to_contain_text("Running")

    page.route("**/search/*", lambda route: route.fulfill(status=500, body="<h1>broken</h1>", content_type="text/html"))
    page.get_by_role("searchbox").first.fill("a")
    expect(note).to_contain_text("Internal error")
    expect(page.locator("h1")).to_have_text(name)
    page.unroute("**/search/*")
    page.get_by_role("searchbox").first.fill("ab")
    expect(note).to_have_count(0)

    page.context.set_offline(True)
    page.get_by_role("searchbox").first.fill("abc")
    expect(note).to_contain_text("The server does not answer")
    product.api("POST", f"/compute/jobs/{name}/cancel")
    page.context.set_offline(False)
    page.get_by_role("searchbox").first.blur()
    expect(pill).to_contain_text("Cancelled")

    expect(note).to_have_count(0)
    watched.complaints.clear()  # the browser notes the failures in its console


def test_a_page_that_could_not_be_read_opens_by_itself_once_it_can(open_page, admin_state):
    watched = open_page(admin_state)
    page = watched.page
    page.clock.install()
    page.goto("/components/away/")
    expect(page.get_by_text("This page opens by itself once it can be read again.")).to_be_visible()
    with page.expect_response("**/components/away/") as asked:
        page.clock.fast_forward(10_000)
    assert asked.value.status == 503
    expect(page.get_by_role("link", name="Try again")).to_be_visible()

    page.route("**/components/away/", lambda route: route.fulfill(body="Here again", content_type="text/html"))
    page.clock.fast_forward(20_000)

    expect(page.get_by_text("Here again")).to_be_visible()
    watched.complaints.clear()  # the browser notes the failures in its console


def assert_none(faults: dict[str, dict[str, object]]) -> None:
    found = [f"{path}: {fault}" for path, fault in faults.items() if fault]
    assert not found, "\n".join(found)


def look(page: Page, path: str) -> dict[str, object]:
    """Open a page, at a desk and on a phone, and return what is wrong with it."""
    page.set_viewport_size(DESKTOP)
    answer = page.goto(path)
    page.wait_for_load_state("load")
    page.evaluate(AXE.read_text())
    found = {
        "status": answer.status if answer.status != 200 else None,
        "headings": None if page.locator("h1").count() == 1 else page.locator("h1").count(),
        "too wide by": page.evaluate(TOO_WIDE),
        "axe": page.evaluate(SERIOUS),
        "ligatures": page.evaluate(WITH_LIGATURES),
    }
    page.set_viewport_size(PHONE)
    page.evaluate(DRAWN)
    found["too wide on a phone by"] = page.evaluate(TOO_WIDE)
    found["a path of the machine"] = re.findall(r"/(?:tmp|home|work|root)/[\w./-]+", page.inner_text("body"))[:3]
    return {what: value for what, value in found.items() if value}
