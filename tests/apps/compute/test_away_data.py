"""Jobs whose dataset is on a disk that is not mounted wait for it: before they are queued, and before they start."""

from datetime import timedelta

import pytest

from accounts.permissions import Actor
from compute.models import Job, ResourceSite
from compute.selectors.waits import find_data_waits
from compute.services import submissions
from compute.services.submissions import Submission
from compute.workers import data_waits, launches
from core import clock
from datasets.errors import CacheSiteAway
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites
from datasets.workers import cache_hydration, site_checks
from scheduler.workers import cycle
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("null_queue", "template")]


@pytest.fixture
def disk(member, project, resource, home):
    """The folder of a site that the resource reads, and a commit of which a job is submitted."""
    make_store(home / "store")
    disk = home / "near"
    cache_sites.create_site(actor=Actor.system("test"), name="near", root=disk, capacity_bytes=10**8)
    ResourceSite.objects.create(resource=resource, site="near", position=0)
    commit_files(member, make_dataset(member, project, "digits"), {"a": b"a"})
    return disk


@pytest.fixture
def job(disk, member, project):
    """A job whose dataset is ready."""
    wanted = Submission("scripted.small", "true", "reads", data=["team-a/digits"])
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    cache_hydration.hydrate_cached_commit(cached_commit_id=CachedCommit.objects.get().pk)
    return job


def test_a_job_is_queued_once_the_disk_of_its_data_is_back(job, disk):
    disk.rename(disk.with_name("away"))
    site_checks.check_folders()
    data_waits.queue_ready_jobs()
    job.refresh_from_db()
    waiting = (job.state, job.gate)
    told = find_data_waits([job])[job.pk].text
    disk.with_name("away").rename(disk)
    site_checks.check_folders()

    data_waits.queue_ready_jobs()

    job.refresh_from_db()
    assert (waiting, (job.state, job.gate)) == (("pending", "data"), ("pending", ""))
    assert told == "1 B wait for near, which is away."


def test_a_placed_job_starts_once_the_disk_of_its_data_is_back_and_its_wait_is_no_try(job, disk, driver):
    data_waits.queue_ready_jobs()
    cycle.run_once()
    disk.rename(disk.with_name("away"))
    with clock.frozen_at(clock.now()) as move:

        def look(seconds: int) -> tuple[str, int, str]:
            move(clock.now() + timedelta(seconds=seconds))
            launches.start_again([job.pk])
            return Job.objects.values_list("state", "starts", "reason").get()

        launches.start_placed_jobs()
        seen = {look(4) for _ in range(9)}

        assert seen == {("starting", 0, CacheSiteAway.of(CacheSite.objects.get().name, "").message)}
        assert driver.list_jobs() == []
        disk.with_name("away").rename(disk)
        look(4)

    assert [report.name for report in driver.list_jobs()] == ["reads"]


def test_a_folder_that_is_missing_though_its_disk_is_there_is_left_to_the_driver(job, disk, driver):
    data_waits.queue_ready_jobs()
    cycle.run_once()
    copy = disk / CachedCommit.objects.get().location
    copy.rename(copy.with_name("lost"))

    launches.start_placed_jobs()

    assert [report.name for report in driver.list_jobs()] == ["reads"]
