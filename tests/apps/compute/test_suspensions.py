"""A suspended job gives its resources back, and starts anew once it is resumed."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from accounts.errors import PermissionDenied
from accounts.models import User
from compute.engine.states import JobState
from compute.errors import JobBelongsToRun, JobNotSuspended
from compute.models import Job
from compute.services import jobs, journal, suspensions
from compute.workers import data_waits, launches, observe
from core import clock
from scheduler.models import Placement, Workload
from tests.factories import compute as make
from tests.factories.api import call

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(project, template) -> Job:
    """Return a job that runs."""
    [job] = make.submit(project, template, "train")
    make.start([job])
    return now(job)


def now(job: Job) -> Job:
    return Job.objects.select_related("resource", "project").get(pk=job.pk)


def look(job: Job) -> None:
    launches.stop_ending_jobs()
    observe.observe_resource(resource_id=job.resource_id)


def suspend(actor, job: Job) -> None:
    suspensions.suspend_job(actor=actor, job=job)
    look(job)


def test_a_job_that_runs_is_stopped_and_holds_nothing_until_it_is_resumed(job, member, driver):
    token, workload_id = job.token, job.workload_id

    suspensions.suspend_job(actor=member, job=job)
    assert (now(job).state, now(job).reason) == ("suspending", "member suspended the job.")
    assert Placement.objects.filter(workload=workload_id).exists()
    look(job)

    job = now(job)
    assert (job.state, job.reason, job.node_name, job.gpus) == ("suspended", "member suspended the job.", "", [])
    assert (job.has_ended, job.is_live, job.token != token, job.gpu_held_milli) == (False, True, True, 0)
    assert Workload.objects.get(pk=workload_id).state == "released"
    assert not Placement.objects.exists()
    assert driver.list_jobs() == []


def test_a_suspended_job_tells_how_long_it_waited_and_ran(member, project, template, driver):
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)) as move:
        [job] = make.submit(project, template, "train")
        move(clock.now() + timedelta(minutes=1))
        make.start([job])
        move(clock.now() + timedelta(minutes=39))
        suspend(member, now(job))
        move(clock.now() + timedelta(hours=5))
        suspensions.resume_job(actor=member, job=now(job))
        move(clock.now() + timedelta(minutes=2))
        suspend(member, now(job))
        move(clock.now() + timedelta(hours=5))

        browser = Client()
        browser.force_login(User.objects.get(pk=member.user_id))
        page = browser.get(f"/jobs/{job.name}/").content.decode()
        told = call(member, "GET", f"/compute/jobs/{job.name}").body["times"]

        listed = call(member, "GET", "/compute/jobs").body["items"][0]["times"]
        table = browser.get("/jobs/").content.decode()

    dot = "\N{MIDDLE DOT}"
    assert f"waited 3 min {dot} ran 39 min {dot} suspended 10 h {dot} total 10 h 42 min" in page
    assert told == {"waited_s": 180.0, "ran_s": 2340.0, "suspended_s": 36000.0, "total_s": 38520.0}
    assert listed == told
    assert '<td class="num nowrap">3 min</td>' in table
    assert '<td class="num nowrap">39 min</td>' in table


def test_a_resumed_job_is_queued_anew_and_runs_again(job, member, driver):
    suspend(member, job)

    resumed = suspensions.resume_job(actor=member, job=now(job))
    assert (resumed.state, resumed.reason, resumed.workload.state) == ("pending", "", "pending")
    assert (resumed.workload.title, resumed.workload.queue.project_id) == ("train", job.project_id)
    make.start([resumed])

    assert (now(job).state, now(job).run_name) == ("running", "train~2")
    driver.finish("train~2")
    look(job)
    assert now(job).state == "succeeded"
    assert list(job.events.values_list("state", flat=True)) == [
        *("pending", "starting", "running", "suspending", "suspended"),
        *("pending", "starting", "running", "succeeded"),
    ]


def test_one_that_is_resumed_while_it_stops_is_queued_again_in_its_old_place_once_it_has_stopped(job, member, driver):
    workload_id = job.workload_id
    suspensions.suspend_job(actor=member, job=job)

    resumed = suspensions.resume_job(actor=member, job=now(job))
    assert (resumed.state, resumed.reason) == (
        "leaving",
        "member resumed the job. It is queued again once it has stopped.",
    )
    assert Placement.objects.filter(workload=workload_id).exists()
    look(job)

    job = now(job)
    assert (job.state, job.reason, job.run_name, job.workload_id) == ("pending", "", "train~2", workload_id)
    assert (job.workload.state, Placement.objects.exists(), driver.list_jobs()) == ("pending", False, [])
    make.start([job])
    assert now(job).state == "running"


def test_of_suspending_and_resuming_while_it_stops_the_last_holds(job, member):
    suspensions.suspend_job(actor=member, job=job)
    suspensions.resume_job(actor=member, job=now(job))
    suspensions.suspend_job(actor=member, job=now(job))
    assert (now(job).state, now(job).reason) == ("suspending", "member suspended the job.")
    look(job)

    assert (now(job).state, now(job).workload.state) == ("suspended", "released")


def test_an_end_that_was_read_before_the_last_word_is_not_written_and_the_next_poll_sees_it_again(job, member):
    def write_late(state: JobState) -> list[str]:
        return journal.record_steps([journal.Step(job.pk, job.token, state, "It has stopped.")], now=clock.now())

    suspensions.suspend_job(actor=member, job=job)
    assert write_late(JobState.PENDING) == []
    suspensions.resume_job(actor=member, job=now(job))
    assert write_late(JobState.SUSPENDED) == []
    look(job)

    assert now(job).state == "pending"


def test_one_that_succeeds_while_it_stops_has_succeeded_although_it_was_resumed(job, member, driver):
    suspensions.suspend_job(actor=member, job=job)
    suspensions.resume_job(actor=member, job=now(job))
    driver.finish("train")
    observe.observe_resource(resource_id=job.resource_id)

    assert now(job).state == "succeeded"


def test_one_that_was_never_begun_is_queued_again_after_its_lease(member, project, template):
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)) as move:
        [job] = make.submit(project, template, "train")
        Job.objects.filter(pk=job.pk).update(state="starting", lease_expires_at=clock.now() + timedelta(seconds=30))
        suspensions.suspend_job(actor=member, job=now(job))
        suspensions.resume_job(actor=member, job=now(job))
        move(clock.now() + timedelta(seconds=31))
        look(job)

        assert now(job).state == "pending"


def test_a_job_that_waits_leaves_the_queue_and_can_be_suspended_more_than_once(project, template, member):
    [job] = make.submit(project, template, "train")
    for _ in range(2):
        suspensions.suspend_job(actor=member, job=now(job))
        assert (now(job).state, now(job).evictions) == ("suspended", 0)
        assert not Workload.objects.filter(state="pending").exists()
        data_waits.queue_ready_jobs()
        assert now(job).state == "suspended"
        suspensions.resume_job(actor=member, job=now(job))

    make.start([now(job)])
    assert now(job).state == "running"
    assert Workload.objects.filter(state="pending").count() == 0


def test_a_job_that_waits_for_its_data_is_not_queued_until_it_is_resumed(project, template, member):
    [job] = make.submit(project, template, "train")
    Workload.objects.all().delete()
    Job.objects.filter(pk=job.pk).update(workload=None, gate="data")

    suspensions.suspend_job(actor=member, job=now(job))
    data_waits.queue_ready_jobs()
    assert now(job).state == "suspended"

    suspensions.resume_job(actor=member, job=now(job))
    assert (now(job).state, now(job).workload) == ("pending", None)
    data_waits.queue_ready_jobs()
    assert now(job).workload.state == "pending"


def test_a_resumed_job_goes_to_the_end_of_the_line(project, template, member):
    [job] = make.submit(project, template, "train")
    suspensions.suspend_job(actor=member, job=now(job))
    [later] = make.submit(project, template, "later")

    suspensions.resume_job(actor=member, job=now(job))

    assert now(job).workload.enqueued_at > now(later).workload.enqueued_at


def test_a_job_that_succeeds_while_it_is_suspended_has_succeeded(job, member, driver):
    suspensions.suspend_job(actor=member, job=job)
    driver.finish("train")
    observe.observe_resource(resource_id=job.resource_id)

    assert now(job).state == "succeeded"
    with pytest.raises(JobNotSuspended, match="it is succeeded"):
        suspensions.resume_job(actor=member, job=now(job))


def test_a_suspended_job_can_be_cancelled(job, member):
    suspend(member, job)

    assert jobs.cancel_job(actor=member, job=now(job)).state == "cancelled"


def test_a_job_that_is_evicted_meanwhile_is_suspended_and_not_requeued(job, member):
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Another queue claims its share.")
    launches.evict_jobs()
    assert now(job).state == "leaving"

    suspend(member, now(job))

    assert now(job).state == "suspended"
    assert Workload.objects.get(pk=job.workload_id).state == "released"


def test_suspending_one_that_has_ended_or_is_suspended_changes_nothing(job, member):
    suspend(member, job)
    events = job.events.count()
    suspensions.suspend_job(actor=member, job=now(job))
    assert (now(job).state, job.events.count()) == ("suspended", events)

    jobs.cancel_job(actor=member, job=now(job))
    assert suspensions.suspend_job(actor=member, job=now(job)).state == "cancelled"


def test_one_that_runs_cannot_be_resumed(job, member):
    with pytest.raises(JobNotSuspended, match="train is not suspended: it is running"):
        suspensions.resume_job(actor=member, job=job)
    assert now(job).state == "running"


def test_the_job_of_a_step_is_its_runs_business(job, member):
    Job.objects.filter(pk=job.pk).update(kind="experiment")

    for act in (suspensions.suspend_job, suspensions.resume_job):
        with pytest.raises(JobBelongsToRun):
            act(actor=member, job=now(job))
    assert now(job).state == "running"


def test_a_viewer_can_neither_suspend_nor_resume(job, member, viewer):
    with pytest.raises(PermissionDenied):
        suspensions.suspend_job(actor=viewer, job=job)
    assert now(job).state == "running"

    suspend(member, job)
    with pytest.raises(PermissionDenied):
        suspensions.resume_job(actor=viewer, job=now(job))
    assert now(job).state == "suspended"


def test_the_page_of_a_job_suspends_and_resumes_it(job, member, client):
    client.force_login(User.objects.get(pk=member.user_id))

    assert "/jobs/train/suspend/" in client.get("/jobs/train/").content.decode()
    assert client.post("/jobs/train/suspend/").status_code == 302
    look(job)
    page = client.get("/jobs/train/").content.decode()
    assert ("/jobs/train/suspend/" in page, "/jobs/train/resume/" in page) == (False, True)
    client.post("/jobs/train/resume/")

    assert now(job).state == "pending"


def test_the_page_of_a_job_that_stops_resumes_it_and_offers_to_suspend_it_again(job, member, client):
    client.force_login(User.objects.get(pk=member.user_id))
    suspensions.suspend_job(actor=member, job=job)

    assert "/jobs/train/resume/" in client.get("/jobs/train/").content.decode()
    page = client.post("/jobs/train/resume/", follow=True).content.decode()

    assert "train is queued again once it has stopped." in page
    assert ("Requeuing" in page, "/jobs/train/suspend/" in page) == (True, True)
    look(job)
    page = client.get("/jobs/train/").content.decode()
    assert ("Why it waits" in page, "preempted" in page) == (True, False)


def test_what_a_resumed_job_ran_before_counts_as_run(member, project, template, driver):
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)) as move:
        [job] = make.submit(project, template, "train")
        make.start([job])
        move(clock.now() + timedelta(minutes=10))
        suspend(member, now(job))
        move(clock.now() + timedelta(hours=1))
        suspensions.resume_job(actor=member, job=now(job))
        move(clock.now() + timedelta(minutes=1))
        make.start([now(job)])
        move(clock.now() + timedelta(minutes=5))

        told = call(member, "GET", "/compute/jobs").body["items"][0]["times"]

    assert told == {"waited_s": 60.0, "ran_s": 900.0, "suspended_s": 3600.0, "total_s": 4560.0}


def test_a_resumed_job_was_not_preempted(member, job):
    suspend(member, job)
    suspensions.resume_job(actor=member, job=now(job))
    browser = Client()
    browser.force_login(User.objects.get(pk=member.user_id))

    page = browser.get(f"/jobs/{job.name}/").content.decode()

    assert "Why it waits" in page
    assert "preempted" not in page
