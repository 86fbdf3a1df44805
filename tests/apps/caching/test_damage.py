"""Packs that are damaged in the store: found, told, and whole again when a good copy has come."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import NotFound
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key
from datasets.engine.ports import Announcement
from datasets.errors import ContentCorrupt, PackMissing
from datasets.models import Pack
from datasets.selectors.damage import get_damage
from datasets.services import caches, downloads, packs, uploads
from datasets.services.uploads import ObjectKind, Offer
from datasets.workers import collection, scrubs
from tests.apps.caching.conftest import FILES
from tests.factories.datasets import commit_files, read_tree

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db(transaction=True)


def read_pack(dataset):
    """Return the pack that holds `a/one.png`, and its bytes."""
    store = open_dataset_store(dataset)
    found = [(pack, store.get(pack_key(pack.sha256))) for pack in dataset.packs.all()]
    return next((pack, data) for pack, data in found if data.startswith(b"1" * 1000))


def spoil(dataset):
    """Change the first byte of the pack in the store and return what was there."""
    pack, data = read_pack(dataset)
    open_dataset_store(dataset).put(pack_key(pack.sha256), bytes([data[0] ^ 1]) + data[1:])
    return pack, data


def send_again(member, dataset, pack, data):
    """Bring a pack to the store as a client does that has made it again."""
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="test").upload
    offer = Offer(ObjectKind.PACK, pack.sha256, Announcement(len(data), pack.sha256))
    [answer] = uploads.offer_packs(actor=member, upload=upload, offers=[offer])
    assert answer.state == "wanted"
    open_dataset_store(dataset).put(pack_key(pack.sha256), data)
    uploads.confirm_packs(actor=member, upload=upload, names=[pack.sha256])


def state_of(pack):
    return Pack.objects.get(pk=pack.pk).state


def test_a_hydration_that_meets_damage_records_the_pack_and_the_files_are_named(member, dataset, commit, site, worker):
    pack, _ = spoil(dataset)
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", ContentCorrupt.code)
    assert "nearline data sync" in row.error_hint
    found = get_damage(member, dataset, commit)
    assert [one.sha256 for one in found.packs] == [pack.sha256]
    assert found.files == [b"a/one.png"]


def test_a_hydration_that_misses_a_pack_records_it(member, dataset, commit, site, worker):
    pack, _ = read_pack(dataset)
    open_dataset_store(dataset).delete([pack_key(pack.sha256)])

    caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    assert state_of(pack) == "damaged"


def test_when_the_pack_is_sent_again_the_copy_that_could_not_be_made_is_made(member, dataset, commit, site, worker):
    pack, data = spoil(dataset)
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    send_again(member, dataset, pack, data)
    worker.work()

    row.refresh_from_db()
    assert (state_of(pack), row.state, row.error) == ("complete", "ready", "")
    assert len(read_tree(Path(row.path))) == len(FILES)


def test_a_damaged_pack_counts_as_whole_only_after_every_byte_was_read(member, dataset, commit):
    pack, _ = spoil(dataset)
    downloads.report_packs(actor=member, dataset=dataset, names=[pack.sha256])
    upload = uploads.start_upload(actor=member, dataset=dataset, branch="main", client_id="test").upload

    with pytest.raises(PackMissing):
        uploads.confirm_packs(actor=member, upload=upload, names=[pack.sha256])

    assert state_of(pack) == "damaged"


def test_a_report_about_a_whole_pack_changes_nothing(member, dataset, commit):
    pack, _ = read_pack(dataset)

    downloads.report_packs(actor=member, dataset=dataset, names=[pack.sha256, "0" * 64])

    assert state_of(pack) == "complete"


def test_only_members_may_report(make_actor, dataset, commit):
    pack, _ = spoil(dataset)

    with pytest.raises(NotFound):
        downloads.report_packs(actor=make_actor(None, name="stranger"), dataset=dataset, names=[pack.sha256])

    assert state_of(pack) == "complete"


def test_commits_go_on_beside_damage(member, dataset, commit):
    pack, _ = spoil(dataset)
    packs.check_all_packs(dataset)

    newer = commit_files(member, dataset, {"new": b"content"})

    assert newer.parent_id == commit.id
    assert get_damage(member, dataset, newer).files == []
    assert state_of(pack) == "damaged"


def test_a_scrub_that_cannot_heal_records_the_pack_and_is_repeated_once_it_is_whole(member, dataset, ready, worker):
    pack, data = spoil(dataset)
    path = Path(ready.path) / "a/one.png"
    path.chmod(0o644)
    path.write_bytes(b"0" * 1000)
    caches.scrub(actor=member, cached_commit_id=ready.pk)
    with pytest.raises(ContentCorrupt):
        scrubs.scrub_cached_commit(cached_commit_id=ready.pk)
    assert state_of(pack) == "damaged"
    ready.refresh_from_db()
    assert ready.error_code == ContentCorrupt.code

    send_again(member, dataset, pack, data)
    ready.refresh_from_db()
    assert ready.scrub_requested_at is not None
    scrubs.scrub_cached_commit(cached_commit_id=ready.pk)

    ready.refresh_from_db()
    assert (path.read_bytes(), ready.error) == (FILES["a/one.png"], "")


def test_a_damaged_pack_stays_while_a_commit_needs_it_and_leaves_without_a_grace_time_when_none_does(
    member, dataset, commit
):
    pack, _ = spoil(dataset)
    packs.check_all_packs(dataset)
    Pack.objects.update(touched_at=LONG_AGO)
    assert collection.condemn_unreferenced() == 0

    dataset.ranges.update(is_committed=False)
    dataset.uploads.update(state="committed")
    collection.collect()

    assert not dataset.packs.filter(pk=pack.pk).exists()
    assert dataset.packs.filter(state="condemned").count() == 2
    assert open_dataset_store(dataset).stat(pack_key(pack.sha256)) is None
