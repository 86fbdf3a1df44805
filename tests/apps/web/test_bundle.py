"""What a browser must load for a page, as it was built: small on every page but those of the two editors."""

import gzip
import json
import re
from pathlib import Path

DIST = Path(__file__).resolve().parents[3] / "platform/web/static/web/dist"
LIMIT_BYTES = 150_000
ISLANDS = ("code_mirror", "mount", "yaml_pane", "merge_view", "elements", "graph", "conflict", "theme-")
STATIC_IMPORT = re.compile(r'(?:import|from)\s*"\./([^"]+\.js)"')
LAZY_IMPORT = re.compile(r'import\(\s*[`"]\./([^`"]+\.js)[`"]\s*\)')


def built(source: str, kind: str = "file") -> str:
    """Return the name of the file that the build made of a source."""
    row = json.loads((DIST / "manifest.json").read_text())[source]
    return row["css"][0] if kind == "css" else row["file"]


def entries() -> list[str]:
    return [built("src/app.ts"), built("src/theme.ts")]


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
    assert weigh(*load(*entries()), built("src/app.ts", "css")) < LIMIT_BYTES


def test_a_page_with_charts_and_all_other_small_parts_does_too():
    lazy = {
        name for name in LAZY_IMPORT.findall((DIST / built("src/app.ts")).read_text()) if not name.startswith(ISLANDS)
    }
    styles = [path.name for path in DIST.glob("uPlot*.css")]

    assert any(name.startswith("charts") for name in lazy)
    assert weigh(*load(*entries(), *lazy), built("src/app.ts", "css"), *styles) < LIMIT_BYTES


def test_no_ordinary_page_loads_an_island():
    assert [name for name in load(*entries()) - set(entries()) if name.startswith(ISLANDS)] == []


def test_the_build_is_for_our_own_origin_only():
    for path in [*DIST.glob("*.js"), *DIST.glob("*.css")]:
        assert not re.search(r"url\(\s*[\"']?https?:|@import", path.read_text()), path.name
