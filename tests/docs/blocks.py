"""The examples of a Markdown page: its fenced and indented blocks, in order.

An invisible comment above a block says what cannot be seen in it:
`<!-- not run: reason -->`, `<!-- file: path -->` (where a reader would save it), `<!-- in a job -->`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"```(\w*)$")
_MARK = re.compile(r"<!-- (not run|file|in a job)(?:: (.+))? -->")
_LIST_ITEM = re.compile(r"\s*([-*]|\d+\.) ")


@dataclass(frozen=True)
class Block:
    """One block: the line where it begins, its language (`sh` when indented), its text, and what its comment says."""

    line: int
    language: str
    text: str
    mark: str = ""
    value: str = ""


def read_blocks(page: Path) -> list[Block]:
    """Return every block of a page."""
    lines = page.read_text().splitlines()
    return [Block(start + 1, *rest, *_mark_above(lines, start)) for start, *rest in _find(lines)]


def _find(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    number, is_in_list = 0, False
    while number < len(lines):
        line, start = lines[number], number
        if fence := _FENCE.match(line):
            end = lines.index("```", start + 1)
            yield start, fence[1], "\n".join(lines[start + 1 : end]) + "\n"
            number = end
        elif line.startswith("    ") and not is_in_list and not lines[number - 1].strip():
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            yield start, "sh", "\n".join(text[4:] for text in lines[start:number]).rstrip() + "\n"
            continue
        elif line.strip() and not line.startswith(" "):
            is_in_list = bool(_LIST_ITEM.match(line))
        number += 1


def _mark_above(lines: list[str], start: int) -> tuple[str, str]:
    above = next((line for line in reversed(lines[:start]) if line.strip()), "")
    mark = _MARK.fullmatch(above)
    return (mark[1], mark[2] or "") if mark else ("", "")
