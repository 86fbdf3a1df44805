"""Which names a folder keeps to itself: `.nearlineignore` and `.cnvrgignore` at its root, with gitignore's syntax.

What is ignored is neither sent nor fetched nor removed: a commit that holds such a file keeps it.
"""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nearline.content.paths import to_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (b".nearlineignore", b".cnvrgignore")
_OWN_FOLDERS = {b".nearline", b".cnvrg", b".tmp"}
_OWN_ENDINGS = (b".conflict", b".deleted")


class IgnoreRules:
    """Answers for paths relative to the root of the folder."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        patterns = [line for line in lines if line.strip() and not line.startswith("#")]
        self._spec: GitIgnoreSpec | None = _compile(patterns) if patterns else None

    def is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether this path itself is ignored; an ignored folder above it is the caller's business."""
        name = path.rpartition(b"/")[2]
        if name.endswith(_OWN_ENDINGS) or (is_folder and name in _OWN_FOLDERS):
            return True
        if self._spec is None:
            return False
        return self._spec.match_file(to_text(path) + ("/" if is_folder else ""))

    def covers(self, path: bytes) -> bool:
        """Return whether the file at this path is ignored, by its own name or by that of a folder above it."""
        if self.is_ignored(path, is_folder=False):
            return True
        end = path.find(b"/")
        while end != -1:
            if self.is_ignored(path[:end], is_folder=True):
                return True
            end = path.find(b"/", end + 1)
        return False


def read_rules(root: bytes) -> IgnoreRules:
    """Return the rules that the files at the root of the folder make."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        try:
            with open(os.path.join(root, name), encoding="utf-8", errors="surrogateescape") as file:
                lines += file.read().splitlines()
        except FileNotFoundError:
            continue
    return IgnoreRules(lines)


def _compile(patterns: list[str]) -> "GitIgnoreSpec":
    # Imported here: most folders have no such file, and the import is a good part of a command's start.
    from pathspec import GitIgnoreSpec  # noqa: PLC0415

    return GitIgnoreSpec.from_lines(patterns)
