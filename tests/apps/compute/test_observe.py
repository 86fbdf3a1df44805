import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from accounts.permissions import Actor
from accounts.services import secrets
from compute.adapters import drivers
from compute.engine.ports import EndCause
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable, StartRefused, VolumeRefused
from compute.models import Job, ResourceState
from compute.services import jobs
from compute.workers import launches, observe
from core import clock
from core.models import Failure
from scheduler.models import Node, Workload
from tests.factories import compute as make


def look(resource):
    observe.observe_resource(resource_id=resource.pk)


def test_a_placed_job_is_started_on_its_node_with_its_gpus(project, template, driver):
    [job] = make.submit(project, template, "train")

    make.start([job], gpus=[[3, 500]])

    job.refresh_from_db()
    launch = driver.jobs.launches["train"]
    assert (job.state, job.node_name, job.gpus) == ("running", "node-1", [[3, 500]])
    assert (launch.token, launch.node_name, launch.project) == (job.token, "node-1", project.name)
    assert [(share.index, share.milli) for share in launch.gpus] == [(3, 500)]


def test_a_job_without_room_is_not_started(project, template, driver):
    [job] = make.submit(project, template, "train")

    launches.start_placed_jobs()

    assert make.state_of(job) == JobState.PENDING
    assert not driver.jobs.started


def test_the_life_of_a_job_is_written_down_without_gaps(running, resource, driver):
    driver.finish("train")

    look(resource)

    assert list(running.events.values_list("seq", "state")) == [
        (1, "pending"),
        (2, "starting"),
        (3, "running"),
        (4, "succeeded"),
    ]


def test_a_success_is_recorded_gives_the_room_back_and_is_forgotten_by_the_driver(running, resource, driver):
    driver.finish("train")

    look(resource)

    running.refresh_from_db()
    assert (running.state, running.exit_code, running.reason_code, running.reason) == ("succeeded", 0, "", "")
    assert running.started_at <= running.finished_at
    assert Workload.objects.get(pk=running.workload_id).state == "released"
    assert driver.list_jobs() == []


@pytest.mark.parametrize(
    ("end", "reason_code", "reason"),
    [
        ((3, EndCause.EXITED), "user_error", "The command exited with code 3."),
        ((-11, EndCause.EXITED), "user_error", "The command was killed by signal 11 (SIGSEGV)."),
        ((-15, EndCause.TIMEOUT), "timeout", "The job ran longer than its timeout allows."),
        (
            (-9, EndCause.OUT_OF_MEMORY),
            "out_of_memory",
            "The command was killed by signal 9 (SIGKILL): the memory limit of 1 GiB was reached.",
        ),
    ],
)
def test_a_failure_is_recorded_with_its_reason(running, driver, end, reason_code, reason):
    exit_code, cause = end
    driver.finish("train", exit_code=exit_code, cause=cause)

    look(running.resource)

    running.refresh_from_db()
    assert (running.state, running.exit_code) == ("failed", exit_code)
    assert (running.reason_code, running.reason) == (reason_code, reason)


def test_what_somebody_did_to_a_job_is_not_explained_by_its_last_line(running, driver):
    driver.print("train", "epoch 7: loss 0.3\n")
    driver.finish("train", exit_code=-9, cause=EndCause.OUT_OF_MEMORY)

    look(running.resource)

    running.refresh_from_db()
    assert running.reason == "The command was killed by signal 9 (SIGKILL): the memory limit of 1 GiB was reached."
    assert running.last_lines == "epoch 7: loss 0.3"


