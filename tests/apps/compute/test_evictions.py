"""A job that is evicted is stopped, requeued, and starts anew as a run of its own."""

from datetime import timedelta

import pytest

from accounts.models import User
from accounts.permissions import Actor
from compute.engine.ports import EndCause, JobReport, ReportState, UsageSample
from compute.models import Job
from compute.selectors import jobs as selectors
from compute.selectors import usage
from compute.services import jobs
from compute.workers import cleaning, launches, logs, observe
from core import clock
from scheduler.models import Placement, Workload
from tests.factories import compute as make
from tests.markup import flat

SYSTEM = Actor.system("tests")
WHY = "Another queue claims its share; team-a holds more than it may keep."


@pytest.fixture
def job(project, template) -> Job:
    """Return a job that runs."""
    [job] = make.submit(project, template, "train")
    make.start([job])
    return now(job)


def now(job: Job) -> Job:
    job.refresh_from_db()
    return job


def evict(job: Job) -> None:
    """Tell a job's workload to leave, as a cycle of the scheduler does."""
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason=WHY, evictions=1)
    Placement.objects.filter(workload=job.workload_id).update(evicting_since=clock.now())


def look(job: Job) -> None:
    observe.observe_resource(resource_id=job.resource_id)


def evict_and_stop(job: Job) -> None:
    evict(job)
    launches.evict_jobs()
    look(job)


def test_a_job_whose_workload_is_to_leave_is_stopped_and_says_why(job, driver):
    evict(job)

    launches.evict_jobs()

    assert (now(job).state, job.reason, job.has_ended) == ("leaving", WHY, False)
    assert driver.jobs.reports["train"].cause == EndCause.STOPPED


def test_nothing_is_asked_of_jobs_while_nobody_is_to_leave(job, django_assert_num_queries):
    with django_assert_num_queries(1):
        launches.evict_jobs()


def test_once_stopped_it_waits_again_without_its_room_and_with_a_new_token(job, driver):
    token = job.token

    evict_and_stop(job)

    assert (now(job).state, job.reason, job.node_name, job.gpus, job.started_at) == ("pending", "", "", [], None)
    assert (job.evictions, job.run_name, job.token != token) == (1, "train~2", True)
    assert Workload.objects.get(pk=job.workload_id).state == "pending"
    assert not Placement.objects.exists()
    assert driver.list_jobs() == []
    assert list(job.events.values_list("seq", "state", "message"))[3:] == [
        (4, "leaving", WHY),
        (5, "pending", "It has stopped and is queued again."),
    ]


def test_its_page_says_that_it_ran_before_and_why_it_was_stopped(job, member, client):
    client.force_login(User.objects.get(pk=member.user_id))
    evict_and_stop(job)

    page = flat(client.get("/jobs/train/").content.decode())

    assert "It was preempted" in page
    assert WHY in page


def test_it_starts_anew_as_a_run_of_its_own(job, driver):
    evict_and_stop(job)

    make.start([now(job)])

    assert (now(job).state, job.evictions) == ("running", 1)
    assert driver.jobs.launches["train~2"].token == job.token
    assert driver.jobs.launches["train~2"].spec.name == "train"
    driver.finish("train~2")
    look(job)
    assert now(job).state == "succeeded"


def test_a_late_word_of_an_earlier_run_is_not_believed(job, driver):
    evict_and_stop(job)
    make.start([now(job)])
    driver.jobs.forgotten.clear()

    look(job)

    assert now(job).state == "running"
    assert "train" in driver.jobs.forgotten


def test_an_earlier_run_that_comes_up_late_is_stopped(job, driver):
    token = job.token
    evict_and_stop(job)
    make.start([now(job)])
    driver.jobs.forgotten.clear()
    driver.jobs.reports["train"] = JobReport("train", token, ReportState.RUNNING)

    look(job)

    assert driver.jobs.reports["train"].cause == EndCause.STOPPED
    assert now(job).state == "running"


@pytest.mark.parametrize(
    ("end", "state"),
    [({}, "succeeded"), ({"exit_code": 1}, "pending"), ({"exit_code": -9}, "pending")],
    ids=["success counts", "a failure may come from the stop", "killed"],
)
def test_how_it_ends_while_it_is_being_stopped(job, driver, end, state):
    evict(job)
    Job.objects.filter(pk=job.pk).update(state="leaving")
    driver.finish("train", **end)

    look(job)

    assert now(job).state == state
    assert Workload.objects.get(pk=job.workload_id).state == ("released" if state == "succeeded" else "pending")


def test_one_that_vanished_while_it_was_being_stopped_waits_again_once_its_lease_is_over(job, driver):
    evict(job)
    Job.objects.filter(pk=job.pk).update(state="leaving")
    driver.vanish("train")

    look(job)
    assert now(job).state == "leaving"
    with clock.frozen_at(clock.now() + timedelta(minutes=1)):
        look(job)

    assert (now(job).state, job.run_name) == ("pending", "train~2")


