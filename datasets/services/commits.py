"""Commits: a checked tree becomes the newest version of a branch, by comparing and setting its head."""

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from django.db import IntegrityError, transaction

from accounts import audit
from accounts.permissions import Actor, require
from core import clock
from core.errors import InvalidInput
from core.tasks import enqueue_on_commit, send_on_commit
from datasets import permissions, signals
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import CommitRecord, commit_key
from datasets.errors import NothingToRevert, PackLeaving, StaleParent, UploadClosed
from datasets.models import Branch, Commit, CommitSource, Dataset, UploadSession, UploadState
from datasets.selectors import commits as commit_reads
from datasets.selectors import files
from datasets.selectors.trees import TreeReader
from datasets.services import manifests, packs, records
from datasets.services.manifests import CheckedTree
from datasets.services.packs import RangesForgotten

log = structlog.get_logger(__name__)

_LONGEST_MESSAGE = 10_000
_LONGEST_KEY = 100
# So often is a tree checked whose packs were given up meanwhile.
_CHECKS = 3


@dataclass(frozen=True)
class _Draft:
    """A commit that was checked and waits for its one transaction."""

    branch: Branch
    expected_head: str | None
    tree: CheckedTree
    row: Commit
    upload: UploadSession | None


def commit_upload(
    *,
    actor: Actor,
    upload: UploadSession,
    root: str,
    expected_head: str | None,
    message: str,
    source: CommitSource,
    idempotency_key: str,
    allow_collisions: bool = False,
) -> Commit:
    """Make the tree under `root` the newest commit of the session's branch, and end the session.

    The same key returns the same commit; a tree that the branch holds already returns its head.
    `allow_collisions` permits new names that differ only in case or Unicode form.
    Raises StaleParent when the branch is not at `expected_head`, PackMissing, ManifestRejected, NameCollision,
    UploadClosed.
    """
    dataset = upload.dataset
    require(actor, permissions.COMMIT, dataset.project_id)
    _check_texts(message, idempotency_key)
    if known := _find_by_key(dataset, idempotency_key):
        return known
    if upload.state != UploadState.OPEN or upload.expires_at <= clock.now():
        raise UploadClosed("This upload has ended or expired.")
    branch = commit_reads.get_branch(actor, dataset, upload.branch)
    try:
        _check_head(branch, expected_head)
    except StaleParent:
        # The same request, sent twice at once: the other one may have moved the branch just now.
        if known := _find_by_key(dataset, idempotency_key):
            return known
        raise
    return _commit_root(
        actor,
        branch,
        root,
        message=message,
        source=source,
        idempotency_key=idempotency_key,
        allow_collisions=allow_collisions,
        upload=upload,
    )


def commit_root(
    *, actor: Actor, dataset: Dataset, branch: str, root: str, message: str, allow_collisions: bool = False
) -> Commit:
    """Make the tree under a root that the dataset's store holds the newest commit of a branch, in place of its files.

    A tree that the branch holds already returns its head. Raises StaleParent when the branch moves meanwhile,
    PackMissing, ManifestRejected, NameCollision.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    _check_texts(message, "")
    return _commit_root(
        actor,
        commit_reads.get_branch(actor, dataset, branch),
        root,
        message=message,
        source=CommitSource.FLOW,
        idempotency_key="",
        allow_collisions=allow_collisions,
        upload=None,
    )


def revert(*, actor: Actor, dataset: Dataset, commit: Commit, branch_name: str, message: str = "") -> Commit:
    """Make the tree of an earlier commit the newest version of a branch again; nothing is lost.

    Raises ReferenceNotFound, NothingToRevert when the branch holds that tree now, StaleParent when it moved meanwhile.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    _check_texts(message, "")
    branch = commit_reads.get_branch(actor, dataset, branch_name)
    if branch.head is not None and branch.head.root == commit.root:
        raise NothingToRevert(f"'{branch.name}' of {dataset.name} holds exactly that version already.")
    tree = CheckedTree(TreeReader(dataset).read_root(commit.root))
    row = _describe(
        actor,
        dataset,
        commit.root,
        tree,
        parent=branch.head,
        message=message or f"Revert to {commit.short}",
        source=CommitSource.REVERT,
        idempotency_key="",
    )
    return _land(actor, _Draft(branch, branch.head_id, tree, row, None))


