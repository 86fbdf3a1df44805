"""A site that makes a volume for each commit has at most so many: what leaves for a further one, and what is told."""

import pytest

from datasets.engine.cache_states import CacheState
from datasets.errors import InvalidCacheSite, NoVolumeLeft
from datasets.models import CachedCommit, CacheSite
from datasets.selectors import caches as cache_reads
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration, evictions
from tests.contracts.cache_site import new_row
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.clusters import STORAGE_CLASS, lab
from tests.factories.datasets import commit_files, make_dataset
from tests.markup import read_form

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]
CONFIG = {"resource": "lab", "storage_class": STORAGE_CLASS, "size_bytes": 10**12}


@pytest.fixture(autouse=True)
def cluster():
    with lab() as cluster:
        yield cluster


def make_site(actor, **config) -> CacheSite:
    return cache_sites.create_site(actor=actor, name="near", kind="volume", config=CONFIG | config)


@pytest.fixture
def site(site_admin) -> CacheSite:
    return make_site(site_admin, max_volumes=2)


@pytest.fixture
def make_commit(member, dataset, project):
    """Return a function that makes a commit of a dataset of its own."""
    return lambda name: commit_files(member, make_dataset(member, project, name), {"a": name.encode() * 100})


@pytest.fixture
def full(site, make_commit) -> list[CachedCommit]:
    """Two ready copies, which are all the volumes that there may be; the first one is the least recently used."""
    rows = [new_row(site, make_commit(name)) for name in ("old", "young")]
    CachedCommit.objects.update(state=CacheState.READY, is_weighed=True)
    return rows


def set_pinned(actor, *rows: CachedCommit) -> None:
    for row in rows:
        caches.set_pinned(actor=actor, cached_commit_id=row.pk, is_pinned=True)


def test_the_least_recently_used_leaves_and_its_volume_is_free_once_it_is_gone(
    member, site, full, make_commit, cluster
):
    new = caches.request_cache(actor=member, commit=make_commit("new"), site=site)
    cache_hydration.hydrate_cached_commit(cached_commit_id=new.pk)

    new.refresh_from_db()
    assert (new.state, new.waits_for) == ("queued", "a volume that is being deleted")
    capacity = cache_reads.measure_capacity(site)
    assert (capacity.volumes, capacity.max_volumes) == (3, 2)
    assert cluster.made == []

    evictions.remove_copy(cached_commit_id=full[0].pk)
    cache_hydration.hydrate_cached_commit(cached_commit_id=new.pk)

    new.refresh_from_db()
    assert new.state == "hydrating"
    assert {row.dataset.name: row.state for row in CachedCommit.objects.exclude(pk=new.pk)} == {
        "old": "gone",
        "young": "ready",
    }
    assert cache_reads.measure_capacity(site).volumes == 2


def test_what_is_asked_for_has_its_volume_before_it_is_made(member, site, full, make_commit):
    set_pinned(member, full[0])
    caches.request_cache(actor=member, commit=make_commit("first"), site=site)

    with pytest.raises(NoVolumeLeft) as raised:
        caches.request_cache(actor=member, commit=make_commit("second"), site=site)

    assert [item["reason"] for item in raised.value.details["obstacles"]] == ["pinned", "being cached now"]


def test_where_none_may_leave_the_refusal_tells_numbers_what_is_in_the_way_and_what_to_do(
    member, site, full, make_commit
):
    set_pinned(member, *full)

    with pytest.raises(NoVolumeLeft) as raised:
        caches.request_cache(actor=member, commit=(commit := make_commit("new")), site=site)

    labels = [f"team-a/{row.dataset.name}@{row.commit.short} ({row.bytes_total} B, pinned)" for row in full]
    assert raised.value.message == (
        f"near has no volume left for team-a/new@{commit.short}: it has 2 of at most 2, and all of them have to "
        f"stay: {'; '.join(labels)}. 1 of these must leave first."
    )
    assert "nearline cache set SITE --set max_volumes=NUMBER" in raised.value.hint
    details = raised.value.details
    assert (details["volumes"], details["max_volumes"], details["missing_volumes"]) == (2, 2, 1)


