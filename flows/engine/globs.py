"""Which files of an output folder a step wants kept: `*.png`, `models/**`, `**/report.html`."""

import re
from collections.abc import Sequence
from functools import lru_cache

_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path (relative, with slashes) matches one of the patterns. `**` crosses folders, `*` and `?` do not."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.strip().removeprefix("./")
    if text.endswith("/"):
        text += "**"
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", text)
    return re.compile("".join(_WILD.get(token) or re.escape(token) for token in tokens), re.DOTALL)
