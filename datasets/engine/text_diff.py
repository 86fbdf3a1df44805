"""Which lines of a text changed, with some lines around each change, as a page shows them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_AROUND = 3


@dataclass(frozen=True)
class DiffLine:
    """A line. `kind`: same, added, removed, gap (lines left out). Numbers count from 1; None: not on that side."""

    kind: str
    before: int | None
    after: int | None
    text: str


def diff_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    """Yield the lines that differ and those around them. Takes a second or so for the longest texts that we show."""
    end = 0
    for group in SequenceMatcher(None, before, after).get_grouped_opcodes(_AROUND):
        if group[0][1] > end:
            yield DiffLine("gap", None, None, "")
        end = group[-1][2]
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                for old, new in zip(range(old_start, old_end), range(new_start, new_end), strict=True):
                    yield DiffLine("same", old + 1, new + 1, after[new])
                continue
            for old in range(old_start, old_end):
                yield DiffLine("removed", old + 1, None, before[old])
            for new in range(new_start, new_end):
                yield DiffLine("added", None, new + 1, after[new])
    if 0 < end < len(before):
        yield DiffLine("gap", None, None, "")
