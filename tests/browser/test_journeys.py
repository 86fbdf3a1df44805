"""What people come for, done with the mouse and the keyboard."""

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import FLOW

pytestmark = pytest.mark.browser


def test_a_link_signs_in_once(open_page, link_of):
    link = link_of("once")
    first, second = open_page(), open_page()

    first.page.goto(link)
    first.page.get_by_role("button", name="Sign in").click()
    expect(first.page.get_by_role("heading", name="Overview")).to_be_visible()
    second.page.goto(link)
    second.page.get_by_role("button", name="Sign in").click()

    expect(second.page.get_by_role("alert")).to_contain_text("used before or has expired")
    second.complaints.clear()  # the browser notes the status 401 in its console


def test_who_is_not_signed_in_is_led_to_the_sign_in_and_back(open_page, manage):
    manage(
        "from accounts.models import User; user, _ = User.objects.get_or_create(username='pat');"
        "user.set_password('a long password'); user.save(); print('kept')"
    )
    watched = open_page()
    watched.page.goto("/cache/")

    watched.page.get_by_label("Name").fill("pat")
    watched.page.get_by_label("Password").fill("a long password")
    watched.page.keyboard.press("Enter")

    expect(watched.page.get_by_role("heading", name="Cache", level=1)).to_be_visible()
    assert watched.page.url.endswith("/cache/")


def test_what_was_typed_when_the_session_had_ended_is_there_again_after_the_sign_in(open_page, admin_state, sample):
    page = open_page(admin_state).page
    page.goto("/jobs/new/?project=demo")
    page.locator("[name=command]").fill("echo kept")
    session = next(cookie for cookie in page.context.cookies() if cookie["name"] == "sessionid")
    page.context.clear_cookies(name="sessionid")

    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Nothing was sent.")).to_be_visible()
    page.context.add_cookies([session])
    page.goto("/jobs/new/?project=demo")

    expect(page.locator("[name=command]")).to_have_value("echo kept")
    expect(page.get_by_text("It was not sent.")).to_be_visible()
    page.reload()
    expect(page.locator("[name=command]")).to_have_value("")


def test_what_one_person_typed_is_not_shown_to_the_next_who_signs_in(open_page, admin_state, sample):
    page = open_page(admin_state).page
    page.goto("/jobs/new/?project=demo")
    page.locator("[name=command]").fill("echo mine")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("Nothing was sent.")).to_be_visible()
    page.evaluate("sessionStorage.unsent = JSON.stringify({...JSON.parse(sessionStorage.unsent), user: 'usr_other'})")

    page.context.add_cookies(admin_state["cookies"])
    page.goto("/jobs/new/?project=demo")

    expect(page.locator("[name=command]")).to_have_value("")
    assert page.evaluate("sessionStorage.unsent") is None


def test_no_secret_is_kept_when_the_session_had_ended(open_page, admin_state):
    page = open_page(admin_state).page
    page.goto("/compute/attach/")
    page.locator("[name=kind][value=kubernetes]").check()
    page.locator("[name=name]").fill("kept")
    page.locator("textarea[data-secret]:visible").first.fill("a secret")
    page.context.clear_cookies(name="sessionid")

    page.get_by_role("button", name="Check and attach").click()

    expect(page.get_by_text("Nothing was sent.")).to_be_visible()
    kept = page.evaluate("sessionStorage.unsent")
    assert "kept" in kept
    assert "a secret" not in kept


def test_two_clicks_cache_a_commit_and_the_page_shows_it_ready(open_page, admin_state, sample):
    watched = open_page(admin_state)
    watched.page.goto("/datasets/demo/digits/commits/")
    row = watched.page.get_by_role("row", name=re.compile("First import"))
    clear = row.get_by_role("link", name="Clear cache")
    if clear.is_visible():
        clear.click()
        watched.page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    row.get_by_role("link", name="Cache").wait_for()

    row.get_by_role("link", name="Cache").click()
    dialog = watched.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Moves from the store")
    dialog.get_by_role("button", name="Cache").click()

    expect(row.locator(".pill.cached")).to_contain_text("local")
    row.get_by_role("link", name="Clear cache").click()
    watched.page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(watched.page.get_by_role("status").or_(watched.page.locator(".toast-note"))).to_contain_text("leaves local")


