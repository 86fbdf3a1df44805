"""Merging: what happened on one branch comes to another one, as one commit with two parents. No content is moved."""

from collections.abc import Mapping

from accounts.permissions import Actor, require
from core.errors import InvalidInput
from datasets import permissions
from datasets.engine.merges import Resolution, resolve
from datasets.errors import EmptyBranch, ManifestRejected, MergeConflicts, NothingToMerge, StaleParent
from datasets.models import Commit, Dataset
from datasets.selectors import commits as commit_reads
from datasets.selectors.merges import MergePlan, plan_merge
from datasets.selectors.trees import TreeReader, open_tree
from datasets.services import commits, manifests
from nearline.content.diff import patch_tree
from nearline.content.errors import ContentError
from nearline.content.paths import show_path

_NAMED = 100


def merge(
    *,
    actor: Actor,
    dataset: Dataset,
    source: str,
    into: str,
    expected_source: str | None = None,
    expected_head: str | None = None,
    choices: Mapping[bytes, Resolution] | None = None,
    otherwise: Resolution | None = None,
    message: str = "",
    allow_collisions: bool = False,
) -> Commit:
    """Bring what `source` (a branch, a tag or a commit) has to the branch `into`, by one commit.

    `choices` says of each file that both changed whose version stays, `otherwise` of those that it does not name.
    Raises MergeConflicts while a file is left without a choice, InvalidInput for a choice without a conflict,
    NothingToMerge, StaleParent when a side is not where the caller expects it, and what `commits.commit_root` raises.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    branch = commit_reads.get_branch(actor, dataset, into)
    ours, theirs = branch.head, commit_reads.get_commit(actor, dataset, source)
    if ours is None:
        raise EmptyBranch(f"The branch '{into}' of {dataset.name} has no commit yet.")
    ours.dataset = dataset
    for name, commit, expected in ((source, theirs, expected_source), (into, ours, expected_head)):
        if expected is not None and commit.pk != expected:
            raise StaleParent(f"'{name}' has moved on since you read it.", head=commit.pk, branch=name)
    plan = plan_merge(actor, theirs, ours)
    if plan.is_needless:
        raise NothingToMerge(f"'{into}' of {dataset.name} holds all of '{source}' already.")
    _check_choices(plan, choices or {}, otherwise)
    root = theirs.root if plan.is_forward else _write_tree(plan, choices or {}, otherwise)
    return commits.commit_merge(
        actor=actor,
        dataset=dataset,
        branch=into,
        expected_head=ours.pk,
        merged=theirs,
        root=root,
        message=message or f"Merge {source} into {into}",
        allow_collisions=allow_collisions,
    )


def _check_choices(plan: MergePlan, choices: Mapping[bytes, Resolution], otherwise: Resolution | None) -> None:
    paths = {conflict.path for conflict in plan.conflicts}
    if needless := sorted(choices.keys() - paths):
        raise InvalidInput(f"'{show_path(needless[0])}' is not a file that both changed.")
    if otherwise is None and (open_paths := sorted(paths - choices.keys())):
        raise MergeConflicts(
            f"Both sides changed {len(open_paths):,} {'file' if len(open_paths) == 1 else 'files'}: "
            f"'{show_path(open_paths[0])}'{', …' if open_paths[1:] else ''}. Nothing was merged.",
            paths=[show_path(path) for path in open_paths[:_NAMED]],
            total=len(open_paths),
        )


def _write_tree(plan: MergePlan, choices: Mapping[bytes, Resolution], otherwise: Resolution | None) -> str:
    """Put the manifests of the merged tree into the store and return its root."""
    dataset = plan.ours.dataset
    reader, tree = TreeReader(dataset), open_tree(plan.ours)

    def is_taken(path: bytes) -> bool:
        return tree.find(path) is not None or tree.has_folder(path)

    changes = resolve(
        plan.our_changes, plan.merged, lambda path: choices.get(path, otherwise or Resolution.OURS), is_taken
    )
    try:
        merged = patch_tree(reader.read_root(plan.ours.root), changes, reader.load_range)
        manifests.put_tree(dataset, merged)
    except ContentError as error:
        raise ManifestRejected(str(error)) from error
    return merged.root_id
