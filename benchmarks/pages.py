"""What a person waits for in the browser: the run page and the flow editor with 300 steps, against 3 steps.

The peer is the same page with next to nothing on it: what is above it is the price of 300 steps. Needs Chromium and the
packages of `make test`.
"""

import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from benchmarks.product import median, running
from tests.journeys.product import Product

CHROMIUM = "/usr/bin/chromium"
SIZES = (3, 300)
WIDTH = 10
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
# Of a large graph only what is in view is drawn: these many at least.
_IN_VIEW = 20
_DRAWN = "count => document.querySelectorAll('.react-flow__node').length >= count"
_FRAMES = """() => new Promise(done => {
    const times = [], end = performance.now() + 1500;
    const next = now => { times.push(now); now < end ? requestAnimationFrame(next) : done(times) };
    requestAnimationFrame(next);
})"""
_PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def main() -> None:
    with running() as product, TemporaryDirectory() as folder, sync_playwright() as playwright:
        here = Path(folder)
        product.cli("project", "create", "bench", cwd=here)
        shape = {"name": "tiny", "cpu_millicores": 100, "memory_bytes": 50_000_000, "gpu_milli": 0}
        product.api("POST", "/compute/templates", {"resource": "this-machine", **shape})
        runs = {size: _run(product, size) for size in SIZES}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(next(line.split()[-1] for line in product.log_of("up").splitlines() if "/sign-in/" in line))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        print(f"milliseconds, median of {ROUNDS}   3 steps   300 steps   ratio")
        for name, measure in {
            "run page, graph drawn": lambda size: _open(page, f"{product.url}/runs/{runs[size]}/", size),
            "flow editor, graph drawn": lambda size: _open(page, f"{product.url}/flows/bench/pages-{size}/edit/", size),
            "flow editor, a frame while dragging": lambda size: _drag(
                page, f"{product.url}/flows/bench/pages-{size}/edit/", size
            ),
        }.items():
            few, many = ([measure(size) for _ in range(ROUNDS)] for size in SIZES)
            print(f"{name:<38}{median(few):8.0f}{median(many):12.0f}{median(many) / median(few):8.1f}")
        browser.close()


def _run(product: Product, size: int) -> str:
    steps = "".join(
        f"  - {{name: s{number}, command: 'true', compute: [this-machine.tiny]{_after(number)}}}\n"
        for number in range(size)
    )
    product.api("POST", "/flows", {"project": "bench", "text": f"flow: pages-{size}\nsteps:\n{steps}"})
    run = product.api("POST", f"/flows/bench/pages-{size}/runs", {"parameters": {}})
    product.wait_for(lambda: product.api("GET", f"/runs/{run['id']}"), lambda run: run["state"] == "succeeded")
    return run["id"]


def _after(number: int) -> str:
    """Every step waits for two of the layer above it."""
    if number < WIDTH:
        return ""
    above = (number // WIDTH - 1) * WIDTH
    return f", after: [s{above + number % WIDTH}, s{above + (number + 1) % WIDTH}]"


def _open(page: Page, url: str, nodes: int) -> float:
    page.goto("about:blank")
    page.goto(url, wait_until="commit")
    page.wait_for_function(_DRAWN, arg=min(nodes, _IN_VIEW), polling="raf")
    page.evaluate(_PAINTED)
    return page.evaluate("() => performance.now()")


def _drag(page: Page, url: str, nodes: int) -> float:
    """Return the 95th of 100 frames while a step is dragged about the canvas and back."""
    _open(page, url, nodes)
    box = page.locator(".react-flow__node").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(f"() => {{ window.frameTimes = ({_FRAMES})() }}")
    for step in (*range(30), *range(30, 0, -1)):
        page.mouse.move(x + step * 2, y + step)
        if step == 30 and page.locator(".react-flow__node").first.bounding_box() == box:
            raise SystemExit("The step does not move, so nothing was measured.")
    times = page.evaluate("() => window.frameTimes")
    page.mouse.up()
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    return gaps[len(gaps) * 95 // 100]
