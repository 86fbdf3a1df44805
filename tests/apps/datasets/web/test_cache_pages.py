"""The pages of the cache: what lies where, in parts where it is much, and the policy of each site."""

import re

import pytest

from accounts.models import Project
from datasets.models import CacheSite
from datasets.services import cache_sites, caches
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.markup import read_form

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(tmp_path, site_admin) -> CacheSite:
    make_store(tmp_path / "store")
    return cache_sites.create_site(actor=site_admin, name="near", root=tmp_path / "near", capacity_bytes=10**9)


def cache_commits(actor, project, site, count: int, *, dataset: str = "digits") -> None:
    made = make_dataset(actor, project, dataset)
    for number in range(count):
        caches.request_cache(actor=actor, commit=commit_files(actor, made, {"a.txt": b"%d" % number}), site=site)


def test_many_copies_are_shown_in_parts_and_the_bar_holds_all(site_admin, project, site, null_queue):
    cache_commits(site_admin, project, site, 60)
    browser = browser_of(site_admin)

    first, second = browser.get("/cache/"), browser.get("/cache/?site=near&from=50")

    [view] = first.context["views"]
    assert (len(view.rows), len(view.segments), view.last) == (50, 60, 50)
    assert "site=near&amp;from=50" in first.content.decode()
    assert len(second.context["views"][0].rows) == 10


def test_the_cache_of_one_project_counts_the_others_as_others(site_admin, project, site, null_queue):
    cache_commits(site_admin, project, site, 1)
    cache_commits(site_admin, Project.objects.create(name="team-b"), site, 2, dataset="maps")

    [view] = browser_of(site_admin).get("/cache/?project=team-b").context["views"]

    assert {row.copy.dataset.name for row in view.rows} == {"maps"}
    assert view.others_bytes == 1


def test_the_folder_of_a_site_is_for_site_admins(member, site_admin, site):
    assert site.root not in browser_of(site_admin).get("/cache/").content.decode()
    assert site.root not in browser_of(member).get("/settings/cache/").content.decode()
    assert site.root in browser_of(site_admin).get("/settings/cache/").content.decode()


def test_a_policy_is_changed_and_an_empty_capacity_leaves_it(site_admin, site):
    browser = browser_of(site_admin)

    browser.post("/settings/cache/near/", {"capacity": "", "idle_days": "0"})

    site.refresh_from_db()
    assert (site.capacity_bytes, site.idle_days) == (10**9, 0)


def test_a_capacity_that_no_disk_has_is_refused_at_its_field_and_what_was_typed_stays(site_admin, site):
    policy = {"capacity": "1000 PB", "idle_days": "0"}

    answer = browser_of(site_admin).post("/settings/cache/near/", policy)

    typed, errors = read_form(answer.content.decode(), "/settings/cache/near/")
    assert (answer.status_code, typed | policy) == (422, typed)
    assert errors.keys() == {"capacity"}
    assert errors["capacity"].startswith("near cannot hold 1000 PB: there are ")
    site.refresh_from_db()
    assert site.capacity_bytes == 10**9


def test_a_site_that_lies_in_another_is_refused_in_words(site_admin, site):
    answer = browser_of(site_admin).post(
        "/settings/cache/new/", {"name": "inner", "folder-root": f"{site.root}/inner", "idle_days": "1"}
    )

    assert "lie in each other" in answer.content.decode()
    assert CacheSite.objects.count() == 1


def test_a_simulated_site_is_added_by_its_size_and_rate_and_labelled_so(site_admin):
    browser = browser_of(site_admin)
    said = {
        "name": "lab-cache",
        "kind": "simulated",
        "simulated-size_bytes": "2 TB",
        "simulated-rate_bytes_s": "500 MB",
        "idle_days": "1",
    }

    assert browser.post("/settings/cache/new/", said).status_code == 302

    site = CacheSite.objects.get()
    assert (site.kind, site.capacity_bytes) == ("simulated", 2 * 10**12)
    assert site.config == {"size_bytes": 2 * 10**12, "rate_bytes_s": 5 * 10**8}
    assert "simulated" in browser.get("/cache/").content.decode()


def test_the_form_of_a_new_site_has_the_fields_of_each_kind_under_that_kind(site_admin):
    page = browser_of(site_admin).get("/settings/cache/").content.decode()

    form = page[page.index('id="new"') :]
    asked = re.findall(r'name="(kind|[a-z]+-[a-z_]+)"(?: value="([a-z]+)")?', form)
    assert [kind or name for name, kind in asked] == [
        *("folder", "folder-root"),
        *("nfs", "nfs-resource", "nfs-server", "nfs-path", "nfs-size_bytes", "nfs-fill_pods", "nfs-bytes_per_pod"),
        *("simulated", "simulated-size_bytes", "simulated-rate_bytes_s"),
        *("volume", "volume-resource", "volume-storage_class", "volume-sharing", "volume-size_bytes"),
        *("volume-max_volumes", "volume-fill_pods", "volume-bytes_per_pod"),
        *("existing", "existing-resource", "existing-server", "existing-path"),
        *("existing-commit", "existing-claim", "existing-folder"),
        *("ssh", "ssh-root", "ssh-resource"),
    ]


def test_a_simulated_site_without_a_rate_is_refused_in_words(site_admin):
    said = {"name": "lab-cache", "kind": "simulated", "simulated-size_bytes": "2 TB", "idle_days": "1"}

    answer = browser_of(site_admin).post("/settings/cache/new/", said)

    assert "needs &#x27;rate_bytes_s&#x27;" in answer.content.decode()
    assert not CacheSite.objects.exists()
