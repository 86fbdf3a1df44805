"""What a browser must load for a page, as it was built: small on every page but those of the two editors."""

import gzip
import re
from pathlib import Path

import pytest

DIST = Path(__file__).resolve().parents[3] / "platform/web/static/web/dist"
LIMIT_BYTES = 150_000
ISLANDS = ("code_mirror", "mount", "yaml_pane", "merge_view", "text_diff", "flow_editor", "graph", "conflict", "theme-")
STATIC_IMPORT = re.compile(r'(?:import|from)\s*"\./([^"]+\.js)"')
LAZY_IMPORT = re.compile(r'import\(\s*[`"]\./([^`"]+\.js)[`"]\s*\)')


@pytest.fixture(autouse=True)
def _is_built():
    assert (DIST / "app.js").exists(), "the bundle is not built: make platform/web/static/web/dist/.built"


def load(*names: str) -> set[str]:
    """Return the scripts that these bring along by themselves."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += STATIC_IMPORT.findall((DIST / name).read_text())
    return found


def weigh(*names: str) -> int:
    return sum(len(gzip.compress((DIST / name).read_bytes())) for name in names)


def test_an_ordinary_page_loads_little():
    assert weigh(*load("app.js", "theme.js"), "app.css") < LIMIT_BYTES


def test_a_page_with_charts_and_all_other_small_parts_does_too():
    lazy = {name for name in LAZY_IMPORT.findall((DIST / "app.js").read_text()) if not name.startswith(ISLANDS)}
    styles = [path.name for path in DIST.glob("uPlot*.css")]

    assert any(name.startswith("charts") for name in lazy)
    assert weigh(*load("app.js", "theme.js", *lazy), "app.css", *styles) < LIMIT_BYTES


def test_no_ordinary_page_loads_an_island():
    assert [name for name in load("app.js", "theme.js") if name.startswith(ISLANDS) and name != "theme.js"] == []


def test_the_build_is_for_our_own_origin_only():
    for path in [*DIST.glob("*.js"), *DIST.glob("*.css")]:
        assert not re.search(r"url\(\s*[\"']?https?:|@import", path.read_text()), path.name
