"""How two branches become one: the commit that they have in common, and what becomes of files that both changed."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from nearline.content.diff import Change, Conflict, MergeResult
from nearline.content.manifest import Entry
from nearline.content.paths import MAX_COMPONENT_BYTES

_CONFLICT = ".conflict"


class Resolution(StrEnum):
    """Whose version of a file stays. `both`: ours stays, and theirs stands beside it as `NAME.conflict`."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


def find_merge_base(parents: Mapping[str, Sequence[str]], ours: str, theirs: str) -> str | None:
    """Return the newest commit that both have in their history; None when they have none in common.

    `parents` holds the parents of every commit, oldest commit first: where several commits would do, the last of them
    there is taken.
    """
    common = _history(parents, ours) & _history(parents, theirs)
    inner = {parent for commit in common for parent in parents[commit]}
    return next((commit for commit in reversed(list(parents)) if commit in common and commit not in inner), None)


def resolve(
    ours: Sequence[Change],
    merged: MergeResult,
    choose: Callable[[bytes], Resolution],
    is_taken: Callable[[bytes], bool],
) -> list[Change]:
    """Return the sorted changes that bring our tree to the merged one.

    `ours` is what we changed since the common commit; `is_taken` says whether our tree has a file or a folder at a
    path.
    """
    changes = {change.path: change for change in merged.changes}
    present = {change.path: change.after for change in ours if change.after is not None}
    paths = list(present)
    for conflict in merged.conflicts:
        choice = choose(conflict.path)
        if choice is Resolution.THEIRS:
            for blocking in _blocking(conflict, present, paths):
                changes[blocking.path] = Change(blocking.path, blocking, None)
            changes[conflict.path] = Change(conflict.path, conflict.ours, conflict.theirs)
        elif choice is Resolution.BOTH and conflict.theirs is not None:
            path = _free_path(conflict, present, lambda path: path in changes or is_taken(path))
            changes[path] = Change(path, None, conflict.theirs._replace(path=path))
    return [changes[path] for path in sorted(changes)]


def _history(parents: Mapping[str, Sequence[str]], start: str) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        commit = waiting.pop()
        if commit not in reached:
            reached.add(commit)
            waiting += parents[commit]
    return reached


def _blocking(conflict: Conflict, present: Mapping[bytes, Entry], paths: Sequence[bytes]) -> list[Entry]:
    """Return our files that stand where theirs needs a folder, or in a folder where theirs is a file."""
    if conflict.ours is not None or conflict.theirs is None:
        return []
    start, end = conflict.path + b"/", conflict.path + b"0"  # the byte that follows the slash
    below = paths[bisect_left(paths, start) : bisect_left(paths, end)]
    return [present[path] for path in (*_folders(conflict.path), *below) if path in present]


def _free_path(conflict: Conflict, present: Mapping[bytes, Entry], is_taken: Callable[[bytes], bool]) -> bytes:
    """Return a path beside ours that nothing has; beside our file, where theirs needs a folder of that name."""
    blocked = next((folder for folder in _folders(conflict.path) if folder in present), conflict.path)
    parent, slash, name = blocked.rpartition(b"/")
    rest, number = conflict.path[len(blocked) :], 1
    while True:
        ending = (_CONFLICT if number == 1 else f"{_CONFLICT}-{number}").encode()
        beside = parent + slash + name[: MAX_COMPONENT_BYTES - len(ending)] + ending
        if not is_taken(beside) and not is_taken(beside + rest):
            return beside + rest
        number += 1


def _folders(path: bytes) -> list[bytes]:
    """Return the folders above a path, the outermost first."""
    return [path[:index] for index, byte in enumerate(path) if byte == ord("/")]