def test_a_look_at_hundreds_finds_each_that_differs_and_leaves_all_others_alone(project, template, resource, driver):
    submitted = make.submit(project, template, *(f"job-{number}" for number in range(500)))
    make.start(submitted)
    look(resource)
    ended, foreign, unleased, overdue, stopping, noted, evicted, *others = submitted
    driver.finish(ended.name)
    driver.jobs.change(foreign.name, token="of an older job")
    Job.objects.filter(pk=unleased.pk).update(lease_expires_at=None)
    Job.objects.filter(pk=overdue.pk).update(lease_expires_at=clock.now())
    Job.objects.filter(pk=stopping.pk).update(state=JobState.STOPPING)
    Job.objects.filter(pk=noted.pk).update(reason="Its node does not answer.")
    Job.objects.filter(pk=evicted.pk).update(evictions=1)
    untouched = Job.objects.filter(pk__in=[job.pk for job in others]).order_by("pk").values()
    before = list(untouched)

    look(resource)

    assert list(untouched.all()) == before
    assert make.state_of(ended) == JobState.SUCCEEDED
    assert driver.jobs.graces_s.keys() == {foreign.name, stopping.name, evicted.name}
    assert [make.state_of(job) for job in (foreign, stopping, evicted)] == ["running", "stopping", "running"]
    assert all(Job.objects.get(pk=job.pk).lease_expires_at > clock.now() for job in (unleased, overdue))
    assert Job.objects.get(pk=noted.pk).reason == ""


def test_a_report_with_another_token_is_not_believed(running, resource, driver):
    driver.jobs.change("train", token="of an older job")
    driver.finish("train")

    look(resource)

    assert make.state_of(running) == JobState.RUNNING


def test_a_job_that_its_driver_lost_is_lost(running, resource, driver):
    driver.lose("train")

    look(resource)

    running.refresh_from_db()
    assert (running.state, running.reason_code) == ("lost", "infrastructure")
    assert Workload.objects.get(pk=running.workload_id).state == "released"


def test_a_vanished_job_is_lost_only_when_its_lease_has_run_out(running, resource, driver):
    driver.vanish("train")

    look(resource)
    before = make.state_of(running)
    with clock.frozen_at(clock.now() + launches.LEASE + timedelta(seconds=1)):
        look(resource)

    assert (before, make.state_of(running)) == (JobState.RUNNING, JobState.LOST)


def test_a_look_renews_the_lease_of_what_runs(running, resource):
    later = clock.now() + launches.LEASE - timedelta(seconds=1)

    with clock.frozen_at(later):
        look(resource)

    running.refresh_from_db()
    assert running.lease_expires_at == later + launches.LEASE


def test_a_job_that_runs_is_adopted_after_the_platform_died_while_starting_it(running, resource):
    Job.objects.update(state=JobState.STARTING, lease_expires_at=clock.now() - timedelta(hours=1))

    look(resource)

    assert make.state_of(running) == JobState.RUNNING


def test_a_job_that_never_came_up_is_started_again_under_the_same_name_and_token(running, resource, driver):
    Job.objects.update(state=JobState.STARTING, lease_expires_at=clock.now() - timedelta(seconds=1))
    driver.jobs.reports.clear()
    driver.jobs.started.clear()

    look(resource)

    assert driver.jobs.started == {"train": 1}
    assert driver.jobs.launches["train"].token == running.token


def test_a_job_that_never_came_up_three_times_fails(running, resource, driver):
    Job.objects.update(state=JobState.STARTING, lease_expires_at=clock.now() - timedelta(seconds=1), starts=3)
    Job.objects.update(reason="Its start was not answered: It is away.")
    driver.vanish("train")

    look(resource)

    running.refresh_from_db()
    assert (running.state, running.reason_code) == ("failed", "infrastructure")
    assert running.reason == "The job was started 3 times and never came up. Its start was not answered: It is away."


def test_a_refused_start_fails_the_job_in_the_drivers_words(project, template, driver):
    driver.refusal = "The working directory /code does not exist."
    [job] = make.submit(project, template, "train")

    make.start([job])

    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "infrastructure")
    assert job.reason == "The working directory /code does not exist."
    assert job.workload.state == "released"


def test_a_volume_that_cannot_be_mounted_is_the_fault_of_who_named_it(project, template, driver, monkeypatch):
    def refuse(launch):
        raise VolumeRefused("There is no folder /no/where on this machine, and none can be made.")

    monkeypatch.setattr(driver, "start", refuse)
    [job] = make.submit(project, template, "train")

    make.start([job])

    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "user_error")
    assert job.reason == "There is no folder /no/where on this machine, and none can be made."


