"""Stores: the default one follows the settings; credentials are never in the clear."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet

from accounts.actor import Actor
from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from core import clock
from datasets.adapters import s3_probe
from datasets.adapters.folder import FolderStore
from datasets.adapters.opening import credentials_of, encrypt_credentials, open_store
from datasets.engine.ports import PutProof
from datasets.errors import InvalidStore, StoreNotFound
from datasets.models import Store
from datasets.selectors.datasets import get_default_store
from datasets.services import stores
from datasets.workers import unfinished
from tests.contracts.blob_store import announce
from tests.factories.datasets import make_store


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
    monkeypatch.setattr(s3_probe, "probe_put_proof", lambda *_args, **_facts: PutProof.CHECKSUM_SHA256)
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
        swept = unfinished.sweep_unfinished()
    fresh = store.open_put("packs/b", announce(b"fresh"))

    fresh.write(b"fresh")
    swept_later = unfinished.sweep_unfinished()
    fresh.finish()
    old.discard()

    assert (swept, swept_later) == (1, 0)
    assert store.get("packs/b") == b"fresh"
