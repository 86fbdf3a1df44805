"""Jobs that people submit by hand, and the data that is kept for them as long as they live."""

from dataclasses import replace

import pytest

from accounts.errors import PermissionDenied
from compute.errors import DataNotCached, InvalidJobSpec, JobNameTaken
from compute.models import Job, ResourceSite
from compute.services import jobs, submissions
from compute.services.submissions import Submission
from compute.workers import releases
from core import tasks
from datasets.errors import CacheInUse
from datasets.models import CachedCommit
from datasets.services import cache_sites, caches
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = pytest.mark.django_db

WANTED = Submission(template="scripted.small", command="python train.py", name="train")


@pytest.fixture
def cached(member, project, site_admin, resource, home) -> CachedCommit:
    """A commit that lies ready on the cache site of the resource."""
    before = tasks.install(tasks.NullQueue())
    make_store(home / "store")
    commit = commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"one"})
    site = cache_sites.create_site(actor=site_admin, name="near", root=home / "near", capacity_bytes=10**7)
    ResourceSite.objects.create(resource=resource, site="near", position=0)
    copy = caches.request_cache(member, commit, site)
    tasks.run("datasets.hydrate", {"cached_commit_id": copy.pk})
    tasks.install(before)
    copy.refresh_from_db()
    return copy


def test_a_submitted_job_belongs_to_the_person_and_waits(member, project, template):
    job = submissions.submit_job(actor=member, project=project, wanted=WANTED)

    assert (job.name, job.submitted_by, job.state, job.kind) == ("train", "member", "pending", "job")
    assert job.spec["command"] == "python train.py"


def test_without_a_name_it_gets_one(member, project, template):
    first = submissions.submit_job(actor=member, project=project, wanted=replace(WANTED, name=""))
    second = submissions.submit_job(actor=member, project=project, wanted=replace(WANTED, name=""))

    assert first.name.startswith("job-")
    assert first.name != second.name


def test_what_it_reads_is_mounted_and_stays_until_it_has_ended(member, project, template, cached):
    wanted = replace(WANTED, data=["team-a/digits"])
    job = submissions.submit_job(actor=member, project=project, wanted=wanted)

    job.refresh_from_db()
    source = {"kind": "host_folder", "path": str(cached.path)}
    assert job.spec["data"] == [{"name": "digits", "source": source, "read_only": True}]
    releases.release_data()
    with pytest.raises(CacheInUse, match="read by train"):
        caches.uncache(member, cached.pk)
    jobs.cancel_job(actor=member, job=job)
    releases.release_data()
    assert caches.uncache(member, cached.pk).state == "evicting"


def test_data_that_is_not_there_refuses_the_job_and_says_where_it_is_missing(member, project, template, cached):
    caches.uncache(member, cached.pk)

    with pytest.raises(DataNotCached, match=r"is not cached on near, where scripted\.small would read it"):
        submissions.submit_job(actor=member, project=project, wanted=replace(WANTED, data=["team-a/digits"]))
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("change", "error"),
    [({"name": "no way"}, InvalidJobSpec), ({"command": " "}, InvalidJobSpec), ({"name": "x" * 64}, InvalidJobSpec)],
)
def test_nonsense_is_refused_and_nothing_is_created(member, project, template, change, error):
    with pytest.raises(error):
        submissions.submit_job(actor=member, project=project, wanted=replace(WANTED, **change))
    assert not Job.objects.exists()


def test_a_name_is_used_once(member, project, template):
    submissions.submit_job(actor=member, project=project, wanted=WANTED)

    with pytest.raises(JobNameTaken):
        submissions.submit_job(actor=member, project=project, wanted=WANTED)
    assert Job.objects.count() == 1


def test_a_viewer_cannot_submit(viewer, project, template):
    with pytest.raises(PermissionDenied):
        submissions.submit_job(actor=viewer, project=project, wanted=WANTED)
    assert not Job.objects.exists()