def test_clusters_daemons_and_hosts_by_ssh_are_behind_a_network():
    assert {name for name, kind in drivers.KINDS.items() if kind.is_remote} == {"docker", "kubernetes", "ssh"}


def test_jobs_of_a_place_behind_a_network_are_started_side_by_side(project, template, driver, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=True))
    together, start = threading.Barrier(3, timeout=60), driver.start

    def start_with_others(launch):
        together.wait()
        if launch.name == "b":
            raise StartRefused("Not this one.")
        if launch.name == "c":
            raise OverflowError
        start(launch)

    monkeypatch.setattr(driver, "start", start_with_others)
    submitted = make.submit(project, template, "a", "b", "c")

    make.start(submitted)

    assert list(map(make.state_of, submitted)) == ["running", "failed", "starting"]
    assert Failure.objects.values_list("kind", "item_id").get() == ("compute.start", submitted[2].pk)


def test_jobs_of_a_place_behind_a_network_are_stopped_side_by_side(project, member, template, driver, monkeypatch):
    monkeypatch.setitem(drivers.KINDS, "simulated", replace(drivers.KINDS["simulated"], is_remote=True))
    submitted = make.submit(project, template, "a", "b", "c")
    make.start(submitted)
    for job in submitted:
        jobs.cancel_job(actor=member, job=job)
    together, asked = threading.Barrier(3, timeout=60), {}

    def stop_with_others(name, grace_s):
        together.wait()
        asked[name] = grace_s
        if name == "b":
            raise OverflowError

    monkeypatch.setattr(driver, "stop", stop_with_others)

    launches.stop_ending_jobs()

    assert asked == {"a": 10.0, "b": 10.0, "c": 10.0}
    assert Failure.objects.values_list("kind", "item_id").get() == ("compute.stop", "b")


def test_a_place_that_does_not_answer_is_asked_once_to_stop_its_jobs(project, member, template, driver, monkeypatch):
    submitted = make.submit(project, template, "a", "b")
    make.start(submitted)
    for job in submitted:
        jobs.cancel_job(actor=member, job=job)
    asked = []

    def stop(name, _grace_s):
        asked.append(name)
        raise ResourceUnreachable("It is away.")

    monkeypatch.setattr(driver, "stop", stop)

    launches.stop_ending_jobs()

    template.resource.refresh_from_db()
    assert (asked, template.resource.is_lost, Failure.objects.count()) == (["a"], True, 0)
    assert [make.state_of(job) for job in submitted] == ["stopping", "stopping"]


def test_a_start_without_an_answer_is_tried_again_later(project, template, driver, resource):
    driver.is_away = True
    [job] = make.submit(project, template, "train")
    make.start([job])
    before = make.state_of(job)

    driver.is_away = False
    with clock.frozen_at(clock.now() + launches.LEASE + timedelta(seconds=1)):
        look(resource)
        look(resource)

    assert (before, make.state_of(job)) == (JobState.STARTING, JobState.RUNNING)
    assert driver.jobs.started == {"train": 1}


def test_secrets_reach_the_launch_and_not_the_database(project, template, driver, site_admin):
    secrets.set_secret(actor=site_admin, project=project, name="API_KEY", value="s3cr3t")
    [job] = make.submit(project, template, "train", secret_names=["API_KEY"])

    make.start([job])

    job.refresh_from_db()
    assert driver.jobs.launches["train"].secrets == {"API_KEY": "s3cr3t"}
    assert "s3cr3t" not in repr(driver.jobs.launches["train"])
    assert "s3cr3t" not in str(job.spec)


def test_a_missing_secret_is_the_users_error_and_named(project, template):
    [job] = make.submit(project, template, "train", secret_names=["API_KEY"])

    make.start([job])

    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "user_error")
    assert "API_KEY" in job.reason