def test_one_that_is_cancelled_while_it_leaves_does_not_wait_again(job, project):
    evict(job)
    launches.evict_jobs()

    jobs.cancel_many(actor=SYSTEM, job_ids=[job.pk], reason="Not needed.")
    look(job)

    assert (now(job).state, job.reason) == ("cancelled", "Not needed.")
    assert Workload.objects.get(pk=job.workload_id).state == "released"


def test_one_that_waits_again_can_be_cancelled(job):
    evict_and_stop(job)

    jobs.cancel_many(actor=SYSTEM, job_ids=[job.pk], reason="Not needed.")

    assert now(job).state == "cancelled"
    assert Workload.objects.get(pk=job.workload_id).state == "released"


def test_one_that_has_not_taken_its_room_yet_starts_and_is_stopped(project, template, driver):
    [job] = make.submit(project, template, "train")
    make.place([job])
    evict(job)
    launches.evict_jobs()
    assert now(job).state == "pending"

    launches.start_placed_jobs()
    launches.evict_jobs()
    look(job)

    assert (now(job).state, job.evictions) == ("pending", 1)


def test_a_resource_that_is_away_is_told_at_a_later_look(job, driver):
    driver.is_away = True
    evict(job)
    launches.evict_jobs()
    look(job)
    assert now(job).state == "leaving"

    driver.is_away = False
    look(job)
    look(job)

    assert now(job).state == "pending"


def test_its_log_goes_on_where_the_runs_before_left_off(job, driver):
    driver.print("train", "first\n")
    evict_and_stop(job)
    assert selectors.read_log(actor=SYSTEM, job=now(job)).data == b"first\n"
    make.start([job])
    driver.print("train~2", "second\n")

    def read(offset: int, limit: int = 100) -> tuple[bytes, int, bool, int]:
        chunk = selectors.read_log(actor=SYSTEM, job=now(job), offset=offset, limit=limit)
        return chunk.data, chunk.next_offset, chunk.is_complete, chunk.size_bytes

    assert read(0) == (b"first\n", 6, False, 13)
    assert read(2, 3) == (b"rst", 5, False, 13)
    assert read(6) == (b"second\n", 13, False, 13)
    assert read(9) == (b"ond\n", 13, False, 13)
    driver.finish("train~2")
    look(job)
    assert read(6) == (b"second\n", 13, True, 13)


def test_what_all_its_runs_used_is_told(job, driver):
    first, second = (UsageSample(clock.now(), cpu, 1) for cpu in (100, 200))
    driver.use("train", first)
    evict_and_stop(job)
    driver.use("train~2", second)

    assert list(usage.read_usage(actor=SYSTEM, job=now(job))) == [first, second]


def test_the_files_of_all_its_runs_are_deleted(job, driver):
    evict_and_stop(job)
    make.start([now(job)])
    driver.finish("train~2")
    look(job)
    Job.objects.update(finished_at=clock.now() - timedelta(days=30))

    logs.store_logs()
    assert cleaning.delete_old_files() == 1

    assert driver.jobs.logs == {}


def test_a_job_that_reached_a_time_limit_is_stopped_for_good_and_says_so(job, driver):
    why = "The limit of 8 h for training of team-a is reached: it has run for 8 h."
    evict(job)
    Workload.objects.filter(pk=job.workload_id).update(reason=why, reason_code="time_limit")

    launches.evict_jobs()
    look(job)

    assert (now(job).state, job.reason, job.reason_code) == ("cancelled", why, "time_limit")
    assert Workload.objects.get(pk=job.workload_id).state == "released"
    assert not Placement.objects.exists()


def test_a_job_that_its_cluster_does_not_place_waits_again_and_is_placed_anew(project, template, driver):
    [job] = make.submit(project, template, "train")
    make.place([job])
    launches.start_placed_jobs()
    why = "The cluster does not place its pod: 0/1 nodes are available."
    unplaced = {"state": ReportState.FAILED, "cause": EndCause.UNSCHEDULABLE, "reason": why, "started_at": None}
    driver.jobs.change("train", **unplaced)

    look(job)

    assert (now(job).state, job.reason, job.node_name, job.run_name) == ("pending", "", "", "train~2")
    assert (Workload.objects.get(pk=job.workload_id).state, Placement.objects.count()) == ("pending", 0)
    assert job.events.last().message == f"{why} It has not run, and is queued again."
    assert driver.list_jobs() == []
    make.start([job])
    assert (now(job).state, job.unplaced) == ("running", 1)
    evict_and_stop(job)
    assert now(job).unplaced == 0
