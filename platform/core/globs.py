"""Which files of an output folder a step wants kept: `*.png`, `models/**`, `**/report.html`."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from nearline.content.patterns import MAX_LENGTH, Patterns, parse_glob

LONGEST, LONGEST_TOGETHER = MAX_LENGTH, 16 * MAX_LENGTH
"""How many characters one pattern has at most, and all of a step."""
LONGEST_WITH_WILDCARDS = MAX_LENGTH
"""How many characters those of a step with wildcards have together at most: the time of each path grows with them."""


def matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path (relative, with slashes) matches one of the patterns. `**` crosses folders, `*` and `?` do not.

    Patterns beyond the limits match nothing: versions from before there were limits may hold such.
    """
    paths, compiled = _compiled(tuple(patterns))
    return path in paths or compiled.matches(path)


def has_wildcards(pattern: str) -> bool:
    """Whether a pattern stands for more than one path."""
    text = pattern.strip()
    return "*" in text or "?" in text or text.endswith("/")


@lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> tuple[frozenset[str], Patterns]:
    texts = list(_read(patterns))
    # A set of letters is none here: `[` stands for itself.
    globs = (text.replace("[", "[[]") for text in texts if has_wildcards(text))
    return (
        frozenset(text for text in texts if not has_wildcards(text)),
        Patterns(parse_glob(f"{text}**" if text.endswith("/") else text) for text in globs),
    )


def _read(patterns: Sequence[str]) -> Iterator[str]:
    total = 0
    for pattern in patterns:
        total += len(pattern)
        if len(pattern) <= LONGEST and total <= LONGEST_TOGETHER:
            yield pattern.strip().removeprefix("./")
