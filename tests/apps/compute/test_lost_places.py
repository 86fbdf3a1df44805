"""A cluster or SSH host that never comes back is given up, with its jobs and its cache sites."""

import pytest

from accounts.errors import PermissionDenied
from compute.errors import ResourceInUse, ResourceIsPresent, ResourceNotFound
from compute.models import Job, Resource, ResourceSite, ResourceState
from compute.services import lost_places, resources, submissions
from compute.services.submissions import Submission
from core import clock, hosts
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites
from scheduler.models import Node, Placement
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("null_queue")]


@pytest.fixture
def lost(site_admin, member, project, template, home):
    """The resource `scripted` does not answer. There a job ran, and two wait, here and elsewhere, to read its site."""
    resource = template.resource
    make_store(home / "store")
    commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"one"})
    site = cache_sites.create_site(actor=site_admin, name="far", root=home / "far", capacity_bytes=10**7)
    other, _ = make.make_resource("other", home / "other")
    make.make_template(other)
    [ran] = make.submit(project, template, "ran")
    make.start([ran])
    for each in (resource, other):
        resources.set_sites(actor=site_admin, resource=each, sites=["far"])
        wanted = Submission(
            command="true", data=["team-a/digits"], name=f"by-{each.name}", template=f"{each.name}.small"
        )
        submissions.submit_job(actor=member, project=project, submission=wanted)
    CacheSite.objects.filter(pk=site.pk).update(kind="ssh", host="", root="/scratch", config={"resource": resource.pk})
    Resource.objects.filter(pk=resource.pk).update(state=ResourceState.UNREACHABLE, error="No route to host.")
    return ran


def states() -> dict[str, str]:
    return dict(Job.objects.values_list("name", "state"))


def test_what_is_lost_is_said_first_and_nothing_is_changed(lost, site_admin):
    answer = call(site_admin, "GET", "/compute/resources/scripted/loss")

    assert (answer.status, answer.body) == (
        200,
        {
            "resource": "scripted",
            "effects": [
                "1 started job: lost.",
                "1 job: failed, as it waits there.",
                "1 job: failed, which waits elsewhere for what is cached there.",
                "1 log: cut off where the store has no more of it.",
                "1 template: gone: scripted.small.",
                "The cache site far with 1 copy (0 B): removed. What lies in /scratch stays there.",
            ],
        },
    )
    assert states() == {"ran": "running", "by-scripted": "pending", "by-other": "pending"}
    assert (CacheSite.objects.count(), Resource.objects.filter(detached_at=None).count()) == (1, 2)


def test_its_jobs_end_and_its_sites_are_gone(lost, site_admin):
    answer = call(site_admin, "POST", "/compute/resources/scripted/give-up")

    lost.refresh_from_db()
    assert (answer.status, answer.body["effects"][0]) == (200, "1 started job: lost.")
    assert (lost.state, lost.reason_code, lost.reason) == ("lost", "infrastructure", "scripted was given up.")
    assert states() == {"ran": "lost", "by-scripted": "failed", "by-other": "failed"}
    assert Job.objects.get(name="by-other").reason == "scripted was given up, where what it reads was cached."
    assert not CacheSite.objects.exists()
    assert not CachedCommit.objects.exists()
    assert not ResourceSite.objects.exists()
    assert not Placement.objects.exists()
    assert not Node.objects.filter(resource_name="scripted").exists()
    assert Resource.objects.get(name="scripted").detached_at is not None


def test_a_site_of_a_resource_that_was_detached_is_given_up_by_its_name(lost, site_admin):
    Resource.objects.filter(name="scripted").update(detached_at=clock.now())

    loss = lost_places.give_up_resource(actor=site_admin, name="scripted")

    assert loss.templates == ()
    assert not CacheSite.objects.exists()
    with pytest.raises(ResourceNotFound, match="none of that name left cache sites"):
        lost_places.describe_resource_loss(actor=site_admin, name="scripted")


def test_its_page_leads_to_its_end_for_which_its_name_is_typed(lost, site_admin):
    browser = browser_of(site_admin)

    assert "/compute/scripted/give-up/" in browser.get("/compute/scripted/").content.decode()
    assert "1 started job: lost." in browser.get("/compute/scripted/give-up/").content.decode()
    refused = browser.post("/compute/scripted/give-up/", {"confirmed": "other"})
    assert (refused.status_code, states()["ran"]) == (400, "running")
    browser.post("/compute/scripted/give-up/", {"confirmed": "scripted"})
    assert states()["ran"] == "lost"


def test_who_cannot_detach_it_is_told_how_it_is_given_up(lost, site_admin):
    with pytest.raises(ResourceInUse, match=r"2 jobs that have not ended are on scripted\. If it never comes back"):
        resources.detach_resource(actor=site_admin, resource=Resource.objects.get(name="scripted"))


def test_what_answers_is_not_given_up(lost, site_admin):
    Resource.objects.filter(name="scripted").update(state=ResourceState.READY)

    with pytest.raises(ResourceIsPresent, match="scripted answers: it is not lost"):
        lost_places.give_up_resource(actor=site_admin, name="scripted")

    assert (states()["ran"], CacheSite.objects.count()) == ("running", 1)


def test_a_machine_of_a_host_is_given_up_with_its_host(lost, site_admin):
    Resource.objects.filter(name="scripted").update(host="b")

    with pytest.raises(ResourceIsPresent, match="scripted is on a host that is away"):
        lost_places.give_up_resource(actor=site_admin, name="scripted")

    assert CacheSite.objects.exists()


def test_a_daemon_that_is_gone_from_this_host_is_given_up(lost, site_admin):
    Resource.objects.filter(name="scripted").update(host=hosts.this_host())

    lost_places.give_up_resource(actor=site_admin, name="scripted")

    assert states()["ran"] == "lost"


def test_only_site_admins_give_up_resources(lost, member):
    with pytest.raises(PermissionDenied):
        lost_places.give_up_resource(actor=member, name="scripted")

    assert CacheSite.objects.exists()
