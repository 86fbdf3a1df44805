"""File names as they are carried: bytes, relative, `/`-separated, never normalised, never mangled.

A name is either carried exactly or refused with its reason. What a target file system cannot hold apart
(names that differ only in case or in Unicode form) is found and described here, and decided by the caller.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from nearline.content.errors import BadPath

MAX_PATH_BYTES = 4096
MAX_COMPONENT_BYTES = 255
# What goes through folders by recursion, ours and that of others, ends at some hundred levels.
MAX_COMPONENTS = 256
# The folder of a workspace's own state; a dataset that could write there could redirect the next sync.
RESERVED_COMPONENT = b".nearline"
# So much is told of names that collide.
MAX_GROUPS = 20
MAX_NAMES = 20
_REASONS = {"clash": "need one name as a file and a folder", "fold": "differ only in case or Unicode form"}


class Collision(NamedTuple):
    """Names of one tree that cannot all exist: anywhere ("clash") or where case or Unicode form is folded."""

    names: tuple[bytes, ...]
    kind: Literal["clash", "fold"]


def show_path(path: bytes) -> str:
    """Return a path for people; bytes that are no text appear as escapes."""
    return path.decode("utf-8", "backslashreplace")


def check_path(path: bytes) -> None:
    """Raise BadPath unless `path` may stand in a manifest."""
    if not path:
        raise BadPath(path, "is an empty path")
    if len(path) > MAX_PATH_BYTES:
        raise BadPath(path, f"is longer than {MAX_PATH_BYTES} bytes")
    if b"\0" in path:
        raise BadPath(path, "contains a NUL byte")
    if path.startswith(b"/"):
        raise BadPath(path, "is an absolute path")
    components = path.split(b"/")
    if len(components) > MAX_COMPONENTS:
        raise BadPath(path, f"has more than {MAX_COMPONENTS} components")
    for component in components:
        if component in {b"", b".", b".."}:
            raise BadPath(path, f"contains the component '{component.decode()}'")
        if len(component) > MAX_COMPONENT_BYTES:
            raise BadPath(path, f"contains a component longer than {MAX_COMPONENT_BYTES} bytes")
        if component.lower() == RESERVED_COMPONENT:
            raise BadPath(path, "lies in a '.nearline' folder, which is reserved for the workspace itself")


def find_fault(path: bytes) -> str:
    """Return why `path` may not stand in a manifest; empty when it may."""
    try:
        check_path(path)
    except BadPath as error:
        return error.why
    return ""


def check_paths(paths: Sequence[bytes]) -> None:
    """Raise BadPath for the first path that `check_path` refuses: the same rules, a few scans for all of them."""
    # Between "/" and "/" every component, and every end of a path, becomes visible to a plain substring search.
    text = b"/" + b"/\0/".join(paths) + b"/"
    longest = max(map(len, paths), default=0)
    is_suspicious = (
        text.count(b"\0") != max(len(paths) - 1, 0)
        or any(bad in text for bad in (b"//", b"/./", b"/../"))
        or b"/.nearline/" in text.lower()
        or longest > MAX_PATH_BYTES
        or (longest >= 2 * MAX_COMPONENTS and max(path.count(b"/") for path in paths) >= MAX_COMPONENTS)
        or (longest > MAX_COMPONENT_BYTES and max(map(len, text.split(b"/"))) > MAX_COMPONENT_BYTES)
    )
    if is_suspicious:
        for path in paths:
            check_path(path)


def to_text(path: bytes) -> str:
    """Return `path` as text that `to_bytes` turns back exactly, non-UTF-8 bytes included."""
    return path.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """Return the bytes of a path that `to_text` or the operating system gave as text."""
    return text.encode("utf-8", "surrogateescape")


def has_clash(paths: Collection[bytes]) -> bool:
    """Return whether `find_clashes` would yield anything."""
    return not _folders_of(paths).isdisjoint(paths)


def find_clashes(paths: Iterable[bytes]) -> Iterator[Collision]:
    """Yield every file whose name is also needed as a folder; `paths` come sorted and may be streamed."""
    # Sorted order puts "a" before all that starts with "a", so the open prefixes of the current path form a stack.
    open_prefixes: list[bytes] = []
    for path in paths:
        while open_prefixes and not path.startswith(open_prefixes[-1]):
            open_prefixes.pop()
        for prefix in open_prefixes:
            if path.startswith(b"/", len(prefix)):
                yield Collision((prefix, path), "clash")
        open_prefixes.append(path)


def find_collisions(paths: Iterable[bytes]) -> Iterator[Collision]:
    """Yield a clash for each file that is a folder too, and the groups that differ only in case or Unicode form.

    `paths` come sorted. The names of a group are files and folders of one folder; what lies in folders that collide is
    not repeated.
    """
    paths = list(paths)
    folders = _folders_of(paths)
    if folders.isdisjoint(paths) and _fold_apart([*paths, *folders]):
        # As most trees: to see that takes two fifths of the time and half the memory of what follows.
        return
    # One path below a file is enough to tell that it is needed as a folder.
    clashes: dict[bytes, Collision] = {}
    for clash in find_clashes(paths):
        clashes.setdefault(clash.names[0], clash)
    yield from clashes.values()
    first_names: dict[tuple[bytes, str | bytes], bytes] = {}
    groups: dict[bytes, set[bytes]] = {}
    known_folders: set[bytes] = set()
    for path in paths:
        names = [path]
        if path.rpartition(b"/")[0] not in known_folders:
            names += (folder for folder in _ancestors(path) if folder not in known_folders)
            known_folders.update(names[1:])
        for name in names:
            first = first_names.setdefault((name.rpartition(b"/")[0], fold(name)), name)
            if first != name:
                groups.setdefault(first, {first}).add(name)
    yield from (Collision(tuple(sorted(groups[first])), "fold") for first in sorted(groups))


def fold(path: bytes) -> str | bytes:
    """Return what `path` becomes where neither case nor Unicode form tells names apart."""
    if path.isascii():
        return path.lower().decode("ascii")
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        # Not text: such bytes are kept apart by every file system that accepts them at all.
        return path
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


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


def _folders_of(paths: Collection[bytes]) -> set[bytes]:
    """Return the folders that these paths lie in, at any depth."""
    folders = {path.rpartition(b"/")[0] for path in paths}
    return (folders | {ancestor for folder in folders for ancestor in _ancestors(folder)}) - {b""}


def _fold_apart(names: Collection[bytes]) -> bool:
    """Return whether all names differ also where neither case nor Unicode form tells them apart."""
    folded = map(bytes.lower, names) if all(map(bytes.isascii, names)) else map(fold, names)
    return len(set(folded)) == len(names)


def _ancestors(path: bytes) -> Iterator[bytes]:
    start = path.find(b"/")
    while start != -1:
        yield path[:start]
        start = path.find(b"/", start + 1)


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
