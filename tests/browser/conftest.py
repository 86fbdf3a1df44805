"""A browser on the running product. A page that complains, in its console or by a failed request, fails its test."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.journeys.product import BIN, ROOT, Product

WAIT_MS = 600_000
# A machine that builds other things meanwhile needs more than the usual five seconds, and for a run more than two minutes.
expect.set_options(timeout=WAIT_MS)

CHROMIUM = Path("/usr/bin/chromium")

FLOW = """\
flow: digits
title: Look at the digits, then report
parameters:
  greeting: {type: str, default: hello, help: What the first step says.}
steps:
  - name: look
    command: |
      printf '\\033[32m%s\\033[0m\\n' ${{ parameters.greeting }}
      ls "$NEARLINE_DATA/digits" | head -3
      for i in 1 2 3; do echo "cnvrg_linechart_loss value: '0.$((9 - i))'"; done
      echo "cnvrg_tag_accuracy: 0.97"
      echo counted > "$NEARLINE_OUTPUT/count.txt"
    data:
      - {dataset: demo/digits, cached: true}
  - name: report
    after: [look]
    command: cat "$NEARLINE_INPUT/look/count.txt"
"""


@dataclass
class Watched:
    """A page and what it complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", self._note_request)

    def _note_console(self, message) -> None:
        # What htmx says of a request that failed, `_note_request` says too, and knows when a navigation overtook it.
        if message.type in {"error", "warning"} and not message.text.startswith("htmx:"):
            self.complaints.append(f"{message.type}: {message.text} at {message.location.get('url')}")

    def _note_request(self, request) -> None:
        # A request that a navigation overtakes is the browser's own doing.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}: {request.failure}")


@pytest.fixture(scope="session")
def product(tmp_path_factory) -> Iterator[Product]:
    # The product as it is, with one page more: that of all components.
    settings = {"DJANGO_SETTINGS_MODULE": "tests.browser.components.settings"}
    running = Product(tmp_path_factory.mktemp("browser") / "home", environment=settings).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"There is no {CHROMIUM} here.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def manage(product) -> Callable[[str], str]:
    """Return a function that runs a line of Python inside the product and returns what it printed last."""

    def run(code: str) -> str:
        command = [BIN / "python", "manage.py", "shell", "-v", "0", "-c", code]
        done = subprocess.run(command, cwd=ROOT, env=product.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip().splitlines()[-1]

    return run


@pytest.fixture(scope="session")
def link_of(manage) -> Callable[[str], str]:
    """Return a function that makes a one-time sign-in link for a person, who is added if need be."""

    def make(username: str) -> str:
        secret = manage(
            "from accounts.permissions import Actor; from accounts.models import User; from accounts.services import tokens;"
            f"user, _ = User.objects.get_or_create(username={username!r});"
            "print(tokens.create_sign_in_link(actor=Actor.system('test'), user=user))"
        )
        return f"/sign-in/{secret}/"

    return make


@pytest.fixture(scope="session")
def admin_state(product, browser, link_of, manage) -> dict:
    """The cookies of the admin, signed in once for all tests."""
    return _sign_in(
        product, browser, link_of(manage("from accounts.models import User; print(User.objects.first().username)"))
    )


@pytest.fixture(scope="session")
def stranger_state(product, browser, link_of) -> dict:
    """The cookies of someone who is a member of nothing."""
    return _sign_in(product, browser, link_of("stranger"))


@pytest.fixture(scope="session")
def sample(product, tmp_path_factory) -> str:
    """A dataset with pictures and awkward files, synced by the CLI; its reference."""
    folder = tmp_path_factory.mktemp("sample") / "digits"
    for digit in range(3):
        (folder / f"{digit}").mkdir(parents=True)
        for number in range(4):
            picture = Image.new("L", (8, 8))
            picture.putdata([(digit * 80 + number * 20 + place * 3) % 256 for place in range(64)])
            picture.save(folder / f"{digit}" / f"{number:04}.png")
    (folder / "README.md").write_text("# Digits\n")
    (folder / "labels.csv").write_text("file,label\n0000.png,0\n0001.png,1\n")
    (folder / "attack.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    (folder / "<b>odd & named+.txt").write_text("<script>alert(1)</script>\n")
    if not any(item["name"] == "demo" for item in product.api("GET", "/projects")["items"]):
        product.cli("project", "create", "demo", cwd=folder)
    product.cli("data", "init", "--project", "demo", "--title", "digits", cwd=folder)
    product.cli("data", "sync", "--message", "First import", cwd=folder)
    (folder / "README.md").write_text("# Digits, second edition\n")
    product.cli("data", "sync", "--message", "Edit the readme", cwd=folder)
    return "demo/digits"


@pytest.fixture(scope="session")
def finished_run(product, sample) -> dict:
    """A run of the sample flow that has succeeded."""
    product.api("POST", "/flows", {"project": "demo", "text": FLOW})
    run = product.api("POST", "/flows/demo/digits/runs", {"parameters": {}})
    return product.wait_for(
        lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["state"] in {"succeeded", "failed"}
    )


@pytest.fixture
def open_page(product, browser) -> Iterator[Callable[..., Watched]]:
    """Return a function that opens a browser window; at the test's end none of its pages may have complained."""
    contexts: list[BrowserContext] = []
    opened: list[Watched] = []

    def make(state: dict | None = None, *, theme: str = "light", width: int = 1440, height: int = 900) -> Watched:
        context = browser.new_context(
            base_url=product.url,
            storage_state=state,
            color_scheme=theme,
            reduced_motion="reduce",
            viewport={"width": width, "height": height},
        )
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        opened.append(Watched(context.new_page()))
        return opened[-1]

    yield make
    for context in contexts:
        context.close()
    assert [complaint for watched in opened for complaint in watched.complaints] == []


def _sign_in(product: Product, browser: Browser, link: str) -> dict:
    context = browser.new_context(base_url=product.url)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()
    state = context.storage_state()
    context.close()
    return state
