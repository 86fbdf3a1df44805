"""A resource names the cache sites that its jobs read, any number of them, the nearest first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from accounts.errors import PermissionDenied
from accounts.permissions import Actor
from compute.errors import InvalidJobSpec, InvalidResource
from compute.models import Resource
from compute.selectors import resources as reads
from compute.services import jobs, resources, submissions
from compute.services.submissions import Submission
from compute.workers import releases
from core import clock, tasks
from datasets.errors import CacheFull, CacheInUse, CacheSiteNotFound, CacheSiteUnavailable
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.services import cache_sites, caches
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.interleaving import happens_after
from tests.markup import flat, read_form

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("null_queue")]
SYSTEM = Actor.system("test")
WANTED = Submission(template="scripted.small", command="python train.py", name="train", data=["team-a/digits"])


@pytest.fixture
def sites(site_admin, home):
    return {
        name: cache_sites.create_site(actor=site_admin, name=name, root=home / name, capacity_bytes=10**7)
        for name in ("near", "far")
    }


@pytest.fixture
def simulated(site_admin):
    config = {"size_bytes": 10**9, "rate_bytes_s": 10**6}
    return cache_sites.create_site(actor=site_admin, name="lab-cache", kind="simulated", config=config)


@pytest.fixture
def commit(member, project, home):
    make_store(home / "store")
    return commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"one"})


@pytest.fixture
def read(site_admin, resource):
    """Let a resource read sites."""
    return lambda *names, by=resource: resources.set_sites(actor=site_admin, resource=by, sites=names)


@pytest.fixture
def submit(member, project, template):
    """Submit a job that reads the commit."""

    def submit(name: str = "train", template: str = "scripted.small"):
        wanted = replace(WANTED, name=name, template=template)
        return submissions.submit_job(actor=member, project=project, submission=wanted)

    return submit


def cache(member, commit, site) -> CachedCommit:
    copy = caches.request_cache(actor=member, commit=commit, site=site)
    tasks.run("datasets.hydrate", {"cached_commit_id": copy.pk})
    copy.refresh_from_db()
    return copy


def names_of(resource: Resource) -> list[str]:
    return Resource.objects.get(pk=resource.pk).sites


def test_sites_are_kept_in_their_order_and_the_first_is_the_old_field(read, resource, sites):
    read("far", "near")

    fresh = Resource.objects.get(pk=resource.pk)
    assert (fresh.sites, fresh.cache_site) == (["far", "near"], "far")
    read()
    fresh = Resource.objects.get(pk=resource.pk)
    assert (fresh.sites, fresh.cache_site) == ([], "")


def test_only_site_admins_choose_sites(member, read, resource, sites):
    read("near")

    with pytest.raises(PermissionDenied):
        resources.set_sites(actor=member, resource=resource, sites=["far"])

    assert names_of(resource) == ["near"]


@pytest.mark.usefixtures("sites")
@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["near", "near"], InvalidResource),
        (["near", "missing"], CacheSiteNotFound),
    ],
)
def test_a_list_that_cannot_work_changes_nothing(read, resource, names, error):
    read("far")

    with pytest.raises(error):
        read(*names)

    assert names_of(resource) == ["far"]


def test_only_a_simulated_resource_reads_a_simulated_site(site_admin, read, resource, simulated):
    read("lab-cache")
    assert (resource.is_simulated, names_of(resource)) == (True, ["lab-cache"])

    with pytest.raises(InvalidResource, match="lab-cache does not exist, so jobs that run cannot read it"):
        resources.attach_resource(actor=site_admin, name="here", kind="local", sites=["lab-cache"])

    assert not Resource.objects.filter(name="here").exists()


def test_a_job_reads_the_nearest_ready_copy_and_holds_it(member, read, submit, sites, commit):
    read("near", "far")
    far = cache(member, commit, sites["far"])

    first = submit()
    assert first.spec["data"][0]["source"]["path"] == far.path

    near = cache(member, commit, sites["near"])
    second = submit("second")
    assert second.spec["data"][0]["source"]["path"] == near.path
    assert set(CacheHold.objects.values_list("cached_commit", "holder")) == {
        (far.pk, f"job:{first.pk}"),
        (near.pk, f"job:{second.pk}"),
    }


@pytest.mark.usefixtures("sites", "commit")
def test_what_is_on_none_of_the_sites_is_brought_to_the_nearest(read, submit):
    read("near", "far")

    submit()

    assert [str(copy.site) for copy in CachedCommit.objects.all()] == ["near"]


@pytest.mark.usefixtures("sites", "commit")
def test_a_job_is_refused_where_jobs_can_mount_nothing_of_any_site(read, submit, resource):
    read("near", "far")
    Resource.objects.filter(pk=resource.pk).update(kind="ssh")

    with pytest.raises(InvalidJobSpec, match="scripted has no cache site that its jobs can read"):
        submit()

    assert not CachedCommit.objects.exists()


def test_a_copy_that_two_resources_read_stays_while_a_job_of_either_holds_it(home, member, read, submit, commit):
    other, _ = make.make_resource("other", home / "other")
    make.make_template(other)
    site = cache_sites.create_site(actor=SYSTEM, name="near", root=home / "near", capacity_bytes=10**7)
    read("near")
    read("near", by=other)
    copy = cache(member, commit, site)
    first, second = submit("first"), submit("second", "other.small")

    jobs.cancel_job(actor=member, job=first, reason="")
    releases.release_data()
    with pytest.raises(CacheInUse):
        caches.uncache(actor=member, cached_commit_id=copy.pk)
    assert [hold.holder for hold in copy.holds.all()] == [f"job:{second.pk}"]

    jobs.cancel_job(actor=member, job=second, reason="")
    releases.release_data()
    assert caches.uncache(actor=member, cached_commit_id=copy.pk).state == "evicting"


def test_a_request_takes_a_ready_copy_on_any_site_then_one_on_its_way(member, sites, commit):
    order = [sites["near"], sites["far"]]
    on_its_way = caches.request_cache(actor=member, commit=commit, site=sites["far"])

    assert caches.request_nearest(actor=member, commit=commit, sites=order, holder="a").pk == on_its_way.pk

    # So long ago that no other copy waits to be filled from it.
    CachedCommit.objects.filter(pk=on_its_way.pk).update(created_at=clock.now() - timedelta(hours=1))
    ready = cache(member, commit, sites["near"])
    assert caches.request_nearest(actor=member, commit=commit, sites=order[::-1], holder="b").pk == ready.pk
    assert set(CacheHold.objects.values_list("cached_commit", "holder")) == {(on_its_way.pk, "a"), (ready.pk, "b")}


def test_a_copy_that_gets_ready_while_a_request_looks_for_one_is_taken(member, sites, commit):
    on_its_way = caches.request_cache(actor=member, commit=commit, site=sites["far"])
    row = CachedCommit.objects.filter(pk=on_its_way.pk)

    with happens_after("datasets_cachedcommit", lambda: row.update(state="ready"), nth=2):
        copy = caches.request_nearest(actor=member, commit=commit, sites=[sites["near"], sites["far"]], holder="a")

    assert copy.pk == on_its_way.pk


def test_a_request_goes_to_the_first_site_with_the_capacity(member, site_admin, sites, commit):
    cache_sites.update_site(actor=site_admin, site=sites["near"], capacity_bytes=1)
    sites["near"].refresh_from_db()
    order = [sites["near"], sites["far"]]

    assert caches.request_nearest(actor=member, commit=commit, sites=order).site == sites["far"]

    with pytest.raises(CacheFull, match="near has no space"):
        caches.request_nearest(actor=member, commit=commit, sites=[sites["near"]])


def test_a_refused_choice_of_sites_stands_in_its_dialog_with_the_reason(site_admin, resource, sites):
    address = f"/compute/{resource.name}/sites/"

    answer = browser_of(site_admin).post(address, {"sites": ["far", "far"]})

    page = answer.content.decode()
    assert (answer.status_code, names_of(resource)) == (422, [])
    assert f'<dialog id="sites-{resource.pk}" data-opens-now' in page
    assert read_form(page, address) == ({"sites": "far"}, {"sites": "A cache site is named twice."})


def test_the_pages_show_both_directions(site_admin, resource, sites):
    browser = browser_of(site_admin)

    browser.post(f"/compute/{resource.name}/sites/", {"sites": ["far", "near"]})

    assert names_of(resource) == ["far", "near"]
    page = browser.get("/compute/").content.decode()
    assert page.index("reads far") < page.index("reads near")
    assert f"read by {resource.name}" in browser.get("/cache/?site=far").content.decode()
    assert reads.list_readers(["near", "far"]) == {"near": [resource.name], "far": [resource.name]}


def test_a_site_on_a_host_that_does_not_answer_is_shown_as_lost_with_the_reason(site_admin, resource, sites):
    browser = browser_of(site_admin)
    host = Resource.objects.create(name="gpu-7", kind="ssh", state="unreachable", error="It is switched off.")
    CacheSite.objects.create(
        name="on-host", kind="ssh", root="/data/cache", config={"resource": host.pk}, capacity_bytes=10**9
    )
    resources.set_sites(actor=site_admin, resource=host, sites=["on-host"])

    page = browser.get("/cache/?site=on-host").content.decode()
    errors = {item["name"]: item["error"] for item in browser.get("/api/v1/cache/sites").json()["items"]}

    assert "It is switched off. What is cached there stays" in flat(page)
    assert errors == {"far": "", "near": "", "on-host": "It is switched off."}
    with pytest.raises(InvalidResource, match="The cache site on-host is on another cluster or host"):
        resources.set_sites(actor=site_admin, resource=resource, sites=["on-host"])


def test_a_site_of_a_detached_host_says_so_and_takes_nothing_until_the_host_is_attached_again(
    site_admin, member, commit, sites
):
    host = Resource.objects.create(name="gpu-7", kind="ssh")
    site = CacheSite.objects.create(
        name="on-host", kind="ssh", root="/data/cache", config={"resource": host.pk}, capacity_bytes=10**9
    )
    resources.set_sites(actor=site_admin, resource=host, sites=["on-host"])
    resources.detach_resource(actor=site_admin, resource=host)
    browser = browser_of(site_admin)

    page = flat(browser.get("/cache/?site=on-host").content.decode())
    errors = {item["name"]: item["error"] for item in browser.get("/api/v1/cache/sites").json()["items"]}

    why = "gpu-7 is detached: nothing is cached here or removed until it is attached again under this name, or given up by `nearline compute give-up gpu-7`."
    assert (page.count(why), page.count("is under way goes on"), page.count("read by gpu-7")) == (1, 0, 0)
    assert (page.count(">Detached<"), page.count(">Lost<")) == (1, 0)
    assert errors == {"far": "", "near": "", "on-host": why}
    with pytest.raises(CacheSiteUnavailable, match=r"^The host of on-host cannot be reached: gpu-7 is detached\.$"):
        caches.request_cache(actor=member, commit=commit, site=site)
    assert not site.cached_commits.exists()
