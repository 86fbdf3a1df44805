"""A cluster or SSH host that never comes back is given up, with its jobs and its cache sites."""

import io

import pytest
from django.core.management import CommandError, call_command

from accounts.errors import PermissionDenied
from compute.errors import ResourceInUse
from compute.models import Job, Resource, ResourceSite, ResourceState
from compute.services import lost_resources, resources, submissions
from compute.services.submissions import Submission
from core import clock
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites
from scheduler.models import Node, Placement
from tests.factories import compute as make
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


def give_up(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command("give_up_resource", *arguments, stdout=out)
    return out.getvalue().splitlines()


def states() -> dict[str, str]:
    return dict(Job.objects.values_list("name", "state"))


def test_what_is_lost_is_said_first_and_nothing_is_changed(lost):
    lines = give_up("scripted")

    assert lines == [
        "jobs         1 that started are lost",
        "jobs         1 that wait there fail",
        "jobs         1 that wait elsewhere to read its cache sites fail",
        "logs         1 keep only what the store has",
        "outputs      0 that are not stored are lost",
        "cache site   far is removed, with 1 copy (0 B). What lies in /scratch stays there.",
        "Nothing was changed. Add --yes to give scripted up; that cannot be undone.",
    ]
    assert states() == {"ran": "running", "by-scripted": "pending", "by-other": "pending"}
    assert (CacheSite.objects.count(), Resource.objects.filter(detached_at=None).count()) == (1, 2)


def test_its_jobs_end_and_its_sites_are_gone(lost):
    lines = give_up("scripted", "--yes")

    lost.refresh_from_db()
    assert lines[-1] == "scripted is given up. What it still runs goes on unseen."
    assert (lost.state, lost.reason_code, lost.reason) == ("lost", "infrastructure", "scripted was given up.")
    assert states() == {"ran": "lost", "by-scripted": "failed", "by-other": "failed"}
    assert Job.objects.get(name="by-other").reason == "scripted was given up, where what it reads was cached."
    assert not CacheSite.objects.exists()
    assert not CachedCommit.objects.exists()
    assert not ResourceSite.objects.exists()
    assert not Placement.objects.exists()
    assert not Node.objects.filter(resource_name="scripted").exists()
    assert Resource.objects.get(name="scripted").detached_at is not None


def test_a_site_of_a_resource_that_was_detached_is_given_up_by_its_name(lost):
    Resource.objects.filter(name="scripted").update(detached_at=clock.now())

    give_up("scripted", "--yes")

    assert not CacheSite.objects.exists()
    with pytest.raises(CommandError, match="none of that name left cache sites"):
        give_up("scripted")


def test_who_cannot_detach_it_is_told_how_it_is_given_up(lost, site_admin):
    with pytest.raises(ResourceInUse, match=r"2 jobs that have not ended are on scripted\. If it never comes back"):
        resources.detach_resource(actor=site_admin, resource=Resource.objects.get(name="scripted"))


def test_what_answers_is_not_given_up(lost):
    Resource.objects.filter(name="scripted").update(state=ResourceState.READY)

    with pytest.raises(CommandError, match="scripted answers: it is not lost"):
        give_up("scripted", "--yes")

    assert (states()["ran"], CacheSite.objects.count()) == ("running", 1)


def test_a_machine_of_a_host_is_given_up_with_its_host(lost):
    Resource.objects.filter(name="scripted").update(host="b")

    with pytest.raises(CommandError, match="scripted is on a host of the platform"):
        give_up("scripted", "--yes")

    assert CacheSite.objects.exists()


def test_only_site_admins_give_up_resources(lost, member):
    with pytest.raises(PermissionDenied):
        lost_resources.give_up_resource(actor=member, name="scripted")

    assert CacheSite.objects.exists()
