"""Every page, in both themes and both widths: complete, quiet, within its width, named for those who do not see it."""

import pytest

pytestmark = pytest.mark.browser

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
    "/datasets/demo/digits/names/",
    "/datasets/demo/digits/settings/",
    "/flows/",
    "/flows/new/",
    "/flows/demo/digits/",
    "/flows/demo/digits/edit/",
    "{run}",
    "{run}?step=report",
    "/experiments/",
    "{experiment}",
    "/experiments/compare/?ids={ids}",
    "/jobs/",
    "{job}",
    "/cache/",
    "/cache/?need=1TB",
    "/compute/",
    "/search/?q=digits",
    "/settings/tokens/",
    "/settings/members/",
]
EMPTY_PAGES = ["/", "/datasets/", "/flows/", "/flows/new/", "/experiments/", "/jobs/", "/cache/", "/search/?q=x",
               "/settings/tokens/", "/settings/members/"]  # fmt: skip

UNNAMED = """() => [...document.querySelectorAll('button, a[href], input:not([type=hidden]), select, textarea, img')]
    .filter(item => item.tagName === 'IMG' ? !item.hasAttribute('alt')
        : !(item.ariaLabel || item.textContent.trim() || item.title || item.labels?.length || item.closest('label')
          || item.querySelector('img[alt]:not([alt=""])')))
    .map(item => item.outerHTML.slice(0, 160))"""

FAINT = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const mix = (top, below) => { const a = top[3] ?? 1; return top.slice(0, 3).map((c, i) => c * a + below[i] * (1 - a)); };
  const surface = node => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.unshift(parse(getComputedStyle(at).backgroundColor));
    return layers.reduce((below, top) => mix(top, below), [255, 255, 255]);
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest('svg, [disabled], option, .u-legend')) continue;
    const under = surface(node), colour = mix(parse(getComputedStyle(node).color), under);
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push(`${((a + .05) / (b + .05)).toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return [...new Set(faint)];
}"""


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 1440), ("light", 390), ("dark", 390)])
def test_every_page_is_quiet_and_fits(open_page, admin_state, finished_run, theme, width):
    watched = open_page(admin_state, theme=theme, width=width)
    attempt = finished_run["steps"][0]["attempts"][0]
    experiments = [step["experiment_id"] for step in finished_run["steps"]]
    names = {
        "run": f"/runs/{finished_run['id']}/",
        "experiment": f"/experiments/{experiments[0]}/",
        "ids": ",".join(experiments),
        "job": f"/jobs/{attempt['job_name']}/",
    }

    faults = {path: look(watched.page, path.format(**names)) for path in PAGES}

    assert {path: fault for path, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("path", EMPTY_PAGES)
def test_a_page_without_content_says_what_will_stand_there(open_page, stranger_state, path):
    watched = open_page(stranger_state)

    fault = look(watched.page, path)

    assert not fault
    if path not in {"/search/?q=x", "/cache/"}:
        assert watched.page.locator(".empty-state .command, form").first.is_visible()


def test_the_page_knows_its_theme_before_its_first_paint(open_page, admin_state):
    watched = open_page(admin_state, theme="dark")
    watched.page.goto("/")

    assert watched.page.locator("html").get_attribute("data-bs-theme") == "dark"
    watched.page.get_by_role("button", name="Theme: system").click()
    assert watched.page.locator("html").get_attribute("data-bs-theme") == "light"
    watched.page.reload()
    assert watched.page.locator("html").get_attribute("data-bs-theme") == "light"


def test_the_rail_folds_on_a_phone_and_escape_closes_it(open_page, admin_state):
    watched = open_page(admin_state, width=390)
    watched.page.goto("/")
    entry = watched.page.get_by_role("navigation", name="Main").get_by_role("link", name="Datasets")

    watched.page.get_by_role("button", name="Menu").click()
    entry.wait_for(state="visible")
    watched.page.keyboard.press("Escape")

    entry.wait_for(state="hidden")


def test_slash_takes_the_keyboard_to_the_search_and_enter_searches(open_page, admin_state, finished_run):
    watched = open_page(admin_state)
    watched.page.goto("/cache/")

    watched.page.keyboard.press("/")
    watched.page.keyboard.type("digits")
    watched.page.keyboard.press("Enter")
    watched.page.get_by_role("link", name="demo/digits").first.wait_for()

    assert watched.page.url.endswith("/search/?q=digits")


def test_the_first_tab_offers_to_skip_to_the_content(open_page, admin_state):
    watched = open_page(admin_state)
    watched.page.goto("/datasets/")

    watched.page.keyboard.press("Tab")

    assert watched.page.evaluate("document.activeElement.textContent") == "Skip to the content"


def look(page, path: str) -> dict[str, object]:
    """Open a page and return what is wrong with it."""
    answer = page.goto(path)
    page.wait_for_load_state("load")
    found = {
        "status": answer.status if answer.status != 200 else None,
        "headings": None if page.locator("h1").count() == 1 else page.locator("h1").count(),
        "too wide by": page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
        "unnamed": page.evaluate(UNNAMED),
        "faint": page.evaluate(FAINT),
    }
    return {what: value for what, value in found.items() if value}
