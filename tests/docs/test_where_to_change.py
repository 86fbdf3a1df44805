"""The table "Where to change what" leads a newcomer to files and names that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(r"\| (.+) \| `([^`]+)` \| `([^`]+)` \|")
_FEWEST = 20


def rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition("## Where to change what")[2].partition("\n## ")[0]
    return _ROW.findall(section)


def test_there_are_at_least_twenty_changes_and_none_stands_twice():
    changes = [change for change, _, _ in rows()]

    assert len(changes) >= _FEWEST
    assert len(set(changes)) == len(changes)


@pytest.mark.parametrize(("change", "begin", "test"), rows())
def test_it_begins_where_the_table_says(change, begin, test):
    path, _, name = begin.partition(":")

    assert (ROOT / path).exists(), f"{change}: there is no {path}"
    assert (ROOT / test).exists(), f"{change}: there is no {test}"
    if name:
        names = {getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body}
        assert name in names, f"{change}: {path} defines no {name}"