def test_a_flow_is_written_checked_run_by_its_form_and_seen_to_succeed(open_page, admin_state, sample):
    name = f"flow-{uuid.uuid4().hex[:8]}"
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/flows/new/?project=demo")
    page.get_by_role("link", name=re.compile("YAML")).click()
    text = page.get_by_role("textbox", name="Flow as YAML")

    paste(text, FLOW.replace("flow: digits", f"flow: {name}").replace("after: [look]", "after: [missing]"))
    expect(page.get_by_role("region", name="Problems")).to_contain_text("There is no step 'missing'.")
    paste(text, FLOW.replace("flow: digits", f"flow: {name}"))
    expect(page.get_by_role("region", name="Problems")).to_contain_text("No problem found")
    page.get_by_role("button", name="Run with other values").click()
    page.get_by_role("dialog").get_by_label("greeting").fill("good morning")
    page.get_by_role("dialog").get_by_role("button", name="Run", exact=True).click()

    page.wait_for_url("**/runs/run_*/")
    expect(page.locator(".head .pill")).to_contain_text("Succeeded")
    page.goto(page.url.split("?")[0] + "?step=look")
    expect(page.locator("log-view pre")).to_contain_text("good morning")
    expect(page.locator("log-view .ansi-32")).to_have_text("good morning")
    page.get_by_label("Find in the log").fill("MORNING")
    expect(page.locator("log-view mark")).to_have_text("morning")


def paste(editor, text: str) -> None:
    """Replace the whole text of an editor, as a person does from the clipboard."""
    editor.press("Control+a")
    editor.evaluate(
        """(node, text) => {
          const clipboardData = new DataTransfer();
          clipboardData.setData("text/plain", text);
          node.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def test_an_experiment_shows_what_it_measured_and_what_it_left(open_page, admin_state, finished_run):
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/experiments/{finished_run['steps'][0]['experiment_id']}/")

    expect(page.locator("curve-board canvas").first).to_be_visible()
    expect(page.locator(".tag-line")).to_contain_text("accuracy = 0.97")
    page.get_by_role("link", name="count.txt", exact=True).click()
    expect(page.locator(".preview")).to_contain_text("counted")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download count.txt").click()

    assert download.value.path().read_text() == "counted\n"


def test_a_token_is_shown_once_and_can_be_revoked(open_page, admin_state):
    name = f"laptop-{uuid.uuid4().hex[:8]}"
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/settings/tokens/")

    page.get_by_label("What is it for?").fill(name)
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("status")).to_contain_text("nl_")
    page.reload()
    expect(page.locator("main")).not_to_contain_text("nl_")
    expect(page.get_by_role("row", name=re.compile(name))).to_have_count(1)
    page.get_by_role("row", name=re.compile(name)).get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()

    expect(page.get_by_role("row", name=re.compile(name))).to_have_count(0)


@pytest.mark.parametrize("name", ["attack.svg", "<b>odd & named+.txt"])
def test_a_hostile_file_is_shown_as_text_and_only_ever_saved(open_page, admin_state, sample, name):
    watched = open_page(admin_state)
    page = watched.page
    page.goto("/datasets/demo/digits/")

    page.get_by_role("link", name=name).click()
    expect(page.locator(".preview pre")).to_contain_text("<script>alert(1)</script>")
    with page.expect_download() as download:
        page.locator(".preview").get_by_role("link", name="Download").click()

    assert "<script>alert(1)</script>" in download.value.path().read_text()


def test_a_wrong_address_is_answered_calmly(open_page, admin_state):
    watched = open_page(admin_state)

    answer = watched.page.goto("/datasets/demo/no-such-dataset/")

    assert answer.status == 404
    expect(watched.page.locator("main")).to_contain_text("There is no dataset demo/no-such-dataset")
    expect(watched.page.locator("main")).to_contain_text("What to do:")
    watched.complaints.clear()  # the browser notes the status 404 in its console
