"""Jobs keep their place in line while their data is brought; what turns out unneeded is not brought any further."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.models import Job, ResourceSite
from compute.selectors import outlooks
from compute.services import jobs, submissions
from compute.services.submissions import Submission
from compute.workers import forecasts, launches, observe, releases
from core import clock, tasks
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites, caches
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.datasets import commit_files, make_dataset, make_store

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def at(null_queue):
    """Move the clock to so many seconds after noon, and let everything that ticks tick."""
    with clock.frozen_at(NOON) as move:

        def at(seconds: float) -> None:
            move(NOON + timedelta(seconds=seconds))
            for row in CachedCommit.objects.filter(state__in=("queued", "hydrating")).order_by("pk"):
                tasks.run("datasets.hydrate", {"cached_commit_id": row.pk})
            tasks.run("compute.queue_ready_jobs", {})
            cycle.run_once()
            launches.start_placed_jobs()
            observe.observe_all()

        yield at


@pytest.fixture
def whole(resource):
    """A template that takes all of the only node."""
    return make.make_template(resource, "whole", cpu_millicores=8000)


@pytest.fixture
def commit(member, project, site_admin, resource, home):
    """A commit of 1,000 bytes on no site. The resource reads a simulated one of 100 bytes a second."""
    make_store(home / "store")
    config = {"size_bytes": 10**6, "rate_bytes_s": 100}
    cache_sites.create_site(actor=site_admin, name="lab-cache", kind="simulated", config=config)
    ResourceSite.objects.create(resource=resource, site="lab-cache", position=0)
    return commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"x" * 1000})


def submit(member, project, name: str, *, data: bool = False) -> Job:
    reads = ["team-a/digits"] if data else []
    wanted = Submission("scripted.whole", "true", name, data=reads, simulated_duration_s=60)
    return submissions.submit_job(actor=member, project=project, submission=wanted)


def states() -> dict[str, str]:
    return dict(Job.objects.order_by("pk").values_list("name", "state"))


def test_no_node_idles_for_a_job_whose_data_still_moves(at, member, project, whole, commit):
    at(0)
    submit(member, project, "reads", data=True)
    submit(member, project, "second")

    at(1)

    assert states() == {"reads": "pending", "second": "running"}


@pytest.mark.usefixtures("whole", "commit")
def test_a_job_whose_data_moved_starts_before_those_that_were_submitted_after_it(at, driver, member, project):
    at(0)
    submit(member, project, "holder")
    at(1)
    submit(member, project, "reads", data=True)
    at(2)
    submit(member, project, "later")
    at(12)
    driver.finish("holder")
    at(13)

    at(14)

    assert states() == {"holder": "succeeded", "reads": "running", "later": "pending"}


def test_the_line_that_is_told_counts_a_job_whose_data_will_be_there_in_time(at, member, project, whole, commit):
    at(0)
    submit(member, project, "holder")
    at(1)
    submit(member, project, "reads", data=True)
    at(2)
    submit(member, project, "later")
    at(3)

    forecasts.forecast_all()

    told = outlooks.find_outlooks(actor=member, jobs=list(Job.objects.select_related("workload")))
    lines = {job.name: (told[job.pk].line, told[job.pk].likely_at) for job in Job.objects.filter(state="pending")}
    assert lines == {
        "reads": (1, NOON + timedelta(seconds=61)),
        "later": (2, NOON + timedelta(seconds=121)),
    }


def test_data_that_arrived_since_the_forecast_was_made_is_told_as_there(at, member, project, whole, commit):
    at(0)
    submit(member, project, "holder")
    at(1)
    job = submit(member, project, "reads", data=True)
    at(3)
    forecasts.forecast_all()
    at(14)

    job.refresh_from_db()
    told = outlooks.find_outlooks(actor=member, jobs=[job])[job.pk]

    assert told.chosen.data.missing_bytes == 0
    assert "its 1.0 kB are already on lab-cache" in told.text


@pytest.mark.usefixtures("at", "whole", "commit")
def test_a_copy_on_a_folder_is_told_too_at_an_assumed_rate_until_one_is_known(member, project, site_admin, home):
    cache_sites.create_site(actor=site_admin, name="near", root=home / "near", capacity_bytes=10**7)
    ResourceSite.objects.update(site="near")

    job = submit(member, project, "reads", data=True)
    forecasts.forecast_all()

    told = outlooks.find_outlooks(actor=member, jobs=[job])[job.pk]

    assert told.text == (
        "This job waits for its data; it starts about 12:00:00 UTC; "
        "0 B of its data are on near, 1.0 kB still move and will be there in a moment, by an assumed rate."
    )


def test_a_copy_that_only_a_cancelled_job_needed_is_brought_no_further(at, member, project, whole, commit):
    at(0)
    job = submit(member, project, "reads", data=True)
    at(5)

    jobs.cancel_job(actor=member, job=job)
    releases.release_data()

    assert CachedCommit.objects.get().state == "evicting"


def test_a_copy_that_another_job_waits_for_is_still_brought(at, member, project, whole, commit):
    at(0)
    job = submit(member, project, "reads", data=True)
    submit(member, project, "reads-too", data=True)
    at(5)

    jobs.cancel_job(actor=member, job=job)
    releases.release_data()

    assert CachedCommit.objects.get().state == "hydrating"


def test_a_copy_that_a_person_asked_for_as_well_is_still_brought(at, member, project, whole, commit):
    at(0)
    job = submit(member, project, "reads", data=True)
    at(5)
    caches.request_cache(actor=member, commit=commit, site=CacheSite.objects.get())

    jobs.cancel_job(actor=member, job=job)
    releases.release_data()

    assert CachedCommit.objects.get().state == "hydrating"
