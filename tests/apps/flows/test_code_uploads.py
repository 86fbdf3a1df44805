"""Code that a client sends as a tree."""

import pytest

from accounts.errors import PermissionDenied
from core.errors import InvalidInput
from datasets.errors import ManifestRejected, PackMissing, UploadClosed
from datasets.models import Pack, StoredTree, TreeHold, UploadSession
from datasets.workers import collection
from flows.errors import InvalidBundle
from flows.models import Bundle
from flows.services import bundles, flows, runs
from tests.apps.flows.test_bundles import FLOW
from tests.factories.datasets import PackedTree, make_dataset, send_tree, upload_tree
from tests.factories.flows import World, bring_code

CODE = PackedTree({"train.py": b"print('hello')", "lib/model.py": b"x = 1"})


def start(actor, project) -> UploadSession:
    return bundles.start_upload(actor=actor, project=project, client_id="laptop").upload


def push(actor, project, tree: PackedTree = CODE) -> Bundle:
    upload = start(actor, project)
    send_tree(actor, upload, tree)
    return bundles.save_tree(actor=actor, upload=upload, root=tree.root_id)


def test_a_tree_of_code_reaches_the_job(world: World, member, project):
    bundle = push(member, project)
    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=bundle.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()

    assert (bundle.sha256, bundle.files, bundle.size_bytes) == (CODE.root_id, 2, 19)
    assert (bring_code(run, "a") / "lib/model.py").read_text() == "x = 1"


def test_the_same_tree_is_the_same_bundle_and_is_told_to_the_next_upload(world: World, member, project):
    first = push(member, project)
    before = bundles.start_upload(actor=member, project=project, client_id="laptop").known_roots
    flows.save_version(actor=member, project=project, text=FLOW, bundle=first.sha256)

    after = bundles.start_upload(actor=member, project=project, client_id="laptop").known_roots

    assert push(member, project).pk == first.pk
    assert (before, after) == ([], [CODE.root_id])


def test_an_uploaded_tree_stays_while_its_bundle_does(world: World, member, project):
    bundle = push(member, project)

    collection.collect()

    assert list(StoredTree.objects.values_list("root", flat=True)) == [CODE.root_id]
    assert list(TreeHold.objects.values_list("holder", flat=True)) == [bundle.holder]
    assert UploadSession.objects.get().state == "committed"


def test_a_tree_whose_packs_did_not_come_is_refused_and_nothing_is_kept(world: World, member, project):
    upload = start(member, project)
    send_tree(member, upload, CODE)
    Pack.objects.all().delete()

    with pytest.raises(PackMissing, match=r"^The store misses 1 pack of this commit\.$"):
        bundles.save_tree(actor=member, upload=upload, root=CODE.root_id)
    with pytest.raises(ManifestRejected):
        bundles.save_tree(actor=member, upload=upload, root="0" * 64)

    assert (Bundle.objects.count(), StoredTree.objects.count()) == (0, 0)


def test_code_beyond_the_limits_is_refused_and_nothing_is_kept(world: World, member, project, monkeypatch):
    monkeypatch.setattr(bundles, "MAX_BYTES", 18)

    with pytest.raises(InvalidBundle, match="The code is 19 B in 2 files"):
        push(member, project)

    assert (Bundle.objects.count(), StoredTree.objects.count()) == (0, 0)


def test_code_of_more_files_than_the_limit_is_refused_in_words_and_nothing_is_kept(
    world: World, member, project, monkeypatch
):
    monkeypatch.setattr(bundles, "MAX_FILES", 1)

    with pytest.raises(InvalidBundle) as refused:
        push(member, project)

    assert str(refused.value) == "The code is 19 B in 2 files. A flow may bring 2.1 GB in 1 file."
    assert (Bundle.objects.count(), StoredTree.objects.count()) == (0, 0)


def test_an_upload_ends_with_its_tree_and_one_to_a_dataset_is_none_of_code(world: World, member, project):
    upload = start(member, project)
    send_tree(member, upload, CODE)
    bundle = bundles.save_tree(actor=member, upload=upload, root=CODE.root_id)
    assert bundles.save_tree(actor=member, upload=upload, root=CODE.root_id).pk == bundle.pk
    to_dataset = upload_tree(member, make_dataset(member, project, "xrays"), CODE)

    with pytest.raises(UploadClosed):
        bundles.save_tree(actor=member, upload=upload, root=PackedTree({"a.py": b"1"}).root_id)
    with pytest.raises(InvalidInput, match="upload to a dataset"):
        bundles.save_tree(actor=member, upload=to_dataset, root=CODE.root_id)

    assert Bundle.objects.count() == 1


def test_a_viewer_may_not_send_a_tree(world: World, member, viewer, project):
    upload = start(member, project)
    send_tree(member, upload, CODE)

    with pytest.raises(PermissionDenied):
        bundles.start_upload(actor=viewer, project=project, client_id="laptop")
    with pytest.raises(PermissionDenied):
        bundles.save_tree(actor=viewer, upload=upload, root=CODE.root_id)

    assert Bundle.objects.count() == 0