def test_of_many_in_the_way_the_refusal_names_ten_and_lists_all(member, site, make_commit):
    rows = [new_row(site, make_commit(f"d{number}")) for number in range(12)]
    CachedCommit.objects.update(state=CacheState.READY, is_pinned=True)

    with pytest.raises(NoVolumeLeft) as raised:
        caches.request_cache(actor=member, commit=make_commit("new"), site=site)

    assert raised.value.message.endswith("; and 2 more. 11 of these must leave first.")
    assert raised.value.message.count("pinned") == 10
    assert {item["id"] for item in raised.value.details["obstacles"]} == {row.pk for row in rows}


def test_a_copy_that_failed_keeps_its_volume_and_needs_no_other_one_to_be_tried_again(member, site, full):
    CachedCommit.objects.filter(pk=full[0].pk).update(state=CacheState.FAILED)
    set_pinned(member, full[1])

    again = caches.request_cache(actor=member, commit=full[0].commit, site=site)

    assert (again.pk, again.state) == (full[0].pk, "queued")


def test_a_clone_keeps_the_volume_of_its_base(member, site, full, make_commit):
    CachedCommit.objects.filter(pk=full[1].pk).update(base=full[0])
    set_pinned(member, full[1])

    with pytest.raises(NoVolumeLeft) as raised:
        caches.request_cache(actor=member, commit=make_commit("new"), site=site)

    reasons = [item["reason"] for item in raised.value.details["obstacles"]]
    assert reasons == ["its volume stays as long as clones of it do", "pinned"]


