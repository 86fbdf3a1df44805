"""What a newcomer does, by mouse: from a folder of digits to a compared experiment, with a picture of each step.

The pictures are kept where NEARLINE_STORY names a folder.
"""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.journeys.product import ROOT

pytestmark = pytest.mark.browser

EXAMPLE = ROOT / "examples" / "digits"
CODE = 'python "$NEARLINE_DATA/{dataset}/digits/code/{script}.py"'


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder as a newcomer has it: pictures in class folders, and the scripts that learn from them."""
    folder = tmp_path / "digits"
    subprocess.run([sys.executable, EXAMPLE / "write_dataset.py", folder / "pictures"], check=True)
    (folder / "code").mkdir()
    for script in ("prepare", "train", "evaluate"):
        text = (EXAMPLE / f"{script}.py").read_text()
        (folder / "code" / f"{script}.py").write_text(
            text.replace('nearline.data("digits")', '(nearline.data("DATASET") / "digits" / "pictures")')
        )
    return folder


class Newcomer:
    """The page, and a numbered picture of it whenever something was reached."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._folder = os.environ.get("NEARLINE_STORY")
        self._number = 0

    def picture(self, name: str) -> None:
        self._number += 1
        if self._folder:
            self.page.screenshot(path=Path(self._folder) / f"{self._number:02}-{name}.png")

    def follow(self, link: Locator) -> None:
        """Click a link to another page, and wait until its scripts run: before that its buttons do nothing."""
        link.click()
        self.page.wait_for_load_state()

    def fill(self, label: str, text: str, *, within: Locator | None = None) -> None:
        """Click into a field and type; leave it for what takes its text over only then."""
        field = (within or self.page).get_by_label(label, exact=True)
        field.click()
        field.fill(text)
        field.blur()


def test_a_newcomer_goes_from_a_folder_to_compared_experiments_by_mouse(open_page, link_of, manage, product, folder):
    dataset, flow = f"digits-{uuid.uuid4().hex[:6]}", f"learn-{uuid.uuid4().hex[:6]}"
    for script in (folder / "code").iterdir():
        script.write_text(script.read_text().replace("DATASET", dataset))
    if not any(item["name"] == "demo" for item in product.api("GET", "/projects")["items"]):
        product.api("POST", "/projects", {"name": "demo"})
    newcomer = Newcomer(open_page().page)

    sign_in(newcomer, link_of(manage("from accounts.models import User; print(User.objects.first().username)")))
    make_dataset(newcomer, dataset)
    upload(newcomer, folder)
    cache(newcomer)
    draw(newcomer, flow, dataset)
    run_and_watch(newcomer)
    compare(newcomer)
    clear_cache(newcomer, dataset)


def sign_in(newcomer: Newcomer, link: str) -> None:
    newcomer.page.goto(link)
    newcomer.page.get_by_role("button", name="Sign in").click()
    expect(newcomer.page.get_by_role("heading", name="Overview")).to_be_visible()
    newcomer.picture("signed-in")


def make_dataset(newcomer: Newcomer, name: str) -> None:
    page = newcomer.page
    newcomer.follow(page.get_by_role("link", name="Datasets").first)
    page.get_by_role("button", name="New dataset").click()
    dialog = page.get_by_role("dialog", name="New dataset")
    dialog.get_by_label("Project").select_option("demo")
    newcomer.fill("Name", name, within=dialog)
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=re.compile(name))).to_be_visible()
    newcomer.picture("empty-dataset")


def upload(newcomer: Newcomer, folder: Path) -> None:
    page = newcomer.page
    page.locator("upload-panel:defined").wait_for(state="attached")
    page.get_by_role("button", name="Upload").first.click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(folder)
    dialog = page.get_by_role("dialog", name=re.compile("Add files"))
    expect(dialog).to_contain_text("1,800 files")
    newcomer.picture("chosen-folder")
    dialog.get_by_role("button", name="Upload as one commit").click()
    expect(dialog.get_by_role("status").filter(has_text=re.compile(r"\+1,800"))).to_be_visible()
    newcomer.picture("uploaded")
    dialog.get_by_role("link", name="Show the files").click()
    page.get_by_role("link", name="digits", exact=True).click()
    newcomer.follow(page.get_by_role("link", name="pictures", exact=True))
    newcomer.picture("files")


