"""Deleting a dataset on its page, and the page of deleted ones."""

import pytest

from accounts.permissions import Role
from datasets.models import Dataset
from tests.factories.browsers import browser_of
from tests.factories.datasets import make_dataset

pytestmark = pytest.mark.django_db
SETTINGS = "/datasets/team-a/xrays/settings/"


def test_an_admin_deletes_restores_under_another_name_and_deletes_for_good(make_actor, member, project, store_row):
    admin = browser_of(make_actor(Role.ADMIN, name="ada"))
    dataset = make_dataset(member, project, "xrays")
    assert "/datasets/deleted/" not in admin.get("/datasets/?project=").content.decode()
    assert "restore it within 7 days" in admin.get(SETTINGS).content.decode()

    told = admin.post("/datasets/team-a/xrays/delete/", {"confirmed": "xrays"}, follow=True).content.decode()

    assert "team-a/xrays is deleted. It can be restored until" in told
    assert 'href="/datasets/deleted/"' in told
    page = admin.get("/datasets/deleted/").content.decode()
    assert ("by ada" in page, f"/datasets/deleted/{dataset.pk}/restore/" in page) == (True, True)
    assert "No deleted datasets" in browser_of(member).get("/datasets/deleted/").content.decode()

    make_dataset(member, project, "xrays")
    taken = admin.post(f"/datasets/deleted/{dataset.pk}/restore/", {"name": "xrays"})
    restored = admin.post(f"/datasets/deleted/{dataset.pk}/restore/", {"name": "older"})
    admin.post("/datasets/team-a/older/delete/", {"confirmed": "older"})
    admin.post(f"/datasets/deleted/{dataset.pk}/for-good/")

    assert (taken.status_code, restored.headers["Location"]) == (409, "/datasets/team-a/older/")
    assert Dataset.objects.get(pk=dataset.pk).restore_ends_at is None


def test_for_good_leaves_nothing_to_restore(make_actor, member, project, store_row):
    admin = browser_of(make_actor(Role.ADMIN))
    dataset = make_dataset(member, project, "xrays")

    admin.post("/datasets/team-a/xrays/delete/", {"confirmed": "xrays", "for_good": "on"})

    row = Dataset.objects.get(pk=dataset.pk)
    assert (row.deleted_at is None, row.restore_ends_at) == (False, None)
