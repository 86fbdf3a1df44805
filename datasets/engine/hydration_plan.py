"""Where each file of a commit comes from when it is cached: a copy that is there, or the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearline.content.diff import diff_roots
from nearline.content.manifest import Entry, EntryKind, LoadRange, RootRange


@dataclass(frozen=True)
class HydrationPlan:
    """How one commit comes to a site.

    `delta` holds the paths that are not in `base_id` as they are: each maps to the path at which the base has the same
    file under another name, or to None when the store must give it. Every other path is in the base unchanged.
    """

    base_id: str | None
    files: int
    size_bytes: int
    shared_bytes: int = 0
    delta: Mapping[bytes, bytes | None] = field(default_factory=dict)

    @property
    def write_bytes(self) -> int:
        """What has to be read from the store, and what the copy takes on the site."""
        return self.size_bytes - self.shared_bytes

    def find_in_base(self, entry: Entry) -> bytes | None:
        """Return the path at which the base holds this file; None when the store must give it."""
        if self.base_id is None or not is_shareable(entry):
            return None
        return self.delta.get(entry.path, entry.path)


def is_shareable(entry: Entry) -> bool:
    """Say whether two copies can have this entry in common: links and empty files are made anew."""
    return entry.kind is EntryKind.FILE and entry.size > 0


def plan_full(ranges: Sequence[RootRange]) -> HydrationPlan:
    """Return the plan that reads everything from the store."""
    return HydrationPlan(None, sum(row.files for row in ranges), sum(row.size_bytes for row in ranges))


def plan_from_base(
    ranges: Sequence[RootRange], *, base_id: str, base_ranges: Sequence[RootRange], load_range: LoadRange
) -> HydrationPlan:
    """Return the plan that shares with one base whatever it has, at the same path or under another name."""
    changes = list(diff_roots(base_ranges, ranges, load_range))
    at_hand = {
        change.before.identity: change.path
        for change in changes
        if change.before is not None and is_shareable(change.before)
    }
    delta: dict[bytes, bytes | None] = {}
    missing_bytes = 0
    for change in changes:
        if change.after is not None:
            source = at_hand.get(change.after.identity)
            delta[change.path] = source
            missing_bytes += change.after.size if source is None else 0
    full = plan_full(ranges)
    return HydrationPlan(base_id, full.files, full.size_bytes, full.size_bytes - missing_bytes, delta)


def rank_bases(ranges: Sequence[RootRange], candidates: Mapping[str, Sequence[RootRange]]) -> list[str]:
    """Order copies by what they have in common with the wanted tree in whole ranges; among equals the newest id first.

    Cheap: no range is read. Files in unequal ranges are not counted, so the first few are worth an exact plan each.
    """
    sizes = {row.range_id: row.size_bytes for row in ranges}

    def common_bytes(id_: str) -> int:
        return sum(sizes.get(row.range_id, 0) for row in candidates[id_])

    return sorted(sorted(candidates, reverse=True), key=common_bytes, reverse=True)
