"""Which files of an output folder a step wants kept: `*.png`, `models/**`, `**/report.html`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from nearline.content.patterns import MAX_LENGTH, Item, Patterns, parse_glob

LONGEST, LONGEST_TOGETHER = MAX_LENGTH, 16 * MAX_LENGTH
"""How many characters one pattern has at most, and all of a step."""


def matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path (relative, with slashes) matches one of the patterns. `**` crosses folders, `*` and `?` do not.

    Patterns beyond the limits match nothing: versions from before there were limits may hold such.
    """
    return _compiled(tuple(patterns)).matches(path)


@lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> Patterns:
    return Patterns(_read(patterns))


def _read(patterns: Sequence[str]) -> Iterator[list[Item]]:
    total = 0
    for pattern in patterns:
        total += len(pattern)
        if len(pattern) <= LONGEST and total <= LONGEST_TOGETHER:
            text = pattern.strip().removeprefix("./")
            # A set of letters is none here: `[` stands for itself.
            text = text.replace("[", "[[]")
            yield parse_glob(f"{text}**" if text.endswith("/") else text)
