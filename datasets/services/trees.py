"""Trees that are no commits: outputs of jobs, code. Each is stored once in its project and stays while it is held."""

from collections.abc import Collection, Iterable

import structlog
from django.db import transaction
from django.db.models import QuerySet

from accounts.models import Project
from accounts.permissions import Actor, require
from core import clock, orm
from core.errors import InvalidInput
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import range_key, root_key
from datasets.engine.source_files import LeftOut, SourceFile
from datasets.errors import PackLeaving
from datasets.models import (
    Commit,
    Dataset,
    ManifestRange,
    Pack,
    StoredTree,
    TreeHold,
    UploadSession,
    UploadState,
)
from datasets.selectors.datasets import get_default_store
from datasets.selectors.trees import TreeReader
from datasets.services import commits, manifests, packs, uploads
from datasets.services.manifests import CheckedTree
from datasets.services.packs import RangesForgotten
from datasets.services.tree_writing import TreeWriter, touch_manifests
from nearline.content.manifest import RootRange, encode_root, root_id

__all__ = [
    "LeftOut",
    "SourceFile",
    "StoredTree",
    "UploadSession",
    "check_upload",
    "commit_tree",
    "hold_tree",
    "hold_upload",
    "release_roots",
    "release_tree",
    "release_trees",
    "start_upload",
    "store_tree",
]

log = structlog.get_logger(__name__)

INTERNAL_NAME = "~trees"
"""The name of internal datasets: one that nobody can choose."""

# So often is an uploaded tree checked whose packs were given up meanwhile.
_CHECKS = 3


def store_tree(*, actor: Actor, project: Project, holder: str, files: Iterable[SourceFile]) -> StoredTree:
    """Store files, which come in the order of their paths, and let `holder` hold their tree in place of any other.

    Content that the project's stored trees have is not stored again. Asking again after an error goes on where it
    stopped. Raises what `TreeWriter.write` raises; then the holder holds what it held before.
    """
    require(actor, permissions.COMMIT, project.id)
    dataset = _have_dataset(project.id)
    with TreeWriter(dataset) as writer:
        ranges = writer.write(files)
    data = encode_root(ranges)
    root = root_id(data)
    known = StoredTree.objects.filter(dataset=dataset, root=root)
    if known.exists():
        touch_manifests(known)
    else:
        open_dataset_store(dataset).put(root_key(root), data)
    return _hold(dataset, root, ranges, holder)


def start_upload(*, actor: Actor, project: Project, client_id: str) -> UploadSession:
    """Begin the upload of a tree, whose packs and manifests come like those of a commit. `hold_upload` ends it."""
    require(actor, permissions.COMMIT, project.id)
    return uploads.create_session(actor=actor, dataset=_have_dataset(project.id), client_id=client_id)


def check_upload(*, actor: Actor, upload: UploadSession, root: str) -> CheckedTree:
    """Return what an uploaded tree holds, if it may be stored.

    Raises InvalidInput for an upload to a dataset, ManifestRejected, PackMissing, UploadClosed.
    """
    if not upload.dataset.is_internal:
        raise InvalidInput("This is an upload to a dataset: end it with a commit.")
    uploads.prolong(actor=actor, upload=upload)
    return manifests.check_tree(upload.dataset, root)


def hold_upload(*, actor: Actor, upload: UploadSession, root: str, holder: str) -> StoredTree:
    """Let `holder` hold an uploaded tree in place of any other, and end the upload.

    Where content lies is known from the client alone, so other trees do not borrow from this one. Raises what
    `check_upload` raises.
    """
    for _ in range(_CHECKS):
        checked = check_upload(actor=actor, upload=upload, root=root)
        try:
            with transaction.atomic():
                packs.hold_ranges(upload.dataset, [row.range_id for row in checked.ranges])
                tree = _hold(upload.dataset, root, checked.ranges, holder)
                UploadSession.objects.filter(pk=upload.pk).update(state=UploadState.COMMITTED)
                return tree
        except RangesForgotten:
            log.info("tree.checked_again", dataset_id=upload.dataset_id)
    raise PackLeaving("Packs of this tree are being removed from the store.")


@transaction.atomic
def hold_tree(*, actor: Actor, tree: StoredTree, holder: str) -> None:
    """Let `holder` hold a stored tree in place of any other. Raises PackLeaving while it is being removed."""
    require(actor, permissions.COMMIT, tree.dataset.project_id)
    touch_manifests(StoredTree.objects.filter(pk=tree.pk))
    TreeHold.objects.update_or_create(holder=holder, defaults={"tree": tree})