def test_the_number_is_changed_and_removed_later_and_evicts_nothing_by_itself(
    member, site_admin, site, full, make_commit
):
    def change(**config):
        return call(site_admin, "PATCH", "/cache/sites/near", {"config": config})

    lower = change(max_volumes=1)
    assert (lower.body["volumes"], lower.body["max_volumes"]) == (2, 1)
    assert {row.state for row in CachedCommit.objects.all()} == {"ready"}

    plan = call(member, "GET", "/cache/plan?site=near&need_bytes=1").body
    assert [victim["id"] for victim in plan["victims"]] == [row.pk for row in full]
    assert (plan["volumes"], plan["max_volumes"], plan["missing_volumes"]) == (2, 1, 0)
    set_pinned(member, full[0])
    assert call(member, "GET", "/cache/plan?site=near&need_bytes=1").body["missing_volumes"] == 1
    assert call(member, "GET", "/cache/plan?site=near").body["missing_volumes"] == 0

    anything = change(max_volumes=None, fill_pods=7)
    assert (anything.body["max_volumes"], anything.body["config"]["fill_pods"]) == (None, 7)
    assert "max_volumes" not in anything.body["config"]
    caches.request_cache(actor=member, commit=make_commit("new"), site=site)
    assert cache_reads.measure_capacity(site).volumes == 3


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"max_volumes": 0}, "'max_volumes' of a site of kind volume is a whole number from 1 to 100000."),
        ({"fill_pods": 65}, "'fill_pods' of a site of kind volume is a whole number from 1 to 64."),
        (
            {"size_bytes": 5},
            "'size_bytes' of near cannot be changed. These can be: bytes_per_pod, fill_pods, max_volumes.",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(site_admin, site, config, words):
    answer = call(site_admin, "PATCH", "/cache/sites/near", {"idle_days": 9, "config": config})

    assert (answer.body["code"], answer.body["title"]) == ("datasets.invalid_cache_site", words)
    before = site.config
    site.refresh_from_db()
    assert (site.config, site.idle_days) == (before, 1)


@pytest.mark.parametrize("value", [True, "20"])
def test_what_is_no_number_is_refused(site_admin, site, value):
    answer = call(site_admin, "PATCH", "/cache/sites/near", {"config": {"max_volumes": value}})

    assert (answer.status, answer.body["code"]) == (400, "core.malformed_request")
    site.refresh_from_db()
    assert site.max_volumes == 2


def test_a_site_of_one_volume_or_a_folder_has_no_number_of_them(site_admin, tmp_path):
    with pytest.raises(InvalidCacheSite, match="'max_volumes' is for sites with a volume for each commit"):
        make_site(site_admin, sharing="pool", max_volumes=2)
    make_site(site_admin, sharing="pool")
    cache_sites.create_site(actor=site_admin, name="folder", root=tmp_path / "cache", capacity_bytes=1)

    pool = call(site_admin, "PATCH", "/cache/sites/near", {"config": {"max_volumes": 2}})
    folder = call(site_admin, "PATCH", "/cache/sites/folder", {"config": {"fill_pods": 2}})

    assert pool.body["title"].endswith("These can be: bytes_per_pod, fill_pods.")
    assert (
        folder.body["title"] == "'fill_pods' of folder cannot be changed: sites of kind folder have no such settings."
    )
    assert [site["volumes"] for site in call(site_admin, "GET", "/cache/sites").body["items"]] == [None, None]


def test_the_pages_show_the_number_change_it_and_plan_with_it(site_admin, member, full, site):
    set_pinned(member, *full)
    browser = browser_of(site_admin)

    cache = " ".join(browser.get("/cache/?need=1+kB").content.decode().split())
    assert "volumes 2 of 2" in cache
    assert "not possible, 1 volume short" in cache

    forecast = f"/datasets/team-a/old/commits/{full[0].commit_id}/cache/forecast/?site=near"
    CachedCommit.objects.filter(pk=full[0].pk).update(state=CacheState.GONE)
    assert "1 of 2" in browser.get(forecast).content.decode()
    CachedCommit.objects.filter(pk=full[0].pk).update(state=CacheState.READY)

    page = browser.get("/settings/cache/").content.decode()
    assert 'name="max_volumes" value="2"' in page
    changes = {"capacity": "", "idle_days": "1", "max_volumes": "3", "fill_pods": "", "bytes_per_pod": "16 GiB"}
    browser.post("/settings/cache/near/", changes)
    site.refresh_from_db()
    assert (site.max_volumes, site.config["bytes_per_pod"]) == (3, 16 * 2**30)
    assert 'value="16 GiB"' in browser.get("/settings/cache/").content.decode()

    refused = browser.post("/settings/cache/near/", changes | {"fill_pods": "99", "idle_days": "4"}).content.decode()
    typed, errors = read_form(refused, "/settings/cache/near/")
    assert {"fill_pods": "99", "idle_days": "4"}.items() <= typed.items()
    assert errors == {"fill_pods": "Ensure this value is less than or equal to 64."}
    browser.post("/settings/cache/near/", changes | {"max_volumes": "", "bytes_per_pod": ""})
    site.refresh_from_db()
    assert (site.max_volumes, "bytes_per_pod" in site.config) == (None, False)


def test_the_page_changes_only_what_the_person_changed_and_nothing_that_another_has_changed_meanwhile(site_admin, site):
    browser = browser_of(site_admin)
    shown, _ = read_form(browser.get("/settings/cache/").content.decode(), "/settings/cache/near/")
    assert {"idle_days": "1", "max_volumes": "2", "fill_pods": ""}.items() <= shown.items()
    cache_sites.update_site(actor=site_admin, site=site, idle_days=9, config={"max_volumes": 7, "bytes_per_pod": 2**30})

    browser.post("/settings/cache/near/", shown | {"fill_pods": "5"})
    site.refresh_from_db()
    assert (site.idle_days, site.max_volumes, site.config["bytes_per_pod"]) == (9, 7, 2**30)
    assert site.config["fill_pods"] == 5

    answer = browser.post("/settings/cache/near/", shown | {"max_volumes": "4", "idle_days": "3"})
    site.refresh_from_db()
    assert (site.idle_days, site.max_volumes) == (9, 7)
    typed, errors = read_form(answer.content.decode(), "/settings/cache/near/")
    assert errors == {"idle_days": "Somebody else has changed 'Idle days' meanwhile: it is 9 now."}
    assert {"idle_days": "3", "max_volumes": "4", "fill_pods": "5"}.items() <= typed.items()

    browser.post("/settings/cache/near/", typed)
    site.refresh_from_db()
    assert (site.idle_days, site.max_volumes, site.config["fill_pods"]) == (3, 4, 5)


def test_an_attachment_anew_keeps_what_was_changed(site_admin, site):
    config = {"resource": "lab", "storage_class": STORAGE_CLASS, "size_bytes": 10**11}

    again = cache_sites.plan_site(actor=site_admin, name="near", kind="volume", root="", config=config)
    cache_sites.save_site(actor=site_admin, site=again)

    site.refresh_from_db()
    assert (site.max_volumes, site.config["size_bytes"]) == (2, 10**11)
