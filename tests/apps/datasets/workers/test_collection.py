"""Packs that nothing refers to leave the store in two steps; all others stay."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction

from core import clock
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.engine.ports import Announcement
from datasets.errors import PackLeaving, PackMissing
from datasets.models import CommitSource, ManifestRange, Pack, PackState, UploadSession
from datasets.selectors import garbage
from datasets.selectors.garbage import Amount
from datasets.services import commits, manifests, packs, uploads
from datasets.services.packs import RangesForgotten
from datasets.services.uploads import ObjectKind, Offer
from datasets.workers import collection
from tests.factories.datasets import PackedTree, commit_files, upload_tree

TREE = PackedTree({"abandoned": b"nobody commits this"})
((NAME, DATA),) = TREE.packs.items()
OFFER = Offer(ObjectKind.PACK, NAME, Announcement(len(DATA), NAME))
DAY = timedelta(days=1)


@pytest.fixture
def abandoned(at, dataset, member):
    """An upload whose pack came and whose commit did not."""
    return upload_tree(member, dataset, TREE)


def stored(dataset):
    return {blob.key for blob in open_dataset_store(dataset).list_blobs("packs/")}


def state():
    return Pack.objects.values_list("state", flat=True).get(sha256=NAME)


def test_the_pack_of_an_abandoned_upload_leaves_after_the_grace_time(abandoned, dataset, member, at):
    kept = commit_files(member, dataset, {"kept": b"1"})
    at(1.1)
    first = collection.collect()
    at(8)
    too_early = collection.collect()
    at(8.2)
    last = collection.collect()

    assert (first, too_early, last) == (Amount(0, 0), Amount(0, 0), Amount(1, len(DATA)))
    assert not Pack.objects.filter(sha256=NAME).exists()
    assert stored(dataset) == {pack_key(pack.sha256) for pack in dataset.packs.all()} != set()
    assert kept.files == 1


def test_an_open_upload_keeps_its_packs_however_long_it_goes_on(abandoned, member, at):
    for day in range(20):
        at(day * 0.9)
        uploads.prolong(actor=member, upload=abandoned)
        collection.collect()

    assert state() == PackState.COMPLETE


def test_who_wants_a_condemned_pack_has_it_back_without_sending_it(abandoned, dataset, member, at):
    at(2)
    collection.collect()
    assert state() == PackState.CONDEMNED
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="again").upload

    (answer,) = uploads.offer_packs(actor=member, upload=upload, offers=[OFFER])
    at(30)
    collection.collect()

    assert answer.state == "complete"
    assert state() == PackState.CONDEMNED  # again, and for a new grace time
    assert pack_key(NAME) in stored(dataset)


def test_a_commit_of_a_condemned_pack_names_it_and_changes_nothing(abandoned, dataset, member, at):
    at(2)
    collection.collect()
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="again").upload

    with pytest.raises(PackMissing) as caught:
        commits.commit_upload(
            actor=member,
            upload=upload,
            root=TREE.root_id,
            expected_head=None,
            message="",
            source=CommitSource.CLI,
            idempotency_key="",
        )

    assert caught.value.details["packs"] == [NAME]
    assert state() == PackState.CONDEMNED
    assert not dataset.commits.exists()


def test_a_pack_that_is_being_deleted_is_refused_until_it_is_gone(abandoned, dataset, member, at):
    at(2)
    collection.collect()
    at(10)
    taken = collection.take_due(limit=10)
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="again").upload

    with pytest.raises(PackLeaving):
        uploads.offer_packs(actor=member, upload=upload, offers=[OFFER])
    collection.delete_packs(taken)
    (answer,) = uploads.offer_packs(actor=member, upload=upload, offers=[OFFER])

    assert answer.state == "wanted"
    assert stored(dataset) == set()


def test_what_a_dead_worker_took_is_taken_over(abandoned, dataset, at):
    at(2)
    collection.collect()
    at(10)
    taken = collection.take_due(limit=10)

    assert collection.collect() == Amount(0, 0)
    at(10.1)
    assert collection.collect() == Amount(1, len(DATA))
    assert collection.delete_packs(taken) == Amount(0, 0)
    assert stored(dataset) == set()


def test_packs_that_cannot_be_deleted_hold_up_no_other(abandoned, dataset, member, at):
    upload_tree(member, dataset, PackedTree({"other": b"nobody commits this either"}))
    at(2)
    collection.collect()
    at(10)
    [first] = collection.take_due(limit=1)
    at(10.1)

    [second] = collection.take_due(limit=1)
    [third] = collection.take_due(limit=1)

    assert (second.pk, third.pk) == (Pack.objects.exclude(pk=first.pk).get().pk, first.pk)


def test_a_worker_that_slept_too_long_deletes_nothing(abandoned, dataset, at):
    at(2)
    collection.collect()
    at(10)
    taken = collection.take_due(limit=10)
    at(10.03)

    assert collection.delete_packs(taken) == Amount(0, 0)
    assert stored(dataset) == {pack_key(NAME)}


def test_a_range_is_forgotten_with_its_packs(abandoned, dataset, at):
    manifests.check_tree(dataset, TREE.root_id)
    at(2)
    collection.collect()
    at(10)
    collection.collect()

    assert not ManifestRange.objects.filter(dataset=dataset).exists()
    with pytest.raises(PackMissing):
        manifests.check_tree(dataset, TREE.root_id)


def test_a_commit_that_comes_to_refer_to_a_condemned_pack_saves_it(abandoned, dataset, member, at):
    at(2)
    commit_files(member, dataset, {"abandoned": b"nobody commits this"})
    Pack.objects.filter(sha256=NAME).update(state=PackState.CONDEMNED, due_at=clock.now())

    assert collection.collect() == Amount(0, 0)
    assert state() == PackState.COMPLETE


def test_a_commit_that_was_checked_before_its_packs_were_given_up_is_refused(abandoned, dataset, member, at):
    checked = manifests.check_tree(dataset, TREE.root_id)
    at(2)
    collection.collect()
    at(10)
    taken = collection.take_due(limit=10)

    with transaction.atomic(), pytest.raises(RangesForgotten):
        packs.hold_ranges(dataset, [row.range_id for row in checked.ranges])

    collection.delete_packs(taken)
    with transaction.atomic(), pytest.raises(RangesForgotten):
        packs.hold_ranges(dataset, [row.range_id for row in checked.ranges])


def test_a_commit_of_a_pack_condemned_since_the_check_is_refused(abandoned, dataset, member, at):
    checked = manifests.check_tree(dataset, TREE.root_id)
    at(2)
    collection.collect()

    with transaction.atomic(), pytest.raises(PackMissing):
        packs.hold_ranges(dataset, [row.range_id for row in checked.ranges])

    assert not ManifestRange.objects.filter(is_committed=True).exists()


def test_what_was_committed_since_the_sentence_is_not_taken(abandoned, dataset, at):
    manifests.check_tree(dataset, TREE.root_id)
    at(2)
    collection.collect()
    ManifestRange.objects.update(is_committed=True)
    at(10)

    assert collection.take_due(limit=10) == []
    assert state() == PackState.CONDEMNED


def test_a_range_is_not_kept_while_its_packs_are_given_up(abandoned, dataset, at):
    at(2)
    collection.collect()

    with transaction.atomic(), pytest.raises(PackMissing):
        packs.lock_present(list(dataset.packs.all()))


def test_who_saw_a_pack_that_was_given_up_since_records_nothing(abandoned, dataset, member, at):
    Pack.objects.update(state=PackState.PENDING)
    seen = list(Pack.objects.all())
    at(2)
    collection.collect()
    at(10)
    collection.collect()
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="again").upload
    uploads.offer_packs(actor=member, upload=upload, offers=[OFFER])

    packs.mark_complete(seen)

    assert state() == PackState.PENDING


def test_the_dry_run_tells_what_would_happen_and_does_nothing(abandoned, dataset, member, at):
    commit_files(member, dataset, {"kept": b"1"})
    UploadSession.objects.update(state="expired")
    at(2)
    answer = StringIO()

    call_command("collect_packs", stdout=answer)

    assert answer.getvalue().splitlines()[1].startswith("unreferenced  1 pack (")
    assert state() == PackState.COMPLETE
    collection.collect()
    report = garbage.report_garbage()
    assert (report.in_use.packs, report.unreferenced.packs, report.waiting.packs, report.due.packs) == (1, 0, 1, 0)
    assert report.next_due_at == clock.now() + 7 * DAY


def test_the_command_collects_at_once_when_told_to(abandoned, dataset, at):
    UploadSession.objects.update(state="expired")
    at(2)
    collection.collect()
    at(10)
    answer = StringIO()

    call_command("collect_packs", now=True, stdout=answer)

    assert answer.getvalue().startswith("deleted       1 pack (")
    assert stored(dataset) == set()