def cache(newcomer: Newcomer) -> None:
    page = newcomer.page
    page.get_by_role("link", name="Cache", exact=True).and_(page.locator(".btn-primary")).click()
    dialog = page.get_by_role("dialog", name=re.compile("Cache"))
    expect(dialog).to_contain_text("Moves from the store")
    newcomer.picture("cache-dialog")
    dialog.get_by_role("button", name="Cache").click()
    page.get_by_role("link", name=re.compile("^Commits")).click()
    expect(page.locator(".pill.cached").first).to_contain_text("local")
    newcomer.picture("cached")


def draw(newcomer: Newcomer, flow: str, dataset: str) -> None:
    """Draw prepare → train (a grid of three) → evaluate, all of them reading the dataset for their scripts."""
    page = newcomer.page
    page.get_by_role("link", name="Flows").first.click()
    page.get_by_role("link", name=re.compile("New flow")).first.click()
    page.get_by_role("link", name=re.compile("Canvas")).click()
    newcomer.fill("Name", flow)
    draw_step(newcomer, "prepare", CODE.format(dataset=dataset, script="prepare"), at=(480, 100))
    newcomer.fill("Add a parameter", "test_share")
    newcomer.fill("Value of test_share", "0.25")
    draw_step(
        newcomer, "train", CODE.format(dataset=dataset, script="train") + " --C ${{ parameters.C }}", at=(480, 300)
    )
    newcomer.fill("Add a parameter", "C")
    page.get_by_label("Kind of C").select_option("list")
    newcomer.fill("Values of C", "1, 10, 100")
    draw_step(newcomer, "evaluate", CODE.format(dataset=dataset, script="evaluate"), at=(480, 500))
    drag_from_palette(page, "Dataset", at=(130, 300))
    page.get_by_role("group", name=re.compile("^dataset")).click()
    newcomer.fill("Dataset", f"demo/{dataset}")
    source = page.get_by_role("group", name=re.compile(f"^dataset {dataset}"))
    for reader in ("prepare", "train", "evaluate"):
        source.locator(".source").drag_to(step(page, reader).locator(".target"))
    for before, after in (("prepare", "train"), ("prepare", "evaluate"), ("train", "evaluate")):
        step(page, before).locator(".source").drag_to(step(page, after).locator(".target"))
    page.get_by_role("button", name="Tidy up").click()
    expect(page.get_by_text("No problem found")).to_be_visible()
    newcomer.picture("drawn-flow")


def draw_step(newcomer: Newcomer, name: str, command: str, *, at: tuple[int, int]) -> None:
    """Drag a command from the palette onto the canvas, and say what it is."""
    drag_from_palette(newcomer.page, "Command", at=at)
    expect(newcomer.page.get_by_label("Name", exact=True)).to_be_focused()
    newcomer.fill("Name", name)
    expect(step(newcomer.page, name)).to_be_visible()
    newcomer.fill("Command", command)


def drag_from_palette(page: Page, kind: str, *, at: tuple[int, int]) -> None:
    canvas = page.locator(".react-flow__pane")
    page.locator(".palette-item", has_text=kind).drag_to(canvas, target_position={"x": at[0], "y": at[1]})


def step(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=re.compile(f"^step {name}"))


def run_and_watch(newcomer: Newcomer) -> None:
    page = newcomer.page
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/runs/run_*/**")
    newcomer.picture("running")
    expect(page.locator(".head .pill")).to_contain_text(re.compile("Succeeded|Failed"))
    expect(page.locator(".head .pill")).to_contain_text("Succeeded")
    newcomer.picture("succeeded")


def compare(newcomer: Newcomer) -> None:
    page = newcomer.page
    page.get_by_role("link", name="all of this run").click()
    boxes = page.locator(".pick")
    expect(boxes).to_have_count(5)
    for box in boxes.all():
        box.check()
    page.locator("[data-compares]").click()
    expect(page.get_by_role("heading", name=re.compile("^Compare 5 experiments"))).to_be_visible()
    expect(page.locator("main")).to_contain_text("accuracy")
    newcomer.picture("compared")


def clear_cache(newcomer: Newcomer, dataset: str) -> None:
    page = newcomer.page
    page.get_by_role("link", name="Datasets").first.click()
    page.get_by_role("link", name=re.compile(dataset)).first.click()
    newcomer.follow(page.get_by_role("link", name=re.compile("^Commits")))
    page.get_by_role("link", name="Clear cache").click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(page.locator(".toast-note").or_(page.get_by_role("status")).first).to_contain_text("leaves local")
    expect(page.locator("main .pill.cached")).to_have_count(0)
    newcomer.picture("cleared")
