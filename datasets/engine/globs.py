"""Patterns for paths: `*` and `?` stay within one name, `**` crosses folders, `[…]` is a set."""

import re
from dataclasses import dataclass

from nearline.content.paths import MAX_PATH_BYTES

_SPECIAL = re.compile(rb"[*?\[]")


@dataclass(frozen=True)
class Glob:
    """A pattern to be matched against whole paths: every match begins with `prefix`, and sorts before `end`."""

    pattern: re.Pattern[bytes]
    prefix: bytes
    end: bytes


def compile_glob(pattern: bytes) -> Glob:
    """Return what finds the paths that a pattern means; `**/x` also finds `x` at the top."""
    special = _SPECIAL.search(pattern)
    prefix = pattern[: special.start()] if special else pattern
    # Nothing sorts behind this but paths that begin otherwise: no path is longer, and 255 is the greatest byte.
    return Glob(_compile(pattern), prefix, prefix + b"\xff" * MAX_PATH_BYTES)


def _compile(pattern: bytes) -> re.Pattern[bytes]:
    parts = []
    position = 0
    while position < len(pattern):
        if pattern.startswith(b"**/", position):
            parts.append(rb"(?:[^/]+/)*")
            position += 3
        elif pattern.startswith(b"**", position):
            parts.append(rb".*")
            position += 2
        else:
            text, position = _one(pattern, position)
            parts.append(text)
    return re.compile(b"".join(parts), re.DOTALL)


def _one(pattern: bytes, position: int) -> tuple[bytes, int]:
    letter = pattern[position : position + 1]
    if letter == b"*":
        return rb"[^/]*", position + 1
    if letter == b"?":
        return rb"[^/]", position + 1
    # A `]` right after the opening one belongs to the set.
    end = pattern.find(b"]", position + 2 + (pattern[position + 1 : position + 2] in {b"!", b"^"}))
    if letter != b"[" or end == -1:
        return re.escape(letter), position + 1
    inside = pattern[position + 1 : end]
    is_negated = inside[:1] in {b"!", b"^"}
    if is_negated:
        inside = inside[1:]
    members = re.sub(rb"([\\\[\]^&~|])", rb"\\\1", inside)
    try:
        re.compile(b"[" + members + b"]")
    except re.error:
        return re.escape(pattern[position : end + 1]), end + 1
    return (rb"(?!/)[^" if is_negated else b"(?!/)[") + members + b"]", end + 1
