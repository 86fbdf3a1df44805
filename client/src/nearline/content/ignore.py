"""Which paths of a folder its `.nearlineignore` and `.cnvrgignore` leave out.

Lines are read as git reads them: gitignore(5), and `wildmatch.c` where that is silent.
"""

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nearline.content.paths import to_text
from nearline.content.patterns import ANY_LETTER, Item, OneOf, Patterns, Wild

IGNORE_FILES = (b".nearlineignore", b".cnvrgignore")
MAX_IGNORE_BYTES = 2**20
_WILD_SIGNS = "*?[\\"
_CLASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "blank": ((" ", " "), ("\t", "\t")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": (("0", "9"),),
    "graph": (("!", "~"),),
    "lower": (("a", "z"),),
    "print": ((" ", "~"),),
    "punct": tuple((sign, sign) for sign in string.punctuation),
    "space": ((" ", " "), ("\t", "\r")),
    "upper": (("A", "Z"),),
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}


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


@dataclass(frozen=True)
class Rule:
    """What a line says: which paths it means, whether folders alone, and whether those are not ignored after all."""

    items: list[Item]
    is_negated: bool
    is_for_folders: bool


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


def read_line(line: str) -> Rule | None:
    """Return what a line says; None for a comment, an empty line, and a pattern that matches nothing."""
    if line.startswith("#"):
        return None
    text = _strip_spaces(line.removesuffix("\r"))
    is_negated = text.startswith("!")
    text = text[is_negated:]
    is_for_folders = text.endswith("/")
    text = text[: len(text) - is_for_folders]
    try:
        # Without a slash it means a name anywhere, with one a path from the root of the folder.
        items = _read_path(text.removeprefix("/")) if "/" in text else [Wild.FOLDERS, *_read_name(text)]
    except _MatchesNothing:
        return None
    return Rule(items, is_negated, is_for_folders) if text else None


class _MatchesNothing(Exception):
    pass


def _strip_spaces(text: str) -> str:
    """Drop the spaces at the end, up to the last that a backslash protects."""
    plain = text.rstrip(" ")
    backslashes = len(plain) - len(plain.rstrip("\\"))
    return text[: len(plain) + 1] if backslashes % 2 else plain


def _read_name(text: str) -> list[Item]:
    return _read(text, lambda _start, _end: False)


def _read_path(text: str) -> list[Item]:
    # Git compares what stands before the first sign on its own, and takes the rest for a pattern's beginning.
    plain = min((text.find(sign) for sign in _WILD_SIGNS if sign in text), default=len(text))

    def crosses_folders(start: int, end: int) -> bool:
        return (start in {0, plain} or text[start - 1] == "/") and text[end : end + 1] in {"", "/"}

    return _read(text, crosses_folders)


def _read(text: str, crosses_folders: Callable[[int, int], bool]) -> list[Item]:
    items: list[Item] = []
    position = 0
    while position < len(text):
        start, char = position, text[position]
        position += 1
        if char == "*":
            while text[position : position + 1] == "*":
                position += 1
            if position - start == 1 or not crosses_folders(start, position):
                items.append(Wild.NAME)
            elif position == len(text):
                items.append(Wild.ANY)
            else:
                items.append(Wild.FOLDERS)
                position += 1
        elif char == "?":
            items.append(ANY_LETTER)
        elif char == "[":
            letters, position = _read_set(text, position)
            items.append(letters)
        elif char == "\\":
            items.append(_at(text, position))
            position += 1
        else:
            items.append(char)
    return items


def _read_set(text: str, position: int) -> tuple[OneOf, int]:
    """Read a set from behind its bracket on; return it and the place behind it."""
    is_negated = _at(text, position) in "!^"
    position += is_negated
    ranges: list[tuple[str, str]] = []
    low = ""  # the character that a `-` would make a range of
    is_first = True
    while (char := _at(text, position)) != "]" or is_first:
        is_first = False
        if char == "-" and low and text[position + 1 : position + 2] not in {"", "]"}:
            high, position = _read_letter(text, position + 1)
            ranges.append((low, high))
            low = ""
        elif char == "[" and text.startswith(":", position + 1):
            end = text.find("]", position + 2)
            if end == -1:
                raise _MatchesNothing
            if end > position + 2 and text[end - 1] == ":":
                if (name := text[position + 2 : end - 1]) not in _CLASSES:
                    raise _MatchesNothing
                ranges.extend(_CLASSES[name])
                low, position = "", end + 1
            else:
                low, position = char, position + 1
                ranges.append((low, low))
        else:
            low, position = _read_letter(text, position)
            ranges.append((low, low))
    return OneOf(tuple(ranges), is_negated), position + 1


def _read_letter(text: str, position: int) -> tuple[str, int]:
    if text[position] == "\\":
        position += 1
    return _at(text, position), position + 1


def _at(text: str, position: int) -> str:
    if position >= len(text):
        raise _MatchesNothing
    return text[position]