def release_tree(*, actor: Actor, holder: str) -> None:
    """Let a holder hold nothing. What nobody holds leaves the store with the next garbage."""
    hold = TreeHold.objects.filter(holder=holder).select_related("tree__dataset").first()
    if hold is not None:
        require(actor, permissions.COMMIT, hold.tree.dataset.project_id)
        hold.delete()


@transaction.atomic
def release_trees(*, actor: Actor, holders: Collection[str]) -> None:
    """Let these holders hold nothing, as `release_tree` does."""
    for batch in orm.in_batches(sorted(holders)):
        _release(actor, TreeHold.objects.filter(holder__in=batch))


@transaction.atomic
def release_roots(*, actor: Actor, dataset_id: str, roots: Collection[str], prefix: str) -> None:
    """Let holders whose names begin with `prefix` hold these trees no more."""
    holds = TreeHold.objects.filter(tree__dataset=dataset_id, holder__startswith=prefix)
    for batch in orm.in_batches(sorted(roots)):
        _release(actor, holds.filter(tree__root__in=batch))


def _release(actor: Actor, holds: QuerySet[TreeHold]) -> None:
    projects = dict(holds.values_list("pk", "tree__dataset__project_id"))
    for project_id in sorted(set(projects.values())):
        require(actor, permissions.COMMIT, project_id)
    TreeHold.objects.filter(pk__in=projects).delete()


def commit_tree(
    *,
    actor: Actor,
    tree: StoredTree,
    dataset: Dataset,
    branch: str,
    message: str = "",
    allow_collisions: bool = False,
) -> Commit:
    """Make a stored tree the newest commit of a branch of a dataset of its project, in place of the branch's files.

    No content is copied: the dataset borrows the packs. Raises InvalidInput for a dataset of another project, and what
    `commits.commit_root` raises.
    """
    require(actor, permissions.COMMIT, dataset.project_id)
    if tree.dataset.project_id != dataset.project_id:
        raise InvalidInput("Files can be kept in a dataset of their own project only.")
    touch_manifests(StoredTree.objects.filter(pk=tree.pk))
    source, target = open_dataset_store(tree.dataset), open_dataset_store(dataset)
    ranges = TreeReader(tree.dataset).read_root(tree.root)
    for key in (root_key(tree.root), *(range_key(row.range_id) for row in ranges)):
        target.put(key, source.get(key))
    for batch in orm.in_batches(row.range_id for row in ranges):
        rows = Pack.objects.filter(ranges__dataset=tree.dataset, ranges__range_id__in=batch)
        packs.borrow(dataset, tree.dataset, set(rows.values_list("sha256", flat=True)))
    return commits.commit_root(
        actor=actor,
        dataset=dataset,
        branch=branch,
        root=tree.root,
        message=message,
        allow_collisions=allow_collisions,
    )


@transaction.atomic
def _hold(dataset: Dataset, root: str, ranges: Iterable[RootRange], holder: str) -> StoredTree:
    ranges = list(ranges)
    tree, _ = StoredTree.objects.get_or_create(
        dataset=dataset,
        root=root,
        defaults={"files": sum(row.files for row in ranges), "size_bytes": sum(row.size_bytes for row in ranges)},
    )
    touch_manifests(StoredTree.objects.filter(pk=tree.pk))
    link = StoredTree.ranges.through
    for batch in orm.in_batches(row.range_id for row in ranges):
        rows = ManifestRange.objects.filter(dataset=dataset, range_id__in=batch)
        # Storing took so long that what was stored first is out of date.
        if rows.filter(due_at=None).update(touched_at=clock.now()) != len(batch):
            raise PackLeaving("Parts of this tree were removed from the store meanwhile.")
        links = [link(storedtree_id=tree.pk, manifestrange_id=id_) for id_ in rows.values_list("pk", flat=True)]
        link.objects.bulk_create(links, ignore_conflicts=True)
    TreeHold.objects.update_or_create(holder=holder, defaults={"tree": tree})
    return tree


def _have_dataset(project_id: str) -> Dataset:
    """Return the dataset that holds a project's stored trees, made at the first need in the default store."""
    internal = Dataset.objects.filter(project_id=project_id, is_internal=True, deleted_at=None).select_related("store")
    if dataset := internal.first():
        return dataset
    fresh = Dataset(project_id=project_id, name=INTERNAL_NAME, is_internal=True, store=get_default_store())
    Dataset.objects.bulk_create([fresh], ignore_conflicts=True)
    return internal.get()
