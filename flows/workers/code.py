"""Code of flows in the store: found for jobs, moved there from where earlier releases kept it, deleted when unused."""

import tempfile
from datetime import timedelta
from pathlib import Path

from django.db.models import Exists, OuterRef, QuerySet

from accounts.permissions import Actor
from compute.services.jobs import Tree
from core import clock, isolation
from datasets.services import trees
from experiments.adapters import artifact_folder
from flows.adapters import code_archive
from flows.errors import BundleNotFound
from flows.models import Bundle, FlowVersion
from flows.services import bundles

KEEP_UNUSED = timedelta(days=1)
MOVE = "flows.move_code"
DELETE = "flows.delete_code"
"""Kinds of failures; items are bundles."""

_SYSTEM = Actor.system("code of flows")
_AT_ONCE = 100


def get_tree(project_id: str, sha256: str) -> Tree:
    """Return the tree of a project's code, moved to the store now if need be. Raises BundleNotFound."""
    bundle = Bundle.objects.filter(project=project_id, sha256=sha256).first()
    if bundle is None:
        raise BundleNotFound(f"There is no code with the hash {sha256[:12]}.")
    if not bundle.root:
        _move(bundle)
    return Tree(bundle.dataset_id, bundle.root)


def find_old() -> list[QuerySet[Bundle]]:
    """Return the code that is still to be moved."""
    return [Bundle.objects.filter(root="").exclude(content_hash="")]


def move_code() -> None:
    """Move code that earlier releases kept in the home folder into the store. The old files stay."""
    if artifact_folder.may_be_elsewhere():
        return
    (old,) = find_old()
    isolation.for_each(MOVE, old.order_by("pk")[:_AT_ONCE], _move)


def _move(bundle: Bundle) -> None:
    try:
        data = b"".join(artifact_folder.read(bundle.content_hash))
    except FileNotFoundError as error:
        raise BundleNotFound(f"The files of the code {bundle} are gone from the home folder.") from error
    with tempfile.TemporaryDirectory(prefix="nearline-code-") as folder:
        code_archive.unpack(data, Path(folder))
        tree = bundles.store_folder(actor=_SYSTEM, bundle=bundle, folder=Path(folder))
    bundle.root, bundle.dataset_id = tree.root, tree.dataset_id
    bundle.save(update_fields=["root", "dataset_id"])


def delete_unused() -> int:
    """Delete code that was sent a while ago and that no version of a flow has; return how many bundles."""
    versions = FlowVersion.objects.filter(flow__project=OuterRef("project"), bundle=OuterRef("sha256"))
    unused = Bundle.objects.filter(~Exists(versions), touched_at__lt=clock.now() - KEEP_UNUSED)

    def delete(bundle: Bundle) -> bool:
        # Asked again with the row at hand: it may have been sent, or put to use, meanwhile.
        is_deleted = bool(unused.filter(pk=bundle.pk).delete()[0])
        if is_deleted:
            trees.release_tree(actor=_SYSTEM, holder=bundle.holder)
        return is_deleted

    return sum(isolation.for_each(DELETE, list(unused.order_by("pk")[:_AT_ONCE]), delete))