def test_a_secret_of_another_key_ends_the_job_and_tells_to_set_it_again(project, template, site_admin, settings):
    secrets.set_secret(actor=site_admin, project=project, name="API_KEY", value="s3cr3t")
    settings.NEARLINE = replace(settings.NEARLINE, secrets_key=Fernet.generate_key().decode())
    [job] = make.submit(project, template, "train", secret_names=["API_KEY"])

    make.start([job])

    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "user_error")
    assert job.reason.startswith("The secret API_KEY cannot be decrypted.")
    assert "nearline secret set" in job.reason


def test_a_job_that_slipped_through_a_cancel_is_stopped(running, resource, driver):
    Job.objects.update(state=JobState.CANCELLED)

    look(resource)

    assert driver.jobs.reports["train"].cause is EndCause.STOPPED
    assert make.state_of(running) == JobState.CANCELLED


def test_a_job_that_the_database_does_not_know_is_stopped_and_forgotten(running, resource, driver):
    Job.objects.all().delete()

    look(resource)
    look(resource)

    assert driver.jobs.reports["train"].cause is EndCause.STOPPED
    assert driver.list_jobs() == []


def test_a_resource_that_is_away_keeps_its_jobs_and_gets_no_new_ones(running, resource, driver):
    driver.is_away = True

    with clock.frozen_at(clock.now() + timedelta(hours=1)):
        look(resource)

    resource.refresh_from_db()
    assert (resource.state, resource.error) == (ResourceState.UNREACHABLE, "The scripted resource is away.")
    assert make.state_of(running) == JobState.RUNNING
    assert not Node.objects.get(resource_id=resource.pk).is_ready


def test_a_resource_that_comes_back_is_ready_again(running, resource, driver):
    driver.is_away = True
    look(resource)

    driver.is_away = False
    look(resource)

    resource.refresh_from_db()
    assert (resource.state, resource.error) == (ResourceState.READY, "")
    assert Node.objects.get(resource_id=resource.pk).is_ready
    assert make.state_of(running) == JobState.RUNNING


def test_a_job_whose_node_is_away_says_so_until_the_node_is_back(running, resource, driver):
    report = driver.jobs.reports["train"]
    driver.jobs.reports["train"] = replace(report, reason="Its node is away.")
    look(resource)
    look(resource)
    running.refresh_from_db()
    assert (running.state, running.reason) == (JobState.RUNNING, "Its node is away.")

    driver.jobs.reports["train"] = report
    look(resource)

    running.refresh_from_db()
    assert (running.state, running.reason) == (JobState.RUNNING, "")
    messages = list(running.events.order_by("seq").values_list("message", flat=True))
    assert messages[-2:] == ["Its node is away.", "It goes on."]
    assert running.event_seq == len(messages)


def test_looking_twice_changes_nothing_the_second_time(running, resource, driver):
    driver.finish("train")
    look(resource)
    running.refresh_from_db()
    first = Job.objects.values().get()

    look(resource)

    assert Job.objects.values().get() == first
    assert running.events.count() == 4


def test_a_look_at_an_idle_resource_costs_few_queries(resource, django_assert_max_num_queries):
    with clock.frozen_at(datetime(2026, 11, 21, tzinfo=UTC)):
        look(resource)

        with django_assert_max_num_queries(2):
            look(resource)


def test_news_names_each_changed_job_once_per_look(template, driver, news, project, django_capture_on_commit_callbacks):
    submitted = make.submit(project, template, "a", "b", "c")
    make.start(submitted)
    news.clear()
    for name in ("a", "b", "c"):
        driver.finish(name)

    with django_capture_on_commit_callbacks(execute=True):
        look(template.resource)

    assert [sorted(batch) for batch in news] == [sorted(job.pk for job in submitted)]


def test_a_cancelled_job_whose_stop_was_lost_is_stopped_by_the_next_look(running, resource, driver):
    jobs.cancel_many(actor=Actor.system("test"), job_ids=[running.pk], reason="Enough.")

    look(resource)

    assert driver.jobs.reports["train"].cause is EndCause.STOPPED
