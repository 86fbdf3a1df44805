"""What a merge of two branches would do: what it brings, and which files both changed. Kept: commits never change."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from accounts.permissions import Actor, require
from core.pagination import MAX_LIMIT, Page, decode_path, encode_cursor
from datasets import permissions
from datasets.engine.merges import find_merge_base
from datasets.errors import MergeTooLarge
from datasets.models import Commit, CommitSource, Dataset
from datasets.selectors import differences
from datasets.selectors.differences import Counts
from datasets.selectors.files import kind_of
from datasets.selectors.trees import Kept, TreeReader
from nearline.content.diff import Change, Conflict, MergeResult, diff_roots, merge_changes

_KEPT_CHANGES = 100_000
_MOST_CHANGES = 500_000
"""Of both sides together. A change takes about 600 bytes while the sides are compared."""
_AT_ONCE = threading.BoundedSemaphore(2)


@dataclass(frozen=True)
class MergePlan:
    """A merge of `theirs` into `ours`, a commit each. `base` is the commit that both go on from; None: they share none.

    `our_changes` are those since `base`. When there are none, the merged tree is theirs, and `merged` is empty.
    """

    ours: Commit
    theirs: Commit
    base: Commit | None
    our_changes: Sequence[Change]
    merged: MergeResult

    @property
    def is_needless(self) -> bool:
        """Whether theirs is part of our history."""
        return self.base is not None and self.base.pk == self.theirs.pk

    @property
    def is_forward(self) -> bool:
        """Whether nothing happened on our side since the common commit."""
        return self.base is not None and self.base.pk == self.ours.pk

    @property
    def conflicts(self) -> Sequence[Conflict]:
        """The files that both changed, in the order of paths."""
        return self.merged.conflicts


def plan_merge(actor: Actor, theirs: Commit, ours: Commit) -> MergePlan:
    """Compare two commits of one dataset with the commit that both go on from. Raises MergeTooLarge."""
    require(actor, permissions.VIEW, ours.dataset.project_id)
    base = _find_base(ours.dataset, ours, theirs)
    plan = MergePlan(ours, theirs, base, (), MergeResult([], []))
    if plan.is_needless or plan.is_forward:
        return plan
    key = (base.root if base else "", ours.root, theirs.root)
    memo = _plans.get(key)
    if memo is None:
        with _AT_ONCE:
            memo = _plans.get(key) or _compare(TreeReader(ours.dataset), key)
    return MergePlan(ours, theirs, base, *memo)


def _compare(reader: TreeReader, key: tuple[str, str, str]) -> tuple[list[Change], MergeResult]:
    """Return what changed from the first root of the key to the second, and what the third brings to that."""
    start, *sides = (reader.read_root(root) if root else () for root in key)
    ours, theirs = list[Change](), list[Change]()
    for changes, side in zip((ours, theirs), sides, strict=True):
        changes.extend(islice(diff_roots(start, side, reader.load_range), _MOST_CHANGES + 1 - len(ours)))
        if len(ours) + len(theirs) > _MOST_CHANGES:
            raise MergeTooLarge(f"Both sides together changed more than {_MOST_CHANGES:,} files.")
    memo = ours, merge_changes(ours, theirs)
    _plans.put(key, memo, weight=len(ours) + len(theirs))
    return memo


def count_changes(actor: Actor, plan: MergePlan) -> Counts:
    """Return how much a merge brings without a question."""
    if plan.is_forward and not plan.is_needless:
        return differences.count_differences(actor, plan.ours, plan.theirs)
    kinds = [kind_of(change) for change in plan.merged.changes]
    return Counts(*(kinds.count(kind) for kind in differences.KINDS))


def list_conflicts(plan: MergePlan, *, cursor: str | None, limit: int) -> Page[Conflict]:
    """Return a page of the files that both changed, in the order of paths."""
    limit = max(1, min(limit, MAX_LIMIT))
    after = decode_path(cursor) if cursor else b""
    rest = [conflict for conflict in plan.conflicts if conflict.path > after]
    return Page(rest[:limit], encode_cursor(rest[limit - 1].path.hex()) if len(rest) > limit else None)


def _find_base(dataset: Dataset, ours: Commit, theirs: Commit) -> Commit | None:
    rows = Commit.objects.filter(dataset=dataset).exclude(source=CommitSource.QUERY)
    parents = {
        id_: [parent for parent in two if parent is not None]
        for id_, *two in rows.order_by("created_at", "pk").values_list("pk", "parent_id", "merged_id")
    }
    for commit in (ours, theirs):
        # What a query selected goes on from the commit that was asked.
        parents.setdefault(commit.pk, [commit.parent_id] if commit.parent_id else [])
    base = find_merge_base(parents, ours.pk, theirs.pk)
    return Commit.objects.get(pk=base) if base is not None else None


_plans: Kept[tuple[list[Change], MergeResult]] = Kept(_KEPT_CHANGES)
