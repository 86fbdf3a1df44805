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


@dataclass(frozen=True)
class SideBySide:
    """A line of each of two texts. Numbers count from 1; None: the other text has no line there."""

    is_same: bool
    left: int | None
    left_text: str
    right: int | None
    right_text: str


def pair_lines(left: Sequence[str], right: Sequence[str]) -> Iterator[SideBySide]:
    """Yield the lines of both texts beside each other, where they differ and around."""
    for group in SequenceMatcher(None, left, right).get_grouped_opcodes(_AROUND):
        for tag, left_start, left_end, right_start, right_end in group:
            for offset in range(max(left_end - left_start, right_end - right_start)):
                a, b = left_start + offset, right_start + offset
                has_left, has_right = a < left_end, b < right_end
                yield SideBySide(
                    tag == "equal",
                    a + 1 if has_left else None,
                    left[a] if has_left else "",
                    b + 1 if has_right else None,
                    right[b] if has_right else "",
                )


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
