"""What people and programs are told about names that collide: some of them, each told apart from the others."""

import unicodedata
from collections.abc import Sequence

from nearline.content.paths import Collision, show_path

MAX_GROUPS = 20
MAX_NAMES = 20
_REASONS = {"clash": "need one name as a file and a folder", "fold": "differ only in case or Unicode form"}


def describe_collisions(collisions: Sequence[Collision], *, is_complete: bool = True) -> str:
    """Return a sentence for each kind: the first groups and the number of all. Incomplete: there may be more."""
    by_kind = [([one for one in collisions if one.kind == kind], reason) for kind, reason in _REASONS.items()]
    return " ".join(_describe(some, reason, is_complete=is_complete) for some, reason in by_kind if some)


def collision_details(collisions: Sequence[Collision], *, is_complete: bool = True) -> dict[str, object]:
    """Return the same for programs: `groups` and all their names in `paths`, at most so many, and `total`."""
    groups = [_show_names(collision.names) for collision in collisions[:MAX_GROUPS]]
    return {
        "groups": groups,
        "paths": [name for group in groups for name in group],
        "total": len(collisions),
        "is_complete": is_complete,
    }


def _describe(collisions: Sequence[Collision], reason: str, *, is_complete: bool) -> str:
    groups = "; ".join(_join(collision.names) for collision in collisions[:MAX_GROUPS])
    if len(collisions) == 1 and is_complete:
        return f"{groups} {reason}."
    count = f"{len(collisions):,}" if is_complete else f"At least {len(collisions):,}"
    rest = len(collisions) - MAX_GROUPS
    return f"{count} groups of names {reason}: {groups}{f'; and {rest:,} more' if rest > 0 else ''}."


def _join(names: Sequence[bytes]) -> str:
    *first, last = (f"'{name}'" for name in _show_names(names))
    rest = len(names) - MAX_NAMES
    return f"{', '.join(first)} and {last}{f' and {rest:,} more' if rest > 0 else ''}"


def _show_names(names: Sequence[bytes]) -> list[str]:
    texts = [show_path(name) for name in names[:MAX_NAMES]]
    looks = {unicodedata.normalize("NFKC", text) for text in texts}
    if len(looks) == len(texts) and all(text.isprintable() for text in texts):
        return texts
    return ["".join(char if " " <= char <= "~" else _escape(char) for char in text) for text in texts]


def _escape(char: str) -> str:
    code = f"{ord(char):04x}"
    return f"\\u{code}" if len(code) == len("ffff") else f"\\U{code:0>8}"