def commit_merge(
    *,
    actor: Actor,
    dataset: Dataset,
    branch: str,
    expected_head: str,
    merged: Commit,
    root: str,
    message: str,
    allow_collisions: bool,
) -> Commit:
    """Make a merged tree that the dataset's store holds the newest commit of a branch; `merged` is its other parent.

    Raises StaleParent when the branch is not at `expected_head`, and what `commit_root` raises.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    _check_texts(message, "")
    into = commit_reads.get_branch(actor, dataset, branch)
    _check_head(into, expected_head)
    return _commit_root(
        actor,
        into,
        root,
        message=message,
        source=CommitSource.MERGE,
        idempotency_key="",
        allow_collisions=allow_collisions,
        upload=None,
        merged=merged,
    )


def _commit_root(
    actor: Actor,
    branch: Branch,
    root: str,
    *,
    message: str,
    source: CommitSource,
    idempotency_key: str,
    allow_collisions: bool,
    upload: UploadSession | None,
    merged: Commit | None = None,
) -> Commit:
    dataset = branch.dataset
    for _ in range(_CHECKS):
        tree = manifests.check_tree(dataset, root, parent=branch.head)
        if branch.head is not None and branch.head.root == root and merged is None:
            return branch.head
        row = _describe(
            actor,
            dataset,
            root,
            tree,
            parent=branch.head,
            merged=merged,
            message=message,
            source=source,
            idempotency_key=idempotency_key,
        )
        if row.added:
            manifests.check_names(dataset, tree, parent=branch.head, allow_collisions=allow_collisions)
        try:
            return _land(actor, _Draft(branch, branch.head_id, tree, row, upload))
        except RangesForgotten:
            # What was found out about the tree is out of date: the next try names what is missing.
            log.info("commit.checked_again", dataset_id=dataset.pk)
    raise PackLeaving("Packs of this commit are being removed from the store.")


def _describe(
    actor: Actor,
    dataset: Dataset,
    root: str,
    tree: CheckedTree,
    *,
    parent: Commit | None,
    message: str,
    source: CommitSource,
    idempotency_key: str,
    merged: Commit | None = None,
) -> Commit:
    now_ms = clock.now_ms()
    record = CommitRecord(
        dataset=dataset.id,
        root=root,
        parent=parent.id if parent else None,
        author=actor.name,
        message=message,
        source=str(source),
        created_at_ms=now_ms,
        merged=merged.id if merged else None,
    )
    added, removed, changed = tree.files, 0, 0
    if parent is not None:
        reader = TreeReader(dataset)
        before = reader.read_root(parent.root)
        added, removed, changed = files.count_changes(before, tree.ranges, reader.load_range, tree.changed)
    # The store keeps a copy of every record, so that the history outlives the database.
    open_dataset_store(dataset).put(commit_key(record.commit_id), record.canonical_json())
    return Commit(
        id=record.commit_id,
        dataset=dataset,
        parent=parent,
        merged=merged,
        root=root,
        message=message,
        author_id=actor.user_id,
        author_name=actor.name[:200],
        source=source,
        idempotency_key=idempotency_key,
        created_at=datetime.fromtimestamp(now_ms / 1000, tz=UTC),
        files=tree.files,
        size_bytes=tree.size_bytes,
        added=added,
        removed=removed,
        changed=changed,
    )


def _land(actor: Actor, draft: _Draft) -> Commit:
    dataset = draft.row.dataset
    try:
        with transaction.atomic():
            packs.hold_ranges(dataset, [row.range_id for row in draft.tree.ranges])
            draft.row.save(force_insert=True)
            if not records.move_head(draft.branch, expected=draft.expected_head, to=draft.row):
                raise _stale(draft.branch)
            if draft.upload is not None:
                UploadSession.objects.filter(pk=draft.upload.pk).update(state=UploadState.COMMITTED, commit=draft.row)
            audit.record(
                actor,
                "datasets.commit",
                draft.row,
                project_id=dataset.project_id,
                dataset=dataset.name,
                branch=draft.branch.name,
            )
            send_on_commit(signals.commit_recorded, commit_id=draft.row.id)
            enqueue_on_commit("datasets.measure_shared")
    except IntegrityError:
        # The same request, sent twice at once: the other one made the commit.
        if known := _find_by_key(dataset, draft.row.idempotency_key):
            return known
        raise
    return draft.row


def _check_head(branch: Branch, expected: str | None) -> None:
    if branch.head_id != expected:
        raise _stale(branch)


def _stale(branch: Branch) -> StaleParent:
    head = Branch.objects.filter(pk=branch.pk).values_list("head_id", flat=True).first()
    return StaleParent(f"'{branch.name}' has moved on since you read it.", head=head, branch=branch.name)


def _find_by_key(dataset: Dataset, idempotency_key: str) -> Commit | None:
    if not idempotency_key:
        return None
    return Commit.objects.filter(dataset=dataset, idempotency_key=idempotency_key).first()


def _check_texts(message: str, idempotency_key: str) -> None:
    if len(message) > _LONGEST_MESSAGE:
        raise InvalidInput(f"A message has at most {_LONGEST_MESSAGE} characters.")
    if len(idempotency_key) > _LONGEST_KEY:
        raise InvalidInput(f"An idempotency key has at most {_LONGEST_KEY} characters.")
