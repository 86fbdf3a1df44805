"""What a merge means for a commit and for a folder."""

from collections.abc import Iterable, Sequence

from nearline.content.diff import Change, Conflict
from nearline.content.entries import Entry


def changes_to_commit(ours: Iterable[Change], theirs: Iterable[Change], conflicts: Iterable[Conflict]) -> list[Change]:
    """Return what turns their tree into the merged one: our changes, of which those in conflict win."""
    their_changes = {change.path: change for change in theirs}
    our_paths = set()
    result = []
    for change in ours:
        our_paths.add(change.path)
        their = their_changes.get(change.path)
        there = their.after if their is not None else change.before
        if not _is_same(there, change.after):
            result.append(Change(change.path, there, change.after))
    # Where our file stands in the place of their folder, or the other way round, theirs has to leave the tree.
    result += [
        Change(conflict.path, conflict.theirs, None)
        for conflict in conflicts
        if conflict.theirs is not None and conflict.path not in our_paths
    ]
    return sorted(result, key=lambda change: change.path)


def changes_to_restore(ours: Iterable[Change], theirs: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Return both sides so that what is missing here counts as something to fetch, not as something removed."""
    remaining = [change for change in ours if change.after is not None]
    their_paths = {change.path for change in theirs}
    restored = [
        Change(change.path, None, change.before)
        for change in ours
        if change.after is None and change.path not in their_paths
    ]
    return remaining, sorted([*theirs, *restored], key=lambda change: change.path)


def _is_same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.identity == other.identity
