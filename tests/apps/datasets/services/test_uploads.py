"""An upload session says which packs are missing, records only what it saw, and ends."""

from datetime import timedelta

import pytest

from accounts.errors import PermissionDenied
from core import clock
from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.engine.ports import Announcement
from datasets.errors import BodyRefused, PackMissing, ReferenceNotFound, UploadClosed, UploadNotFound
from datasets.models import Pack, UploadSession
from datasets.selectors import commits as commit_reads
from datasets.services import uploads
from datasets.services.uploads import ObjectKind, Offer
from datasets.workers import collection
from tests.factories.datasets import PackedTree, commit_files

TREE = PackedTree({"a": b"1", "b": b"2"})
((NAME, DATA),) = TREE.packs.items()
PACK = Offer(ObjectKind.PACK, NAME, Announcement(len(DATA), NAME))


@pytest.fixture
def upload(dataset, member):
    return uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="laptop").upload


def state_of(name=NAME):
    return Pack.objects.values_list("state", flat=True).get(sha256=name)


def test_a_new_session_tells_the_head_to_build_on(dataset, member):
    commit = commit_files(member, dataset, {"a": b"1"})

    started = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="laptop")

    assert started.branch.head == commit
    assert started.upload.expires_at > clock.now() + timedelta(hours=23)


def test_an_unknown_branch_is_refused(dataset, member):
    with pytest.raises(ReferenceNotFound):
        uploads.start_upload(actor=member, dataset=dataset, branch="none", client_id="laptop")

    assert not UploadSession.objects.exists()


def test_viewers_do_not_upload(dataset, viewer, upload):
    with pytest.raises(PermissionDenied):
        uploads.start_upload(actor=viewer, dataset=dataset, branch="main", client_id="laptop")
    with pytest.raises(PermissionDenied):
        uploads.offer_packs(actor=viewer, upload=upload, offers=[PACK])

    assert UploadSession.objects.count() == 1
    assert not Pack.objects.exists()


def test_a_session_is_its_owners_alone(upload, make_actor):
    other = make_actor(name="other")

    with pytest.raises(UploadNotFound):
        commit_reads.get_upload(actor=other, upload_id=upload.id)


def test_a_new_pack_is_wanted_and_may_be_sent(dataset, member, upload):
    (answer,) = uploads.offer_packs(actor=member, upload=upload, offers=[PACK])

    assert answer.state == "wanted"
    assert answer.request.method == "PUT"
    assert "/store/" in answer.request.url
    assert state_of() == "pending"


def test_a_pack_counts_once_it_was_seen_in_the_store(dataset, member, upload):
    uploads.offer_packs(actor=member, upload=upload, offers=[PACK])
    open_dataset_store(dataset).put(pack_key(NAME), DATA)

    (answer,) = uploads.confirm_packs(actor=member, upload=upload, names=[NAME])

    assert (answer.state, state_of()) == ("complete", "complete")


def test_a_pack_that_did_not_arrive_is_named(dataset, member, upload):
    uploads.offer_packs(actor=member, upload=upload, offers=[PACK])

    with pytest.raises(PackMissing) as caught:
        uploads.confirm_packs(actor=member, upload=upload, names=[NAME, "0" * 64])

    assert caught.value.details["packs"] == sorted([NAME, "0" * 64])
    assert state_of() == "pending"


def test_a_pack_of_the_wrong_length_did_not_arrive(dataset, member, upload):
    uploads.offer_packs(actor=member, upload=upload, offers=[PACK])
    open_dataset_store(dataset).put(pack_key(NAME), DATA[:-1])

    with pytest.raises(PackMissing):
        uploads.confirm_packs(actor=member, upload=upload, names=[NAME])

    assert state_of() == "pending"


def test_a_pack_sent_before_a_crash_is_found_and_not_sent_again(dataset, member, upload):
    uploads.offer_packs(actor=member, upload=upload, offers=[PACK])
    open_dataset_store(dataset).put(pack_key(NAME), DATA)
    later = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="laptop").upload

    (answer,) = uploads.offer_packs(actor=member, upload=later, offers=[PACK])

    assert (answer.state, state_of()) == ("complete", "complete")


def test_a_pack_cannot_change_its_size(dataset, member, upload):
    uploads.offer_packs(actor=member, upload=upload, offers=[PACK])

    with pytest.raises(BodyRefused):
        uploads.offer_packs(
            actor=member, upload=upload, offers=[Offer(ObjectKind.PACK, NAME, Announcement(len(DATA) + 1, NAME))]
        )

    assert Pack.objects.get().size_bytes == len(DATA)


@pytest.mark.parametrize("size", [0, (64 << 20) + 1])
def test_a_pack_has_bounds(member, upload, size):
    with pytest.raises(InvalidInput):
        uploads.offer_packs(
            actor=member, upload=upload, offers=[Offer(ObjectKind.PACK, NAME, Announcement(size, NAME))]
        )

    assert not Pack.objects.exists()


def test_known_manifests_are_not_wanted_again(dataset, member):
    commit = commit_files(member, dataset, {"a": b"1"})
    known = PackedTree({"a": b"1"})
    fresh = PackedTree({"a": b"2"})
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="laptop").upload
    offers = [
        Offer(kind, name, Announcement(10, "0" * 64))
        for tree in (known, fresh)
        for kind, name in ((ObjectKind.RANGE, next(iter(tree.tree.objects))), (ObjectKind.ROOT, tree.root_id))
    ]

    answers = uploads.offer_manifests(actor=member, upload=upload, offers=offers)

    assert commit.root == known.root_id
    assert [answer.state for answer in answers] == ["complete", "complete", "wanted", "wanted"]


def test_every_call_prolongs_a_session(member, upload):
    with clock.frozen_at(upload.expires_at - timedelta(hours=1)):
        uploads.offer_packs(actor=member, upload=upload, offers=[PACK])

    later = UploadSession.objects.get(pk=upload.pk)
    assert later.expires_at == upload.expires_at + timedelta(hours=23)


def test_a_session_ends_when_nothing_is_heard(member, upload):
    with clock.frozen_at(upload.expires_at + timedelta(seconds=1)):
        assert collection.expire_uploads() == 1
        assert collection.expire_uploads() == 0
        with pytest.raises(UploadClosed):
            uploads.offer_packs(actor=member, upload=upload, offers=[PACK])

    assert UploadSession.objects.get().state == "expired"
    assert not Pack.objects.exists()


def test_offering_many_packs_takes_few_queries(member, upload, django_assert_max_num_queries):
    offers = [Offer(ObjectKind.PACK, f"{number:064x}", Announcement(10, f"{number:064x}")) for number in range(32)]

    with django_assert_max_num_queries(10):
        answers = uploads.offer_packs(actor=member, upload=upload, offers=offers)

    assert {answer.state for answer in answers} == {"wanted"}
