from datetime import timedelta

import pytest

from accounts.errors import ProjectNotFound
from accounts.permissions import Actor, Role
from compute.engine.ports import LogChunk, UsageSample
from compute.errors import JobNotFound
from compute.models import Job
from compute.selectors import jobs as job_selectors
from compute.selectors import usage
from compute.services import jobs
from compute.workers import cleaning, logs, observe
from core import clock
from core.errors import InvalidInput
from tests.factories import compute as make
from tests.factories.datasets import make_store


def test_a_log_is_read_from_an_offset(running, driver, viewer):
    driver.print("train", "one\ntwo\n")

    assert job_selectors.read_log(actor=viewer, job=running, offset=4, limit=3) == LogChunk(
        b"two", 7, is_complete=False, size_bytes=8
    )


def test_the_log_of_a_job_that_never_ran_is_empty_and_complete(project, template, viewer):
    [job] = make.submit(project, template, "train")
    before = job_selectors.read_log(actor=viewer, job=job)
    jobs.cancel_many(actor=Actor.system("test"), job_ids=[job.pk], reason="Enough.")
    job.refresh_from_db()

    after = job_selectors.read_log(actor=viewer, job=job)

    assert (before.is_complete, after) == (False, LogChunk(b"", 0, is_complete=True, size_bytes=0))


def test_a_negative_offset_is_refused(running, viewer):
    with pytest.raises(InvalidInput):
        job_selectors.read_log(actor=viewer, job=running, offset=-1)


def test_strangers_see_neither_the_job_nor_its_log(running, make_actor):
    stranger = make_actor(None)

    with pytest.raises(JobNotFound):
        job_selectors.get_job(actor=stranger, name="train")
    with pytest.raises(ProjectNotFound):
        job_selectors.read_log(actor=stranger, job=running)
    with pytest.raises(ProjectNotFound):
        usage.read_usage(actor=stranger, job=running)
    assert not job_selectors.list_jobs(actor=stranger).exists()


def test_usage_is_that_of_the_driver(running, driver, viewer):
    first, second = (UsageSample(clock.now() + timedelta(seconds=n), 900 + n, 2**20) for n in (1, 2))
    driver.use("train", first)
    driver.use("train", second)

    assert usage.read_usage(actor=viewer, job=running) == [first, second]
    assert usage.read_usage(actor=viewer, job=running, after=first.at) == [second]


def test_jobs_are_listed_by_project_and_state(running, project, template, make_actor):
    make.submit(project, template, "waits")
    actor = make_actor(Role.VIEWER)

    def names(**limits):
        return [job.name for job in job_selectors.list_jobs(actor=actor, **limits)]

    assert names() == ["waits", "train"]
    assert names(state="pending", project="team-a") == ["waits"]
    with pytest.raises(InvalidInput):
        names(state="dancing")


def test_files_are_deleted_a_while_after_the_end_and_only_then(running, resource, driver, home):
    driver.print("train", "bye")
    driver.finish("train")
    observe.observe_resource(resource_id=resource.pk)

    make_store(home / "store")
    logs.store_logs()
    early = cleaning.delete_old_files()
    with clock.frozen_at(clock.now() + timedelta(days=14, seconds=1)):
        late = cleaning.delete_old_files()
        again = cleaning.delete_old_files()

    assert (early, late, again) == (0, 1, 0)
    assert driver.jobs.logs == {}
    assert Job.objects.get().files_deleted_at is not None


def test_files_of_a_running_job_stay(running, driver):
    with clock.frozen_at(clock.now() + timedelta(days=100)):
        assert cleaning.delete_old_files() == 0

    assert "train" in driver.jobs.logs
