"""Which paths of a folder its `.nearlineignore` and `.cnvrgignore` leave out, with gitignore's syntax."""

from collections.abc import Iterable, Sequence

from nearline.content.ignore_lines import Rule, read_line
from nearline.content.paths import to_text
from nearline.content.patterns import Patterns

IGNORE_FILES = (b".nearlineignore", b".cnvrgignore")
MAX_IGNORE_BYTES = 2**20


class IgnoreRules:
    """Answers for paths relative to the root of the folder."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        rules = [rule for line in lines if (rule := read_line(line)) is not None]
        self.has_rules = bool(rules)
        self._of_folders = _RuleList(rules)
        self._of_files = _RuleList([rule for rule in rules if not rule.is_for_folders])

    def is_ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether this path itself is ignored; an ignored folder above it is the caller's business."""
        return (self._of_folders if is_folder else self._of_files).is_ignored(path)

    def covers(self, path: bytes) -> bool:
        """Return whether the file at this path is ignored, by its own name or by that of a folder above it."""
        return self.is_ignored(path, is_folder=False) or self._of_folders.is_below_ignored(path)


class _RuleList:
    """Rules that are matched together. The last one that matches decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._patterns = Patterns(rule.items for rule in rules)

    def is_ignored(self, path: bytes) -> bool:
        return bool(self._rules) and self._decides(self._patterns.last_match(to_text(path)))

    def is_below_ignored(self, path: bytes) -> bool:
        return bool(self._rules) and any(map(self._decides, self._patterns.last_matches_of_folders(to_text(path))))

    def _decides(self, index: int | None) -> bool:
        return index is not None and not self._rules[index].is_negated


def split_lines(data: bytes) -> list[str]:
    """Return the lines of an ignore file."""
    return to_text(data.removeprefix(b"\xef\xbb\xbf")).split("\n")
