"""Limits on what a project stores: held before bytes move, and never against outputs of jobs."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import PermissionDenied
from accounts.models import Project
from core import clock
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.engine.ports import SIGNED_LIFETIME, Announcement
from datasets.errors import StorageLimitReached
from datasets.models import Pack, PackState, StorageLimit, UploadSession
from datasets.selectors import storage
from datasets.selectors.storage import DatasetStorage, StoragePart
from datasets.services import datasets, storage_limits, trees, uploads
from datasets.services.uploads import ObjectKind, Offer
from tests.factories.api import call
from tests.factories.datasets import PackedTree, commit_files, make_dataset, send_tree, source_files, upload_tree


@pytest.fixture
def stored(dataset, member) -> int:
    """The bytes of a commit that is there."""
    commit_files(member, dataset, {"a": b"1" * 1000})
    return Pack.objects.get().size_bytes


def limit(site_admin, project, limit_bytes):
    storage_limits.set_limit(actor=site_admin, project=project, limit_bytes=limit_bytes)


def start(member, dataset) -> UploadSession:
    return uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="test").upload


def offer(member, upload, *sizes: int):
    offers = [Offer(ObjectKind.PACK, f"{size:064x}", Announcement(size, f"{size:064x}")) for size in sizes]
    return uploads.offer_packs(actor=member, upload=upload, offers=offers)


def test_a_project_without_a_limit_stores_what_it_likes(stored, dataset, member):
    assert [answer.state for answer in offer(member, start(member, dataset), 10**6)] == ["wanted"]


def test_at_the_limit_no_upload_begins(stored, dataset, member, site_admin, project):
    limit(site_admin, project, stored)

    with pytest.raises(StorageLimitReached) as refusal:
        start(member, dataset)

    assert refusal.value.message == "team-a stores 1.0 kB and may store 1.0 kB. Most is taken by xrays (1.0 kB)."
    assert refusal.value.details == {
        "used_bytes": stored,
        "limit_bytes": stored,
        "needed_bytes": 0,
        "largest": [{"name": "xrays", "is_dataset": True, "bytes": stored}],
    }
    assert not UploadSession.objects.filter(state="open").exists()


def test_packs_that_do_not_fit_are_refused_before_they_are_sent(stored, dataset, member, site_admin, project):
    limit(site_admin, project, stored + 500)
    upload = start(member, dataset)

    with pytest.raises(StorageLimitReached, match=r"This needs 501 B more\."):
        offer(member, upload, 201, 300)

    assert Pack.objects.count() == 1


def test_packs_that_just_fit_are_taken_and_count_from_then_on(stored, dataset, member, site_admin, project):
    limit(site_admin, project, stored + 500)
    upload = start(member, dataset)

    assert len(offer(member, upload, 200, 300)) == 2
    with pytest.raises(StorageLimitReached):
        offer(member, upload, 1)


def test_a_pack_that_is_there_or_on_its_way_costs_nothing_again(stored, dataset, member, site_admin, project):
    limit(site_admin, project, stored + 300)
    upload = start(member, dataset)
    offer(member, upload, 300)

    again = offer(member, upload, 300)
    tree = PackedTree({"a": b"1" * 1000})
    send_tree(member, upload, tree)

    assert [answer.state for answer in again] == ["wanted"]


def test_packs_that_never_came_are_not_counted_for_ever(dataset, member, site_admin, project, monkeypatch):
    limit(site_admin, project, 300)
    offer(member, start(member, dataset), 300)
    later = clock.now() + SIGNED_LIFETIME + timedelta(seconds=1)
    monkeypatch.setattr(clock, "now", lambda: later)

    assert len(offer(member, start(member, dataset), 299)) == 1


def test_a_pack_that_took_longer_than_its_offer_counts_is_taken_only_where_there_is_still_space(
    dataset, member, site_admin, project
):
    trees = [PackedTree({"a": content * 300}) for content in (b"1", b"2")]
    slow, quick = ((name, data) for tree in trees for name, data in tree.packs.items())
    limit(site_admin, project, len(slow[1]) + len(quick[1]) - 1)
    upload, store = start(member, dataset), open_dataset_store(dataset)

    def offer_pack(name: str, data: bytes) -> str:
        offers = [Offer(ObjectKind.PACK, name, Announcement(len(data), name))]
        (answer,) = uploads.offer_packs(actor=member, upload=upload, offers=offers)
        return answer.state

    begun_at = clock.now()
    with clock.frozen_at(begun_at) as move:
        assert offer_pack(*slow) == "wanted"
        move(begun_at + SIGNED_LIFETIME + timedelta(seconds=1))
        assert offer_pack(*quick) == "wanted"
        for name, data in (slow, quick):
            store.put(pack_key(name), data)
        uploads.confirm_packs(actor=member, upload=upload, names=[quick[0]])
        with pytest.raises(StorageLimitReached, match=r"may store .* This needs .* more\."):
            uploads.confirm_packs(actor=member, upload=upload, names=[slow[0]])
        assert storage.used_bytes(project.pk) == len(quick[1])

        limit(site_admin, project, len(slow[1]) + len(quick[1]))
        assert offer_pack(*slow) == "complete"
    assert storage.used_bytes(project.pk) == len(slow[1]) + len(quick[1])


def test_what_no_commit_uses_is_told_apart_with_the_moment_by_which_it_leaves(
    stored, dataset, member, site_admin, project
):
    sent_at = datetime(2026, 11, 21, 12, tzinfo=UTC)
    with clock.frozen_at(sent_at):
        offer(member, start(member, dataset), 300)
        Pack.objects.filter(size_bytes=300).update(state=PackState.COMPLETE)
        limit(site_admin, project, stored + 300)

        told = storage.measure_project(actor=member, project=project)
        with pytest.raises(StorageLimitReached) as refusal:
            start(member, dataset)

    assert (told.used_bytes, told.unused_bytes) == (stored + 300, 300)
    assert told.freed_at == sent_at + timedelta(days=1)
    assert refusal.value.message.endswith(
        " 300 B are of uploads that no commit uses; they are freed by 2026-11-22 12:00 UTC."
    )


def test_a_deleted_dataset_counts_as_long_as_it_can_be_restored(stored, dataset, member, site_admin, project):
    other = make_dataset(member, project, "other")
    limit(site_admin, project, stored)

    datasets.delete_dataset(actor=site_admin, dataset=dataset)

    with pytest.raises(StorageLimitReached, match=r"Most is taken by xrays \(deleted, can be restored\)"):
        start(member, other)
    measured = storage.measure_project(actor=member, project=project)
    assert (measured.used_bytes, measured.leaving_bytes) == (stored, 0)
    assert measured.parts == [StoragePart("xrays", stored, True, is_deleted=True)]


def test_deleting_a_dataset_for_good_frees_its_bytes_at_once(stored, dataset, member, site_admin, project):
    other = make_dataset(member, project, "other")
    limit(site_admin, project, stored)

    datasets.delete_dataset(actor=site_admin, dataset=dataset, for_good=True)

    assert start(member, other).dataset_id == other.pk
    measured = storage.measure_project(actor=member, project=project)
    assert (measured.used_bytes, measured.leaving_bytes) == (0, stored)


def test_outputs_of_jobs_are_stored_beyond_the_limit(stored, member, site_admin, project):
    limit(site_admin, project, stored)

    tree = trees.store_tree(actor=member, project=project, holder="job", files=source_files({"b": b"2" * 2000}))

    assert tree.size_bytes == 2000
    measured = storage.measure_project(actor=member, project=project)
    assert measured.used_bytes > stored
    assert [part.name for part in measured.parts] == ["outputs and code of jobs", "xrays"]


def test_keeping_outputs_in_a_dataset_takes_nothing_more(stored, member, site_admin, project):
    tree = trees.store_tree(actor=member, project=project, holder="job", files=source_files({"b": b"2" * 2000}))
    models = make_dataset(member, project, "models")
    used = storage.used_bytes(project.pk)
    limit(site_admin, project, used)

    trees.commit_tree(actor=member, tree=tree, dataset=models, branch="main", message="kept")

    assert storage.used_bytes(project.pk) == used
    size = Pack.objects.get(dataset=tree.dataset).size_bytes
    assert storage.measure_dataset(actor=member, dataset=models) == DatasetStorage(0, size, 1, 2000)


def test_what_a_project_stores_is_told_by_dataset(stored, dataset, member, project):
    other = make_dataset(member, project, "other")
    commit_files(member, other, {"b": b"2" * 5000})
    foreign = Pack.objects.get(dataset=other).size_bytes
    Pack.objects.create(dataset=other, sha256="0" * 64, size_bytes=77, state=PackState.CONDEMNED)

    measured = storage.measure_project(actor=member, project=project)

    assert measured.parts == [StoragePart("other", foreign, True), StoragePart("xrays", stored, True)]
    assert (measured.used_bytes, measured.leaving_bytes, measured.limit_bytes) == (stored + foreign, 77, None)


def test_shared_content_of_commits_is_stored_once(stored, dataset, member, site_admin):
    commit_files(member, dataset, {"a": b"1" * 1000, "b": b""})

    measured = storage.measure_dataset(actor=member, dataset=dataset)

    assert measured == DatasetStorage(stored, 0, 2, 2000)
    assert measured.factor == 2000 / stored


def test_a_healing_pack_costs_nothing(stored, dataset, member, site_admin, project):
    upload = upload_tree(member, dataset, PackedTree({"a": b"1" * 1000}))
    limit(site_admin, project, stored)
    pack = Pack.objects.get()
    Pack.objects.update(state=PackState.DAMAGED, damaged_parts=[[0, 9]])
    open_dataset_store(dataset).delete([pack_key(pack.sha256)])

    send_tree(member, upload, PackedTree({"a": b"1" * 1000}))

    assert Pack.objects.get().state == PackState.COMPLETE


def test_only_site_admins_set_limits(dataset, member, project):
    with pytest.raises(PermissionDenied):
        limit(member, project, 1)

    assert not StorageLimit.objects.exists()


def test_a_limit_is_set_shown_and_lifted_by_the_api(stored, dataset, site_admin, member, project):
    path = "/projects/team-a/storage"

    set_ = call(site_admin, "PATCH", path, {"limit_bytes": 10**9})
    shown = call(member, "GET", path)
    lifted = call(site_admin, "PATCH", path, {"limit_bytes": None})

    expected = {
        "project": "team-a",
        "used_bytes": stored,
        "unused_bytes": 0,
        "freed_at": None,
        "leaving_bytes": 0,
        "limit_bytes": 10**9,
        "parts": [{"name": "xrays", "stored_bytes": stored, "is_dataset": True, "is_deleted": False}],
    }
    assert (set_.status, set_.body) == (200, expected)
    assert (shown.status, shown.body) == (200, expected)
    assert lifted.body == {**expected, "limit_bytes": None}


def test_an_upload_at_the_limit_is_refused_by_the_api_with_its_code(stored, dataset, site_admin, member, project):
    limit(site_admin, project, 0)

    answer = call(member, "POST", "/datasets/team-a/xrays/uploads", {"branch": "main"})

    assert (answer.status, answer.body["code"]) == (422, "datasets.storage_limit_reached")
    assert answer.body["details"]["limit_bytes"] == 0


def test_projects_do_not_share_a_limit(stored, dataset, site_admin, member):
    other = Project.objects.create(name="team-b")
    limit(site_admin, other, 0)

    assert start(member, dataset).dataset_id == dataset.pk
