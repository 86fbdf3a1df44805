"""Pages of decisions have the same parts, so that a reader finds each where it was on the page before."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs/decisions").glob("*.md"))
PARTS = ["Status", "Date", "Context", "Options", "Decision", "Consequences"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem[:4])
def test_a_decision_says_its_status_its_date_and_what_else_was_possible(page):
    text = page.read_text()
    parts = re.findall(r"^\*\*([A-Z][a-z ]+)\.\*\*", text, re.MULTILINE)

    assert [part for part in parts if part in PARTS] == PARTS
    assert text.startswith(f"# {page.stem[:4]} ")
    assert re.search(
        r"^\*\*Status\.\*\* (Accepted|Superseded by \[\d{4}\]\(\d{4}-[a-z0-9-]+\.md\))\.$", text, re.MULTILINE
    )
    assert re.search(r"^\*\*Date\.\*\* \d{4}-\d{2}-\d{2}\.$", text, re.MULTILINE)


def test_decisions_are_numbered_one_after_the_other():
    assert [page.stem[:4] for page in PAGES] == [f"{number:04}" for number in range(1, len(PAGES) + 1)]
