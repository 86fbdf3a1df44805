"""A job with completions runs as parts: jobs with an index each, of which some run at once until all have succeeded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from compute.engine.placing import Placing
from compute.errors import InvalidJobSpec, JobHasParts, JobIsPart
from compute.models import Job, Resource
from compute.selectors import jobs as selectors
from compute.services import jobs, submissions, suspensions
from compute.services.submissions import Submission
from compute.workers import data_waits, launches, observe, parts, probes
from core import clock
from experiments.models import Experiment
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.browsers import browser_of

pytestmark = pytest.mark.django_db

WANTED = Submission(template="scripted.small", command="python train.py", name="hpo", completions=4, parallelism=2)


@pytest.fixture
def job(member, project, template) -> Job:
    """Return a job of four parts, two of which wait for their resources."""
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)
    parts.advance_parts()
    return now(job)


def now(job: Job) -> Job:
    return Job.objects.select_related("resource", "project", "workload").get(pk=job.pk)


def parts_of(job: Job, *states: str) -> list[Job]:
    found = Job.objects.filter(part_of=job.pk).select_related("resource").order_by("pk")
    return list(found.filter(state__in=states) if states else found)


def run(job: Job) -> None:
    """Let what waits of the parts run."""
    make.start(parts_of(job, "pending"))
    parts.advance_parts()


def finish(job: Job, driver, name: str, exit_code: int = 0) -> None:
    driver.finish(name, exit_code=exit_code)
    observe.observe_resource(resource_id=job.resource_id)
    parts.advance_parts()


def stop(job: Job) -> None:
    launches.stop_ending_jobs()
    observe.observe_resource(resource_id=job.resource_id)


def test_parts_get_jobs_of_their_own_so_many_at_once(job, member):
    first, second = parts_of(job)

    assert [(part.name, part.label, part.part_index, part.submitted_by) for part in (first, second)] == [
        ("hpo-0.1", "hpo-0", 0, "member"),
        ("hpo-1.1", "hpo-1", 1, "member"),
    ]
    variables = {"NEARLINE_INDEX": "1", "NEARLINE_COMPLETIONS": "4", "JOB_COMPLETION_INDEX": "1"}
    assert second.spec["env"] == variables
    assert (job.state, job.workload, job.reason) == ("pending", None, "0 of 4 done, 2 waiting")
    assert list(Experiment.objects.order_by("pk").values_list("job_name", flat=True)) == ["hpo-0.1", "hpo-1.1"]
    assert selectors.get_job(actor=member, name="hpo-1").pk == second.pk
    assert list(selectors.list_jobs(actor=member)) == [job]


def test_many_parts_are_submitted_in_several_transactions_of_few_statements_each(member, project, template):
    def submit(name: str, size: int) -> Job:
        wanted = replace(WANTED, name=name, completions=size, parallelism=size)
        return submissions.submit_job(actor=member, project=project, submission=wanted)

    def count_statements() -> int:
        with CaptureQueriesContext(connection) as statements:
            parts.advance_parts()
        return len(statements)

    submit("two", 2)
    few = count_statements()
    job = submit("many", parts.MOST_AT_ONCE + 1)
    many = count_statements()

    assert len(parts_of(job)) == parts.MOST_AT_ONCE
    # One to find its name, three for its experiment.
    assert (many - few) // (parts.MOST_AT_ONCE - 2) == 4

    parts.advance_parts()
    assert [part.part_index for part in parts_of(job)] == list(range(parts.MOST_AT_ONCE + 1))


def test_a_job_is_shown_to_wait_until_a_part_of_it_runs(job, member):
    def shown() -> list[str]:
        return [
            line for line in ("1 running", "1 waiting") if line in browser_of(member).get("/jobs/").content.decode()
        ]

    assert shown() == ["1 waiting"]
    run(job)
    assert shown() == ["1 running"]


def test_the_next_index_runs_when_one_has_succeeded_and_the_whole_ends_with_the_last(job, driver):
    run(job)
    assert (now(job).present_state, now(job).reason) == ("running", "0 of 4 done, 2 running")
    for index in range(4):
        finish(job, driver, f"hpo-{index}.1")
        run(job)

    ended = now(job)
    assert (ended.state, ended.reason, ended.parts_done, ended.parts_running) == ("succeeded", "4 of 4 done", 4, 0)
    assert (ended.started_at is not None, ended.finished_at is not None) == (True, True)
    assert list(job.events.values_list("state", "message"))[-2:] == [
        ("running", "3 of 4 done, 1 running"),
        ("succeeded", "4 of 4 done"),
    ]


def test_a_part_that_fails_runs_again_until_the_retries_are_used(member, project, template, driver):
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, retries=1))
    parts.advance_parts()
    run(job)
    finish(job, driver, "hpo-0.1", exit_code=1)

    assert [part.name for part in parts_of(job, "pending")] == ["hpo-0.2"]
    assert now(job).reason == "0 of 4 done, 1 running, 1 waiting, 1 of 1 retries used"
    assert selectors.get_job(actor=member, name="hpo-0").name == "hpo-0.2"

    finish(job, driver, "hpo-1.1", exit_code=3)
    failed = now(job)
    assert (failed.state, failed.reason_code) == ("failed", "user_error")
    assert failed.reason.startswith("0 of 4 done, 1 of 1 retries used. Part 1 failed: ")
    assert {part.name: part.state for part in parts_of(job)} == {
        "hpo-0.1": "failed",
        "hpo-1.1": "failed",
        "hpo-0.2": "cancelled",
    }


def test_a_part_for_which_no_node_is_there_waits_and_the_others_go_on(member, project, template, driver):
    (there,) = make.NODES
    driver.nodes = [replace(there, labels={"disk": "ssd"})]
    probes.probe_resource(resource=template.resource)
    wanted = replace(WANTED, retries=1, placing=Placing(node_labels=("disk=ssd",)))
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    parts.advance_parts()
    run(job)
    driver.nodes = [there]
    probes.probe_resource(resource=template.resource)

    finish(job, driver, "hpo-0.1", exit_code=1)

    assert {part.name: part.state for part in parts_of(job)} == {
        "hpo-0.1": "failed",
        "hpo-1.1": "running",
        "hpo-0.2": "pending",
    }
    assert now(job).state == "pending"


def test_a_job_with_retries_alone_is_tried_again_and_its_name_means_the_last_try(member, project, template, driver):
    wanted = replace(WANTED, completions=1, parallelism=1, retries=2)
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    parts.advance_parts()
    for attempt in (1, 2):
        run(job)
        driver.print(f"hpo-0.{attempt}", f"try {attempt}\n")
        assert call(member, "GET", "/compute/jobs/hpo/log").body["text"] == f"try {attempt}\n"
        finish(job, driver, f"hpo-0.{attempt}", exit_code=1)
    run(job)
    assert now(job).reason == "0 of 1 done, 1 running, 2 of 2 retries used"
    finish(job, driver, "hpo-0.3")

    assert (now(job).state, now(job).reason) == ("succeeded", "1 of 1 done, 2 of 2 retries used")
    again = submissions.rerun_job(actor=member, job=now(job), name="again")
    assert (again.completions, again.retries, again.has_parts) == (1, 2, True)


def test_all_tries_of_an_index_have_one_checkpoint_folder_and_the_whole_has_none(member, project, template, driver):
    Resource.objects.update(kind="local", is_simulated=False)
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, checkpoints=True))
    parts.advance_parts()
    run(job)
    finish(job, driver, "hpo-0.1", exit_code=1)

    first, second, again = parts_of(job)
    assert (first.checkpoint_id == again.checkpoint_id, first.checkpoint_id == second.checkpoint_id) == (True, False)
    assert (job.checkpoint_id, again.checkpoint.owner) == (None, f"job:{job.pk}-0")


def test_parts_wait_until_the_data_of_the_whole_is_ready(member, project, template):
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)
    Job.objects.filter(pk=job.pk).update(gate="data")
    parts.advance_parts()
    assert parts_of(job) == []

    data_waits.queue_ready_jobs()
    parts.advance_parts()

    assert [part.workload.state for part in parts_of(job)] == ["pending", "pending"]
    assert (now(job).gate, now(job).workload) == ("parts", None)


def test_suspending_resuming_and_cancelling_it_is_doing_so_to_all_of_its_parts(job, member):
    make.start(parts_of(job)[:1])
    parts.advance_parts()

    suspensions.suspend_job(actor=member, job=now(job))
    assert [part.state for part in parts_of(job)] == ["suspending", "suspended"]
    suspensions.resume_job(actor=member, job=now(job))
    assert [part.state for part in parts_of(job)] == ["leaving", "pending"]
    suspensions.suspend_job(actor=member, job=now(job))
    assert [part.state for part in parts_of(job)] == ["suspending", "suspended"]
    stop(job)
    parts.advance_parts()
    assert (now(job).state, [part.state for part in parts_of(job)]) == ("suspended", ["suspended"] * 2)

    assert suspensions.resume_job(actor=member, job=now(job)).present_state == "pending"
    assert {part.workload.state for part in parts_of(job)} == {"pending"}
    run(job)
    assert now(job).reason == "0 of 4 done, 2 running"

    jobs.cancel_job(actor=member, job=now(job))
    stop(job)
    parts.advance_parts()
    assert (now(job).state, [part.state for part in parts_of(job)]) == ("cancelled", ["cancelled"] * 2)
    assert (now(job).parts_running, now(job).gpu_held_milli) == (0, 0)


def test_it_ran_while_a_part_of_it_ran_and_is_suspended_with_them(member, project, template):
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)) as move:
        job = submissions.submit_job(actor=member, project=project, submission=WANTED)
        parts.advance_parts()
        move(clock.now() + timedelta(minutes=1))
        run(job)
        move(clock.now() + timedelta(minutes=10))
        suspensions.suspend_job(actor=member, job=now(job))
        stop(job)
        move(clock.now() + timedelta(hours=1))
        suspensions.resume_job(actor=member, job=now(job))
        move(clock.now() + timedelta(minutes=2))
        run(job)
        move(clock.now() + timedelta(minutes=5))

        told = call(member, "GET", f"/compute/jobs/{job.name}").body["times"]

    assert told == {"waited_s": 180.0, "ran_s": 900.0, "suspended_s": 3600.0, "total_s": 4680.0}


def test_a_deleted_one_is_gone_with_its_parts_and_its_names_are_free(job, member, project):
    submissions.delete_job(actor=member, job=job)
    again = submissions.submit_job(actor=member, project=project, submission=WANTED)
    parts.advance_parts()

    assert list(selectors.list_jobs(actor=member, with_parts=True).values_list("name", flat=True)) == [
        *("hpo.2-1.1", "hpo.2-0.1", "hpo.2")
    ]
    assert selectors.get_job(actor=member, name="hpo-1").part_of_id == again.pk


def test_a_part_goes_the_way_of_the_whole(job, member):
    part = parts_of(job)[0]
    acts = (jobs.cancel_job, submissions.delete_job, suspensions.suspend_job, submissions.rerun_job)

    for act in acts:
        with pytest.raises(JobIsPart):
            act(actor=member, job=part)
    with pytest.raises(JobHasParts, match="hpo runs as 4 parts: hpo-0 to hpo-3"):
        selectors.read_log(actor=member, job=job)
    assert now(part).state == "pending"


def test_it_can_be_submitted_once_more(job, member):
    again = submissions.rerun_job(actor=member, job=job, name="again")

    assert (again.completions, again.parallelism, again.spec["retries"]) == (4, 2, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"completions": 1}, "Parallelism needs completions"),
        ({"completions": 1, "parallelism": 1, "retries": 2, "replicas": 2}, "A job with completions or retries has no"),
        ({"replicas": 2}, "has no replicas"),
        ({"jupyter": True}, "runs no Jupyter"),
    ],
)
def test_what_contradicts_itself_is_refused(member, project, template, changes, message):
    with pytest.raises(InvalidJobSpec, match=message):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, **changes))

    assert not Job.objects.exists()


def test_the_api_and_the_pages_tell_its_parts(job, member, client):
    run(job)
    client.force_login(User.objects.get(pk=member.user_id))

    body = call(member, "GET", "/compute/jobs/hpo").body
    assert (body["state"], body["completions"], body["parts_running"]) == ("running", 4, 2)
    assert [(part["part_index"], part["name"], part["state"]) for part in body["parts"]] == [
        (0, "hpo-0.1", "running"),
        (1, "hpo-1.1", "running"),
    ]
    assert call(member, "GET", "/compute/jobs/hpo-1").body["part_of"] == "hpo"
    states = [
        [each["name"] for each in call(member, "GET", f"/compute/jobs?state={state}").body["items"]]
        for state in ("running", "pending")
    ]
    assert states == [["hpo"], []]
    assert "0 of 4 done, 2 running" in client.get("/jobs/").content.decode()
    assert "/jobs/hpo-1.1/" in client.get("/jobs/hpo/").content.decode()
    assert "/jobs/hpo/" in client.get("/jobs/hpo-1.1/").content.decode()


def test_the_form_submits_parts(member, project, template, client):
    client.force_login(User.objects.get(pk=member.user_id))
    said = {"project": "team-a", "template": "scripted.small", "command": "true", "name": "hpo"}

    client.post("/jobs/new/", {**said, "completions": "12", "parallelism": "3"})

    job = Job.objects.get(name="hpo")
    assert (job.completions, job.parallelism, job.spec["retries"]) == (12, 3, 6)
