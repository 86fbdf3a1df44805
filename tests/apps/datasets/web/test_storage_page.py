"""The storage page: what projects store for their members, and limits for site admins."""

import pytest

from datasets.models import Pack, StorageLimit
from datasets.services import storage_limits
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset
from tests.markup import flat, read_form

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(member, project, store_row):
    dataset = make_dataset(member, project, "xrays")
    commit_files(member, dataset, {"a": b"1" * 1000})
    return dataset


def test_members_see_what_their_projects_store_and_no_form(browser, stored):
    page = browser.get("/settings/storage/").content.decode()

    assert "1.0 kB" in page
    assert 'href="/datasets/team-a/xrays/usage/"' in page
    assert 'action="/settings/storage/' not in page
    assert "no commit uses" not in page


def test_what_no_commit_uses_is_told_apart(browser, stored):
    Pack.objects.create(dataset=stored, sha256="ab" * 32, size_bytes=300, state="complete")

    page = flat(browser.get("/settings/storage/").content.decode())

    assert "300 B of this are of uploads that no commit uses. They are freed by" in page


def test_strangers_see_nothing_of_it(make_actor, stored):
    assert "team-a" not in browser_of(make_actor(None, name="stranger")).get("/settings/storage/").content.decode()


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("written", "limit", "shown"),
    [("10 TB", 10**13, "10.0 TB"), ("1.5g", 1_500_000_000, "1.5 GB"), ("1000001", 1_000_001, "1000001")],
)
def test_a_site_admin_limits_a_project_and_finds_the_limit_as_it_is(written, limit, shown, site_admin):
    browser = browser_of(site_admin)

    page = browser.post("/settings/storage/team-a/", {"limit": written}, follow=True).content.decode()

    assert StorageLimit.objects.get().limit_bytes == limit
    assert f'value="{shown}"' in page


def test_an_empty_limit_lifts_it_and_nonsense_changes_nothing(site_admin, project, stored):
    storage_limits.set_limit(actor=site_admin, project=project, limit_bytes=10**6)
    browser = browser_of(site_admin)

    answer = browser.post("/settings/storage/team-a/", {"limit": "much"})

    assert answer.status_code == 422
    assert read_form(answer.content.decode(), "/settings/storage/team-a/") == (
        {"limit": "much"},
        {"limit": "'much' is not a size. Write it like 512Mi, 4GB or 1000000."},
    )
    assert StorageLimit.objects.get().limit_bytes == 10**6
    browser.post("/settings/storage/team-a/", {"limit": ""})
    assert not StorageLimit.objects.exists()


def test_a_project_at_its_limit_is_marked(browser, site_admin, project, stored):
    storage_limits.set_limit(actor=site_admin, project=project, limit_bytes=10)

    assert "At its limit" in browser.get("/settings/storage/").content.decode()


def test_the_usage_tab_tells_what_a_dataset_stores(browser, member, stored):
    commit_files(member, stored, {"a": b"1" * 1000, "b": b""})

    page = " ".join(browser.get("/datasets/team-a/xrays/usage/").content.decode().split())

    assert "1.0 kB stored, for 2 commits that would take 2.0 kB as copies (1.9 times as much)." in page
