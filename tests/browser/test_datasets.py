"""Bringing files by drop and chooser, and caching without a mouse: what only a browser can show."""

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture
def dataset(product, sample) -> str:
    """An empty dataset of its own; its name."""
    name = f"drops-{uuid.uuid4().hex[:8]}"
    product.api("POST", "/datasets", {"project": "demo", "name": name})
    return name


@pytest.fixture
def folder(tmp_path):
    """A folder with a folder in it, and something that file managers leave behind."""
    (tmp_path / "train" / "cats").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "train" / "cats" / f"{number}.txt").write_text(f"cat {number}\n")
    (tmp_path / "train" / "notes.txt").write_text("notes\n")
    (tmp_path / "train" / ".DS_Store").write_text("litter")
    return tmp_path / "train"


def drop(page: Page, *paths) -> None:
    """Drop files and folders of this machine on the page, as a file manager does."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 700, "y": 500, "data": data})


def commits_of(product, dataset: str) -> list[dict]:
    return product.api("GET", f"/datasets/demo/{dataset}/commits")["items"]


def test_a_dropped_folder_becomes_one_commit_that_can_be_compared(open_page, admin_state, product, dataset, folder):
    page = open_page(admin_state).page
    page.goto(f"/datasets/demo/{dataset}/")
    page.locator("upload-panel:defined").wait_for(state="attached")

    drop(page, folder)
    dialog = page.get_by_role("dialog", name="Add files")
    expect(dialog).to_contain_text("6 files, 36 B")
    expect(dialog).to_contain_text("1 file of the file manager left out.")
    dialog.get_by_label("without that folder itself").check()
    dialog.get_by_label("Message").fill("Cats by drop")
    dialog.get_by_label("Message").press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(r"\+6 \S0 ~0"))
    (folder / "cats" / "0.txt").write_text("another cat\n")
    dialog.get_by_role("link", name="Show the files").click()
    page.locator("upload-panel:defined").wait_for(state="attached")
    drop(page, folder)
    page.get_by_label("without that folder itself").check()
    page.get_by_role("button", name="Upload as one commit").click()
    page.get_by_role("link", name="What changed").click()

    expect(page.get_by_role("row").filter(has_text="cats/0.txt")).to_contain_text("changed")
    page.get_by_role("link", name="cats/0.txt").click()
    expect(page.locator(".diff .removed")).to_contain_text("cat 0")
    expect(page.locator(".diff .added")).to_contain_text("another cat")
    assert [(made["message"], made["source"], made["files"]) for made in commits_of(product, dataset)] == [
        ("Add 6 files", "web", 6),
        ("Cats by drop", "web", 6),
    ]


def test_a_broken_connection_and_a_commit_of_somebody_else_lose_nothing(
    open_page, admin_state, product, dataset, folder
):
    watched = open_page(admin_state)
    page = watched.page
    page.goto(f"/datasets/demo/{dataset}/")
    bring(page, folder / "notes.txt")
    bring(page, folder / "cats" / "1.txt")
    first = commits_of(product, dataset)[-1]
    broken = []

    def break_once(route) -> None:
        if not broken:
            broken.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    def commit_before(route) -> None:
        if len(commits_of(product, dataset)) == 2:
            product.api("POST", f"/datasets/demo/{dataset}/revert", {"commit": first["id"], "branch": "main"})
        route.continue_()

    page.route(re.compile(r"/uploads/[^/]+/parts/\d+$"), break_once)
    page.route("**/parts/commit", commit_before)
    page.goto(f"/datasets/demo/{dataset}/")
    choose(page, folder / "cats" / "2.txt")
    page.get_by_role("button", name="Upload as one commit").click()
    expect(page.get_by_text("Revert to")).to_contain_text("Your files are all here")
    page.get_by_role("button", name="Build on it").click()

    expect(page.locator("[data-upload=result]")).to_contain_text(re.compile(r"\+1 \S0 ~0"))
    assert broken
    assert [made["files"] for made in commits_of(product, dataset)] == [2, 1, 2, 1]
    watched.complaints.clear()  # the browser notes the broken request and the status 409 in its console


def test_the_size_of_a_file_with_a_long_name_is_in_sight(open_page, admin_state, dataset, tmp_path):
    page = open_page(admin_state, width=390).page
    page.goto(f"/datasets/demo/{dataset}/")
    (tmp_path / ("x" * 150)).write_text("long\n")
    bring(page, tmp_path / ("x" * 150))
    page.goto(f"/datasets/demo/{dataset}/")

    size = page.get_by_role("cell", name="5 B").bounding_box()

    assert size["x"] + size["width"] <= 390


def test_a_picture_that_cannot_be_drawn_says_so(open_page, admin_state, dataset, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    page = open_page(admin_state).page
    page.goto(f"/datasets/demo/{dataset}/")
    bring(page, tmp_path / "broken.png")

    page.goto(f"/datasets/demo/{dataset}/?file=broken.png&view=list")
    expect(page.get_by_label("Preview")).to_contain_text("This picture cannot be shown. It may be damaged.")
    page.goto(f"/datasets/demo/{dataset}/?view=grid")
    expect(page.locator(".thumbs")).to_contain_text("This picture cannot be shown. It may be damaged.")


def test_the_encoding_of_a_text_is_chosen_and_stays_in_the_address(open_page, admin_state, dataset, tmp_path):
    (tmp_path / "labels.csv").write_bytes("файл;метка\n".encode("cp1251"))
    page = open_page(admin_state).page
    page.goto(f"/datasets/demo/{dataset}/")
    bring(page, tmp_path / "labels.csv")
    page.goto(f"/datasets/demo/{dataset}/?file=labels.csv")

    page.get_by_label("Read as").select_option("Windows-1251")

    expect(page).to_have_url(re.compile("file=labels.csv&encoding=Windows-1251"))
    expect(page.get_by_label("Preview")).to_contain_text("файл")


def test_a_commit_is_cached_and_cleared_by_the_keyboard_alone(open_page, admin_state, product, sample):
    page = open_page(admin_state).page
    page.goto("/datasets/demo/digits/commits/")
    row = page.get_by_role("row", name=re.compile("Edit the readme"))

    tab_to(page, row.get_by_role("link", name="Cache"))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Cache this commit")
    expect(dialog).to_contain_text("Moves from the store")
    tab_to(page, dialog.get_by_role("button", name="Cache"))
    page.keyboard.press("Enter")
    expect(row.locator(".pill.cached")).to_contain_text("local")
    tab_to(page, row.get_by_role("link", name="Clear cache"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("dialog", name="Clear this copy").get_by_role("button", name="Clear"))
    page.keyboard.press("Enter")

    expect(page.locator(".toast-note")).to_contain_text("leaves local")


def choose(page: Page, path) -> None:
    page.locator("upload-panel:defined").wait_for(state="attached")
    page.locator(".head").get_by_role("button", name="Upload").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(path)


def bring(page: Page, path) -> None:
    choose(page, path)
    page.get_by_role("button", name="Upload as one commit").click()
    expect(page.locator("[data-upload=result]")).to_contain_text("Committed")
    page.get_by_role("link", name="Show the files").click()


def tab_to(page: Page, target) -> None:
    """Press Tab until the target has the focus."""
    target.wait_for()
    for _ in range(80):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never reaches {target}")
