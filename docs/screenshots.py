"""Render the pages that documents show: start the product, wait for its demo, add a small cluster, open the pages."""

import os
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from tests.journeys.product import Product  # noqa: E402 (the path must be set first)

IMAGES = ROOT / "docs" / "images"
STORY_LIMIT_S = 120
SETTLED_MS = 600
_PICTURES_SHOWN = """() => [...document.images].every(image => {
    const { top, bottom } = image.getBoundingClientRect();
    return image.complete || bottom < 0 || top > innerHeight;
})"""
QUOTAS = {"chest-imaging": 4, "pathology": 2, "robotics": 2, "language": 8}
JOBS = [
    ("chest-imaging", "lab.gpu-1", "lung-seg", 900),
    ("chest-imaging", "lab.gpu-half", "notebook-ana", 40_000),
    ("pathology", "lab.gpu-1", "slides-tiles", 420),
    ("pathology", "lab.gpu-half", "slides-embed", 800),
    ("robotics", "lab.gpu-half", "grasp-sim", 600),
    ("robotics", "lab.gpu-half", "grasp-eval", 300),
    ("language", "lab.gpu-8", "pretrain-7b", 1500),
    ("language", "lab.gpu-8", "pretrain-7b-long", 9600),
    ("robotics", "lab.gpu-8", "grasp-sweep", 600),
]
"""Project, template, name and simulated seconds of jobs on nodes that do not exist; the last two wait."""
WAITS = JOBS[-1][2]


def main() -> None:
    """Write docs/images/*.png."""
    with tempfile.TemporaryDirectory(prefix="nearline-screenshots-") as folder:
        product = Product(Path(folder) / "home", environment={"SAMPLE": "1"}).start()
        try:
            _wait(product, (product.home / "sample.told").exists)
            _add_cluster(product)
            _add_commit(product)
            _render(product)
        finally:
            product.stop()


def _wait(product: Product, is_done) -> None:  # noqa: ANN001 (a callable without arguments)
    deadline = time.monotonic() + STORY_LIMIT_S
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit("The sample was not ready in time:\n" + product.log_of("up"))
        time.sleep(0.2)


def _add_cluster(product: Product) -> None:
    for name, gpus in QUOTAS.items():
        product.api("POST", "/projects", {"name": name})
        product.api("PATCH", f"/scheduler/queues/{name}", {"gpu_quota_milli": 1000 * gpus})
    for project, template, name, seconds in JOBS:
        job = {"project": project, "template": template, "name": name, "command": f"python {name}.py"}
        product.api("POST", "/compute/jobs", {**job, "simulated_duration_s": seconds})
    _wait(product, lambda: len(product.api("GET", "/compute/jobs?state=running")["items"]) >= len(JOBS) - 2)
    _wait(product, lambda: product.api("GET", f"/compute/jobs/{WAITS}")["outlook"])


def _add_commit(product: Product) -> None:
    folder = product.home / "sample" / "digits"
    for picture in sorted((folder / "1").glob("*.png"))[:60]:
        picture.unlink()
    product.cli("data", "sync", "--message", "Remove what nobody could read", "--quiet", cwd=folder)
    product.cli("data", "cache", "demo/digits@main", "--wait", "--quiet", cwd=folder)
    product.api("PATCH", "/cache/sites/local", {"capacity_bytes": 600_000})


def _pages(product: Product) -> dict[str, str]:
    run = product.api("GET", "/runs?project=demo")["items"][0]["id"]
    return {
        "overview": "/",
        "commits": "/datasets/demo/digits/commits/",
        "run": f"/runs/{run}/",
        "experiments": "/experiments/?project=demo",
        "job": f"/jobs/{WAITS}/",
        "cache": "/cache/",
        "quotas": "/quotas/?project=",
    }


def _render(product: Product) -> None:
    link = next(line.split()[-1] for line in product.log_of("up").splitlines() if "/sign-in/" in line)
    IMAGES.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("NEARLINE_CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = _open(browser)
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        for name, path in _pages(product).items():
            _shoot(page, product.url + path, name)
        browser.close()


def _open(browser: Browser) -> Page:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    return context.new_page()


def _shoot(page: Page, address: str, name: str) -> None:
    answer = page.goto(address)
    if answer is None or not answer.ok:
        raise SystemExit(f"{address} answered {answer.status if answer else 'nothing'}.")
    page.wait_for_timeout(SETTLED_MS)
    page.wait_for_function(_PICTURES_SHOWN)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    # 256 colours are enough for pages, and a third of the bytes.
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
