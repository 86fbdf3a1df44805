"""Patterns for the paths of a tree, whose ranges are ordered: where to look, and what matches there."""

import re
from dataclasses import dataclass
from itertools import groupby

from nearline.content.paths import MAX_PATH_BYTES, to_bytes, to_text
from nearline.content.patterns import Patterns, parse_glob

_SPECIAL = re.compile(rb"[*?\[]")


@dataclass(frozen=True)
class Glob:
    """A pattern to be matched against whole paths.

    Every match begins with `prefix`, sorts before `end`, and holds `part`, the longest text without a wildcard.
    """

    patterns: Patterns
    prefix: bytes
    end: bytes
    part: bytes

    def matches(self, path: bytes) -> bool:
        """Return whether the whole path matches."""
        return self.patterns.matches(to_text(path))


def compile_glob(pattern: bytes) -> Glob:
    """Return what finds the paths that a pattern means; `**/x` also finds `x` at the top."""
    special = _SPECIAL.search(pattern)
    prefix = pattern[: special.start()] if special else pattern
    items = parse_glob(to_text(pattern))
    texts = ("".join(map(str, run)) for is_text, run in groupby(items, lambda item: isinstance(item, str)) if is_text)
    # Nothing sorts behind this but paths that begin otherwise: no path is longer, and 255 is the greatest byte.
    end = prefix + b"\xff" * MAX_PATH_BYTES
    return Glob(Patterns([items]), prefix, end, to_bytes(max(texts, key=len, default="")))
