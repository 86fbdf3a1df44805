"""What differs between two trees that lie in different places: found here, from the ranges that are not in both."""

from dataclasses import dataclass

from nearline._http import Json
from nearline.content.diff import Change, diff_roots
from nearline.content.paths import to_text
from nearline.content.range_entries import RangeEntries
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.server import Storage


@dataclass(frozen=True)
class PlacedTree:
    """A tree, and the storage that has it."""

    root: str
    storage: Storage


def find_differences(base: PlacedTree, other: PlacedTree) -> Json:
    """Return what differs, in the shape in which the API tells what differs between two commits."""
    before, now = Manifests(base.storage), Manifests(other.storage)
    old, new = before.load_root(base.root), now.load_root(other.root)
    olds, news = ({row.range_id for row in rows} for rows in (old, new))
    before.fetch_ahead(row for row in old if row.range_id not in news)
    now.fetch_ahead(row for row in new if row.range_id not in olds)

    def load_range(range_id: str) -> RangeEntries:
        return (now if range_id in news else before).load_range(range_id)

    items = list(map(_describe, diff_roots(old, new, load_range)))
    counts = {kind: sum(item["change"] == kind for item in items) for kind in ("added", "removed", "changed")}
    return {**counts, "items": items, "next_cursor": None}


def _describe(change: Change) -> Json:
    before, after = change.before, change.after
    return {
        "path": to_text(change.path),
        "change": "added" if before is None else "removed" if after is None else "changed",
        "size_before": before.size if before else None,
        "size_after": after.size if after else None,
    }
