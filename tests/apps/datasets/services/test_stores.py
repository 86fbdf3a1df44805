"""Stores: the default one follows the settings; credentials are never in the clear."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from cryptography.fernet import Fernet

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from accounts.permissions import Actor
from core import clock
from datasets.adapters import folder_marks, s3_report
from datasets.adapters.folder import FolderStore
from datasets.adapters.opening import credentials_of, encrypt_credentials, open_store
from datasets.engine.ports import PutProof
from datasets.errors import InvalidStore, StoreNotFound, StoreUnreachable
from datasets.models import Store
from datasets.selectors.datasets import get_default_store
from datasets.services import stores
from datasets.workers import collection
from tests.contracts.blob_store import announce
from tests.factories.datasets import commit_files, make_store


@pytest.mark.django_db
def test_the_first_start_makes_a_folder_in_the_home(settings):
    store = stores.ensure_default_store(actor=Actor.system("first start"))

    assert (store.kind, store.location, store.is_default) == ("folder", str(settings.NEARLINE.home / "store"), True)
    assert store.put_proof == "payload-sha256"
    assert isinstance(open_store(store), FolderStore)


@pytest.mark.django_db
def test_a_second_start_changes_nothing():
    first = stores.ensure_default_store(actor=Actor.system("first start"))
    entries = AuditEntry.objects.count()

    again = stores.ensure_default_store(actor=Actor.system("first start"))

    assert again.id == first.id
    assert AuditEntry.objects.count() == entries == 1


@pytest.mark.django_db
def test_a_bucket_whose_keys_nobody_can_decrypt_any_more_gets_those_of_the_settings(settings, monkeypatch):
    location = "s3://datasets/nearline?endpoint=http://127.0.0.1:1"
    keys = {"access_key": "access", "secret_key": "secret"}
    monkeypatch.setattr(s3_report, "probe_put_proof", lambda *_args, **_facts: PutProof.CHECKSUM_SHA256)
    settings.NEARLINE = replace(
        settings.NEARLINE, store_url=location, store_access_key="access", store_secret_key="secret"
    )
    stores.ensure_default_store(actor=Actor.system("first start"))
    settings.NEARLINE = replace(settings.NEARLINE, secrets_key=Fernet.generate_key().decode())

    store = stores.ensure_default_store(actor=Actor.system("first start"))

    assert credentials_of(store) == keys
    assert Store.objects.count() == 1


def test_a_folder_that_moved_keeps_its_row(store_row, tmp_path):
    moved = make_store(tmp_path / "elsewhere")

    assert moved.id == store_row.id
    assert moved.location == str(tmp_path / "elsewhere")


def make_older(store_row: Store) -> None:
    """Make a store what an earlier version had made of it."""
    Store.objects.filter(pk=store_row.pk).update(mark="")
    (Path(store_row.location) / folder_marks.STORE_MARK).unlink()


def mark_of(store_row: Store) -> tuple[str, str]:
    """Return the mark in the row, and that in the folder."""
    store_row.refresh_from_db()
    return store_row.mark, folder_marks.read_mark(Path(store_row.location), folder_marks.STORE_MARK)


def swap_for_empty_folder(store_row: Store) -> Path:
    """Move the folder of a store away and leave an empty one, as a mount point without its disk is."""
    folder = Path(store_row.location)
    away = folder.rename(folder.with_name("away"))
    folder.mkdir()
    return away


def test_a_new_store_has_a_mark_that_is_no_object(store_row):
    row_mark, folder_mark = mark_of(store_row)

    assert len(row_mark) == 32
    assert folder_mark == row_mark
    assert list(open_store(store_row).list_blobs("")) == []


def test_a_start_without_the_disk_neither_makes_nor_marks_the_folder(store_row, dataset, member):
    commit_files(member, dataset, {"a": b"1"})
    mark, _ = mark_of(store_row)
    for leave in (swap_for_empty_folder, lambda row: Path(row.location).rmdir()):
        leave(store_row)

        again = make_store(Path(store_row.location))

        assert again.mark == mark
        assert not folder_marks.read_mark(Path(store_row.location), folder_marks.STORE_MARK)
        with pytest.raises(StoreUnreachable):
            open_store(again).stat("datasets/a")
    assert not Path(store_row.location).exists()


@pytest.mark.parametrize("is_default", [True, False])
def test_the_folder_of_an_earlier_version_is_marked_at_the_next_start(store_row, dataset, member, is_default, settings):
    home = Path(store_row.location).parent
    settings.NEARLINE = replace(settings.NEARLINE, home=home if is_default else home / "new")
    commit_files(member, dataset, {"a": b"1"})
    make_older(store_row)
    if not is_default:
        Store.objects.filter(pk=store_row.pk).update(name="other", is_default=False)

    stores.ensure_default_store(actor=Actor.system("start"))

    row_mark, folder_mark = mark_of(store_row)
    assert len(row_mark) == 32
    assert folder_mark == row_mark


def test_an_empty_store_of_an_earlier_version_is_marked_as_a_new_one(store_row):
    make_older(store_row)

    make_store(Path(store_row.location))

    row_mark, folder_mark = mark_of(store_row)
    assert len(row_mark) == 32
    assert folder_mark == row_mark


def test_a_folder_that_was_away_at_the_update_does_not_answer_and_is_marked_once_it_is_back(
    store_row, dataset, member, settings
):
    settings.NEARLINE = replace(settings.NEARLINE, home=Path(store_row.location).parent)
    commit_files(member, dataset, {"a": b"1"})
    make_older(store_row)
    away = swap_for_empty_folder(store_row)

    stores.ensure_default_store(actor=Actor.system("start"))

    assert mark_of(store_row) == ("", "")
    with pytest.raises(StoreUnreachable) as refusal:
        open_store(store_row).put("datasets/a", b"1")
    assert "the folder at its place is empty" in refusal.value.for_admins
    Path(store_row.location).rmdir()
    away.rename(store_row.location)
    assert len(list(open_store(store_row).list_blobs("datasets/"))) > 0
    stores.ensure_default_store(actor=Actor.system("start"))
    assert all(mark_of(store_row))


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_two_that_mark_a_folder_at_once_agree(tmp_path, monkeypatch, has_hard_links):
    if not has_hard_links:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(errno.EPERM, "Operation not permitted")))
    start = threading.Barrier(8)

    def mark(_number: int) -> str:
        start.wait(60)
        return folder_marks.ensure_mark(tmp_path, folder_marks.STORE_MARK)

    with ThreadPoolExecutor(8) as threads:
        marks = set(threads.map(mark, range(8)))

    assert marks == {folder_marks.read_mark(tmp_path, folder_marks.STORE_MARK)}
    assert [path.name for path in tmp_path.iterdir()] == [folder_marks.STORE_MARK]


def test_an_empty_mark_is_none(tmp_path):
    (tmp_path / folder_marks.STORE_MARK).touch()

    mark = folder_marks.ensure_mark(tmp_path, folder_marks.STORE_MARK)

    assert len(mark) == 32
    assert [path.name for path in tmp_path.iterdir()] == [folder_marks.STORE_MARK]


def test_there_is_one_default_store(store_row, site_admin, tmp_path):
    other = stores.register_folder_store(actor=site_admin, name="other", folder=tmp_path / "other")

    assert get_default_store() == other
    assert Store.objects.filter(is_default=True).count() == 1
    assert Store.objects.count() == 2


def test_only_a_site_admin_registers_stores(member, tmp_path):
    with pytest.raises(PermissionDenied):
        stores.register_folder_store(actor=member, name="mine", folder=tmp_path / "mine")
    with pytest.raises(PermissionDenied):
        stores.register_s3_store(actor=member, name="mine", location="s3://b", access_key="", secret_key="")

    assert not Store.objects.exists()
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_cannot_be_made_is_said_plainly(site_admin, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(InvalidStore, match="cannot be made"):
        stores.register_folder_store(actor=site_admin, name="x", folder=tmp_path / "file" / "x")

    assert not Store.objects.exists()


@pytest.mark.django_db
def test_before_the_first_start_there_is_no_store():
    with pytest.raises(StoreNotFound):
        get_default_store()


def test_credentials_are_encrypted():
    credentials = {"access_key": "AKIA", "secret_key": "very secret"}

    ciphertext = encrypt_credentials(credentials)

    assert b"very secret" not in ciphertext
    assert credentials_of(Store(credentials=ciphertext)) == credentials
    assert credentials_of(Store(credentials=encrypt_credentials({}))) == {}


def test_what_killed_uploads_left_is_swept_and_running_ones_are_not(store_row):
    store = open_store(store_row)
    old = store.open_put("packs/a", announce(b"old"))
    with clock.frozen_at(clock.now() + timedelta(hours=2)):
        swept = collection.sweep_unfinished()
    fresh = store.open_put("packs/b", announce(b"fresh"))

    fresh.write(b"fresh")
    swept_later = collection.sweep_unfinished()
    fresh.finish()
    old.discard()

    assert (swept, swept_later) == (1, 0)
    assert store.get("packs/b") == b"fresh"
