"""Render the pictures of the README from the sample data: start the product, wait for its story, open its pages."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from tests.journeys.product import Product  # noqa: E402 (the path must be set first)

IMAGES = ROOT / "docs" / "images"
STORY_LIMIT_S = 120


def main() -> None:
    """Write docs/images/*.png."""
    with tempfile.TemporaryDirectory(prefix="nearline-screenshots-") as folder:
        product = Product(Path(folder) / "home", environment={"SAMPLE": "1"}).start()
        try:
            _wait_for_story(product)
            _render(product)
        finally:
            product.stop()


def _wait_for_story(product: Product) -> None:
    deadline = time.monotonic() + STORY_LIMIT_S
    while not (product.home / "sample.told").exists():
        if time.monotonic() > deadline:
            raise SystemExit("The story did not end:\n" + product.log_of("up"))
        time.sleep(0.2)


def _render(product: Product) -> None:
    link = next(line.split()[-1] for line in product.log_of("up").splitlines() if "/sign-in/" in line)
    run = product.api("GET", "/runs?project=demo")["items"][0]["id"]
    pages = {
        "commits": "/datasets/demo/digits/commits/",
        "files": "/datasets/demo/digits/?path=3",
        "run": f"/runs/{run}/",
        "experiments": "/experiments/",
        "overview": "/",
    }
    IMAGES.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("NEARLINE_CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.goto(link)
        page.get_by_role("button", name="Sign in").click()
        for name, path in pages.items():
            page.goto(product.url + path)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()
    subprocess.run(["git", "-C", ROOT, "status", "--short", "docs/images"], check=False)


if __name__ == "__main__":
    main()
