"""What a job has saved outlives its runs, follows it from place to place, and is deleted when it is of no use."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import User
from accounts.permissions import Actor
from compute.adapters import drivers
from compute.errors import InvalidJobSpec, NoResourceFits
from compute.models import Checkpoint, Job, Resource
from compute.services import checkpoints as services
from compute.services import jobs, submissions, suspensions
from compute.services.submissions import Submission
from compute.workers import checkpoints, cleaning, launches, observe
from core import clock
from core.models import Failure
from datasets.models import TreeHold
from datasets.selectors import files, trees
from scheduler.models import Placement, Workload
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.datasets import make_store
from tests.interleaving import happens_after
from tests.markup import flat

pytestmark = pytest.mark.django_db

SYSTEM = Actor.system("tests")
WANTED = Submission(template="scripted.small", command="python train.py", name="train", checkpoints=True)


@pytest.fixture(autouse=True)
def _clock():
    """Let the clock stand still, as what is told counts seconds."""
    with clock.frozen_at(datetime(2026, 11, 21, 12, tzinfo=UTC)):
        yield


@pytest.fixture
def resource(resource) -> Resource:
    """Return a resource whose kind keeps checkpoints, and that a script drives."""
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    resource.refresh_from_db()
    return resource


@pytest.fixture
def job(project, template, member) -> Job:
    """Return a job with a checkpoint folder that runs."""
    job = submissions.submit_job(actor=member, project=project, submission=WANTED)
    make.start([job])
    return now(job)


@pytest.fixture
def elsewhere(home, db):
    """Return a template of another resource, and its driver."""
    resource, driver = make.make_resource("elsewhere", home / "elsewhere")
    Resource.objects.filter(pk=resource.pk).update(kind="local", is_simulated=False)
    resource.refresh_from_db()
    return make.make_template(resource), driver


def now(job: Job) -> Job:
    return Job.objects.select_related("resource", "project", "checkpoint").get(pk=job.pk)


def look(job: Job) -> None:
    observe.observe_resource(resource_id=job.resource_id)


def evict(job: Job) -> None:
    """Have a job evicted, stopped and queued again."""
    Workload.objects.filter(pk=job.workload_id).update(state="leaving", reason="Another queue claims its share.")
    Placement.objects.filter(workload=job.workload_id).update(evicting_since=clock.now())
    launches.evict_jobs()
    look(job)


def save(job: Job, driver, content: str, step: int, ago_s: float = 0) -> None:
    """Have a job save a checkpoint, and tell of it."""
    folder = driver.checkpoint(now(job).checkpoint_id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model").write_text(content)
    services.record_saved(job_id=job.pk, step=step, at=clock.now() - timedelta(seconds=ago_s))


def attempt(project, template, name: str) -> Job:
    """Submit an attempt of a step that keeps checkpoints."""
    [job] = make.submit(project, template, name, checkpoint="step:step_1")
    return job


def text_of(job: Job, member) -> str:
    return call(member, "GET", f"/compute/jobs/{job.name}").body["checkpoint"]["text"]


def test_every_run_of_a_job_has_the_same_folder(job, driver):
    evict(job)
    make.start([now(job)])

    first, second = (driver.jobs.launches[name].checkpoint for name in ("train", "train~2"))
    assert first == second
    assert (first.name, first.tree) == (now(job).checkpoint_id, None)


def test_a_suspended_job_finds_its_folder_when_it_is_resumed(job, member, driver):
    suspensions.suspend_job(actor=member, job=job)
    launches.stop_ending_jobs()
    look(job)
    make.start([suspensions.resume_job(actor=member, job=now(job))])

    assert driver.jobs.launches["train~2"].checkpoint.name == job.checkpoint_id


def test_a_job_that_does_not_ask_for_one_has_none(project, template, member, driver):
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, checkpoints=False))
    make.start([job])

    assert driver.jobs.launches["train"].checkpoint is None
    assert not Checkpoint.objects.exists()
    assert call(member, "GET", "/compute/jobs/train").body["checkpoint"] is None


def test_the_attempts_of_a_step_share_a_folder(project, template, driver):
    first = attempt(project, template, "train-1")
    make.start([first])
    driver.finish("train-1", exit_code=1)
    look(first)

    make.start([attempt(project, template, "train-2")])

    launched = {name: driver.jobs.launches[name].checkpoint.name for name in ("train-1", "train-2")}
    assert launched == dict.fromkeys(launched, Checkpoint.objects.get(owner="step:step_1").pk)


def test_an_attempt_elsewhere_waits_until_the_folder_is_stored_and_goes_on_from_that(
    project, template, driver, elsewhere, home
):
    make_store(home / "store")
    other, there = elsewhere
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1", exit_code=1)
    look(first)

    second = attempt(project, other, "train-2")
    make.start([second])
    assert (now(second).state, now(second).starts) == ("starting", 0)
    assert now(second).reason == "Its checkpoint is being brought from scripted."
    assert there.jobs.launches == {}

    checkpoints.store_wanted()
    Job.objects.filter(pk=second.pk).update(lease_expires_at=clock.now())
    look(second)

    row = Checkpoint.objects.get()
    folder = there.jobs.launches["train-2"].checkpoint
    assert (folder.name, folder.tree.root) == (row.pk, row.root)
    tree = trees.get_tree_of(SYSTEM, project.pk, row.root)
    assert b"".join(files.open_file(SYSTEM, tree, path=b"model").read()) == b"weights"
    assert (row.resource_id, row.is_wanted) == (other.resource_id, False)


def test_a_folder_with_which_a_job_runs_again_while_it_is_stored_stays_where_it_is(
    project, template, driver, elsewhere, home
):
    make_store(home / "store")
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1", exit_code=1)
    look(first)
    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])
    jobs.cancel_job(actor=SYSTEM, job=second)
    third = attempt(project, template, "train-3")
    stored = checkpoints.outputs.store_folder

    def start_meanwhile(*arguments, **options):
        make.start([third])
        return stored(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.outputs, "store_folder", start_meanwhile)
        checkpoints.store_wanted()

    assert driver.jobs.launches["train-3"].checkpoint.tree is None
    # Else the next run there would find what was stored in place of what this one has saved.
    row = Checkpoint.objects.get()
    assert (row.resource_id, row.is_wanted, row.root) == (first.resource_id, False, "")
    assert not TreeHold.objects.filter(holder=checkpoints.holder_of(row.pk)).exists()


def test_an_attempt_elsewhere_does_not_wait_for_a_resource_that_is_lost(project, template, driver, elsewhere):
    first = attempt(project, template, "train-1")
    make.start([first])
    driver.finish("train-1", exit_code=1)
    look(first)
    Resource.objects.filter(pk=first.resource_id).update(state="unreachable")

    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])

    assert elsewhere[1].jobs.launches["train-2"].checkpoint.tree is None


def test_a_checkpoint_that_is_left_behind_is_no_progress_any_more_and_its_page_says_so(
    project, template, member, driver, elsewhere
):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900, ago_s=40)
    driver.finish("train-1", exit_code=1)
    look(first)
    Resource.objects.filter(pk=first.resource_id).update(state="unreachable")

    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])
    services.record_saved(job_id=first.pk, step=950, at=clock.now())

    row = Checkpoint.objects.get()
    assert (row.step, row.saved_at, row.resumed_step, row.lost_s) == (None, None, None, None)
    left_behind = "scripted does not answer, so the checkpoint there was left behind. It begins anew."
    assert text_of(second, member) == left_behind

    services.record_saved(job_id=second.pk, step=10, at=clock.now())
    assert text_of(second, member) == f"Last checkpoint: step 10, 0.0 s ago. {left_behind}"


def test_what_was_stored_before_is_told_to_be_older_than_what_is_left_behind(
    project, template, member, driver, elsewhere
):
    first = attempt(project, template, "train-1")
    make.start([first])
    Checkpoint.objects.update(dataset_id="ds_1", root="r1", step=900)
    Resource.objects.filter(pk=first.resource_id).update(detached_at=clock.now())

    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])

    assert text_of(second, member) == (
        "scripted is detached, so the checkpoint there was left behind. It goes on from an older one, which was stored."
    )


def test_a_checkpoint_that_cannot_be_read_from_elsewhere_is_left_behind_in_words(
    project, template, member, driver, elsewhere
):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1", exit_code=1)
    look(first)
    drivers.install(first.resource, Unreadable(driver))
    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])

    checkpoints.store_wanted()
    Job.objects.filter(pk=second.pk).update(lease_expires_at=clock.now())
    look(second)

    assert elsewhere[1].jobs.launches["train-2"].checkpoint.tree is None
    assert text_of(second, member) == (
        "A checkpoint cannot leave scripted, whose volumes are read by its own jobs alone. It begins anew."
    )


class Unreadable:
    """A driver that keeps checkpoint folders and cannot read them, like that of clusters."""

    def __init__(self, driver) -> None:
        self.list_checkpoints, self.delete_checkpoint = driver.list_checkpoints, driver.delete_checkpoint


def test_a_folder_that_cannot_be_stored_is_given_up_in_words(project, template, driver):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    Checkpoint.objects.update(is_wanted=True)
    driver.is_away = True

    for _ in range(5):
        make_failures_due()
        checkpoints.store_wanted()

    row = Checkpoint.objects.get()
    assert (row.resource_id, row.is_wanted) == (None, False)
    assert row.error == (
        "The checkpoint on scripted could not be stored: The scripted resource is away. It begins anew."
    )


def make_failures_due() -> None:
    Failure.objects.update(next_try_at=clock.now())


def test_what_is_lost_counts_from_the_last_checkpoint_or_else_from_the_start(job, member, driver):
    save(job, driver, "weights", 900, ago_s=40)
    evict(job)
    row = Checkpoint.objects.get()
    # The run began after that checkpoint was made, so it lost no more than its own time.
    assert (row.step, row.resumed_step, row.lost_s) == (900, 900, 0)
    assert text_of(job, member) == "Last checkpoint: step 900, 40 s ago. It resumes from step 900, lost 0.0 s."


def test_a_checkpoint_that_is_read_in_the_log_after_the_eviction_counts_for_the_run_before(job, member, driver):
    Job.objects.filter(pk=job.pk).update(started_at=clock.now() - timedelta(seconds=100))
    evict(job)
    ended_at = Checkpoint.objects.get().interrupted_at
    assert text_of(job, member) == "It restarts without a checkpoint, lost 1 min 40 s."

    services.record_saved(job_id=job.pk, step=900, at=ended_at - timedelta(seconds=40))
    make.start([now(job)])

    assert Checkpoint.objects.get().lost_s == 40
    assert text_of(job, member) == "Last checkpoint: step 900, 40 s ago. Resumed from step 900, lost 40 s."


def test_what_its_log_tells_last_counts_at_once(job, member, driver):
    moment = clock.now()
    Job.objects.filter(pk=job.pk).update(started_at=moment - timedelta(seconds=100))
    at_ms = int(moment.timestamp() * 1000) - 40_000
    driver.print("train", f'loss 0.5\n::nearline {{"kind": "checkpoint", "key": "c", "value": 900, "at": {at_ms}}}\n')

    evict(job)

    row = Checkpoint.objects.get()
    assert (row.step, row.resumed_step) == (900, 900)
    assert row.lost_s == 40


def test_an_older_word_does_not_replace_a_newer_one(job, driver):
    save(job, driver, "weights", 900)
    save(job, driver, "weights", 800, ago_s=60)

    assert Checkpoint.objects.get().step == 900


def test_a_clock_that_is_ahead_makes_no_checkpoint_of_the_future(job):
    services.record_saved(job_id=job.pk, step=1, at=clock.now() + timedelta(hours=1))

    assert Checkpoint.objects.get().saved_at <= clock.now()


def test_the_scheduler_is_told_when_work_was_saved_at_most_every_ten_seconds(job):
    moment = clock.now()
    for age_s in (60, 55, 30):
        services.record_saved(job_id=job.pk, step=90 - age_s, at=moment - timedelta(seconds=age_s))

    placement = Placement.objects.get()
    assert placement.saved_at_s == int((moment - timedelta(seconds=30)).timestamp())
    services.record_saved(job_id=job.pk, step=99, at=moment - timedelta(seconds=25))
    placement.refresh_from_db()
    assert placement.saved_at_s == int((moment - timedelta(seconds=30)).timestamp())


def test_a_job_without_a_folder_saves_nothing_whatever_it_says(project, template, member):
    job = submissions.submit_job(actor=member, project=project, submission=replace(WANTED, checkpoints=False))
    make.start([job])

    services.record_saved(job_id=job.pk, step=900, at=clock.now())

    assert Placement.objects.get().saved_at_s == 0


def test_it_is_deleted_once_its_job_has_succeeded(job, driver):
    save(job, driver, "weights", 900)
    checkpoints.delete_due()
    assert driver.list_checkpoints() == [job.checkpoint_id]

    driver.finish("train")
    look(job)
    checkpoints.delete_due()

    assert driver.list_checkpoints() == []
    assert Checkpoint.objects.get().deleted_at is not None


@pytest.mark.parametrize(("days", "is_kept"), [(6, True), (8, False)])
def test_after_a_failure_it_is_kept_for_a_week(job, driver, days, is_kept):
    save(job, driver, "weights", 900)
    driver.finish("train", exit_code=1)
    look(job)
    Job.objects.filter(pk=job.pk).update(finished_at=clock.now() - timedelta(days=days))

    checkpoints.delete_due()

    assert bool(driver.list_checkpoints()) is is_kept


def test_a_job_that_waits_keeps_its_folder_however_long(job, driver):
    save(job, driver, "weights", 900)
    evict(job)
    Job.objects.filter(pk=job.pk).update(created_at=clock.now() - timedelta(days=90))

    checkpoints.delete_due()

    assert driver.list_checkpoints() == [job.checkpoint_id]


def test_a_resource_that_does_not_answer_is_asked_again(job, driver):
    save(job, driver, "weights", 900)
    driver.finish("train")
    look(job)
    driver.is_away = True
    checkpoints.delete_due()
    assert Checkpoint.objects.get().deleted_at is None

    driver.is_away = False
    make_failures_due()
    checkpoints.delete_due()
    assert driver.list_checkpoints() == []


def test_the_folders_of_a_deleted_project_are_deleted(job, driver):
    save(job, driver, "weights", 900)
    Job.objects.all().delete()
    Checkpoint.objects.all().delete()

    cleaning.delete_orphans()

    assert driver.list_checkpoints() == []


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_attempt_after_one_that_has_succeeded_begins_with_an_empty_folder(project, template, driver, is_deleted):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1")
    look(first)
    if is_deleted:
        checkpoints.delete_due()

    second = attempt(project, template, "train-2")
    make.start([second])

    row = Checkpoint.objects.get(owner="step:step_1")
    assert (now(second).checkpoint_id, row.step, row.deleted_at) == (row.pk, None, None)
    assert row.pk != now(first).checkpoint_id
    checkpoints.delete_due()
    assert driver.list_checkpoints() == []


def test_a_folder_that_an_attempt_has_meanwhile_is_not_deleted(project, template, driver):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1", exit_code=1)
    look(first)
    Job.objects.filter(pk=first.pk).update(finished_at=clock.now() - timedelta(days=8))

    with happens_after('FROM "compute_checkpoint"', lambda: attempt(project, template, "train-2")):
        checkpoints.delete_due()

    row = Checkpoint.objects.get(owner="step:step_1")
    assert driver.list_checkpoints() == [row.pk]
    assert (Job.objects.get(name="train-2").checkpoint_id, row.deleted_at) == (row.pk, None)


def test_a_folder_that_is_being_deleted_is_not_given_to_an_attempt(project, template, driver):
    first = attempt(project, template, "train-1")
    make.start([first])
    save(first, driver, "weights", 900)
    driver.finish("train-1", exit_code=1)
    look(first)
    Job.objects.filter(pk=first.pk).update(finished_at=clock.now() - timedelta(days=8))
    driver.is_away = True
    checkpoints.delete_due()

    second = attempt(project, template, "train-2")
    driver.is_away = False
    make_failures_due()
    checkpoints.delete_due()

    assert second.checkpoint_id != first.checkpoint_id
    assert driver.list_checkpoints() == []


def test_several_tries_of_a_step_that_are_submitted_at_once_share_its_folder(project, template):
    first, second = make.submit(project, template, "train-1", "train-2", checkpoint="step:step_1")

    assert first.checkpoint_id == second.checkpoint_id is not None


def test_a_resource_whose_kind_keeps_none_refuses_in_words(project, template, member):
    Resource.objects.update(kind="simulated")

    with pytest.raises(InvalidJobSpec, match=r"scripted\.small keeps no checkpoints: resources of kind simulated"):
        submissions.submit_job(actor=member, project=project, submission=WANTED)
    with pytest.raises(NoResourceFits, match="scripted keeps no checkpoints"):
        submissions.submit_job(
            actor=member,
            project=project,
            submission=replace(WANTED, template="", resource="scripted", cpu_millicores=1000),
        )
    assert not Job.objects.exists()


@pytest.mark.parametrize(("config", "is_kept"), [({}, False), ({"storage_class": "nas"}, True)])
def test_a_cluster_keeps_checkpoints_where_it_was_attached_with_a_storage_class(
    project, template, member, config, is_kept
):
    Resource.objects.update(kind="kubernetes", config=config)
    fault = r"scripted\.small keeps no checkpoints: scripted was attached without a storage class\."

    with nullcontext() if is_kept else pytest.raises(InvalidJobSpec, match=fault):
        submissions.submit_job(actor=member, project=project, submission=replace(WANTED, image="train:1"))

    assert Checkpoint.objects.count() == is_kept


def test_a_job_that_is_submitted_again_has_a_folder_of_its_own(job, member):
    again = submissions.rerun_job(actor=member, job=job, name="again")

    assert again.checkpoint_id not in {None, job.checkpoint_id}


def test_it_is_asked_for_and_told_over_the_api(project, template, member, driver):
    body = {"project": project.name, "template": "scripted.small", "command": "true", "name": "train"}
    call(member, "POST", "/compute/jobs", {**body, "checkpoints": True})
    job = Job.objects.get()
    make.start([job])
    assert text_of(job, member) == "It has told of no checkpoint yet."

    save(job, driver, "weights", 1200, ago_s=30)

    told = call(member, "GET", "/compute/jobs/train").body["checkpoint"]
    assert (told["step"], told["resumed_step"], told["lost_s"]) == (1200, None, None)
    assert told["text"] == "Last checkpoint: step 1,200, 30 s ago."


def test_its_page_tells_the_last_checkpoint(job, member, driver, client):
    save(job, driver, "weights", 900, ago_s=40)
    client.force_login(User.objects.get(pk=member.user_id))

    assert "Last checkpoint: step 900, 40 s ago." in flat(client.get("/jobs/train/").content.decode())


def test_a_cancelled_job_has_nothing_to_resume(job, member, driver):
    save(job, driver, "weights", 900, ago_s=40)
    jobs.cancel_job(actor=member, job=job)
    launches.stop_ending_jobs()
    look(job)

    assert "resume" not in text_of(job, member).lower()


def test_a_placed_job_is_claimed_once_however_often_its_checkpoint_is_waited_for(project, template, driver, elsewhere):
    first = attempt(project, template, "train-1")
    make.start([first])
    driver.finish("train-1", exit_code=1)
    look(first)
    second = attempt(project, elsewhere[0], "train-2")
    make.start([second])

    for _ in range(5):
        launches.start_again([second.pk])
        Job.objects.filter(pk=second.pk).update(lease_expires_at=clock.now())

    assert now(second).state == "starting"
