"""A job that a person submits is recorded like a step: by what it prints, from its submission to its end."""

import os
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils.html import escape

from accounts.models import User
from accounts.permissions import Actor
from compute.errors import OutputNotStored
from compute.models import Checkpoint, Job
from compute.selectors import outputs
from compute.services import jobs as job_services
from compute.services import submissions
from compute.services.submissions import Submission
from compute.workers import cleaning
from core import clock, tasks
from datasets.models import Store
from experiments.models import Experiment, MetricPoint
from experiments.selectors import artifacts as artifact_reads
from experiments.selectors import experiments, lists, sources
from experiments.workers import artifacts, harvest, jobs
from scheduler.models import Placement
from tests.factories.api import bearer
from tests.factories.browsers import browser_of
from tests.factories.flows import World
from tests.factories.queues import RecordedQueue
from tests.markup import flat

WANTED = Submission(template="this-machine.small", command="python train.py", name="train")


@pytest.fixture
def job(world: World, member, project) -> Job:
    return submissions.submit_job(actor=member, project=project, submission=WANTED)


def state() -> str:
    return Experiment.objects.get().state


def test_a_submitted_job_has_an_experiment_that_follows_it_to_its_end(world: World, job):
    seen = [state()]
    world.turn()
    world.turn()
    jobs.follow_jobs()
    seen.append(state())
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()

    job.refresh_from_db()
    row = Experiment.objects.get()
    assert [*seen, row.state] == ["queued", "running", "succeeded"]
    assert (row.started_at, row.finished_at) == (job.started_at, job.finished_at)
    assert (row.title, row.created_by, row.job_id, row.template) == ("train", "member", job.pk, "this-machine.small")


def test_what_it_prints_is_recorded_while_it_runs_and_nothing_twice(world: World, job, member):
    world.turn()
    world.turn()
    world.driver_of("train").print("train", "cnvrg_tag_split: patient\ncnvrg_linechart_loss value: 0.5\n")
    jobs.follow_jobs()
    harvest.read_running()
    harvest.read_running()
    world.driver_of("train").print("train", "cnvrg_linechart_loss value: 0.25\n")
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    jobs.follow_jobs()

    assert list(MetricPoint.objects.order_by("id").values_list("key", "step", "value")) == [
        ("loss", 0, 0.5),
        ("loss", 1, 0.25),
    ]
    assert [row.title for row in lists.find(actor=member, where="tags.split = patient", is_recorded=True)] == ["train"]


def test_what_it_leaves_is_stored_once_it_has_succeeded(world: World, job, member):
    world.turn()
    world.turn()
    world.driver_of("train").leave("train", "models/best.bin", b"weights")
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()

    job.refresh_from_db()
    with pytest.raises(OutputNotStored, match="It is not stored yet"):
        outputs.get_output(actor=member, job=job)
    Job.objects.update(log_stored_at=clock.now())
    assert cleaning.delete_old_files(keep=timedelta(0)) == 0
    recorder = RecordedQueue()
    tasks.install(recorder)
    artifacts.store_artifacts()
    assert recorder.messages == []

    job.refresh_from_db()
    row = Experiment.objects.get()
    assert (outputs.get_output(actor=member, job=job).files, row.artifacts_wanted, row.is_recorded) == (1, False, True)
    (file,) = artifact_reads.list_artifacts(actor=member, experiment=row)
    assert (file.path, file.size_bytes) == ("models/best.bin", 7)


@pytest.mark.parametrize(
    ("files_deleted_at", "words"),
    [
        (None, r"Nothing stores it any more; what the job left is in its folder until that is deleted\."),
        (clock.now(), r"It was not stored before the files of the job were deleted\."),
    ],
)
def test_an_output_that_nobody_stores_is_not_said_to_come(world: World, job, member, files_deleted_at, words):
    world.turn()
    world.turn()
    world.driver_of("train").leave("train", "models/best.bin", b"weights")
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    # As it is with what ended before the outputs of such jobs were stored.
    Experiment.objects.update(artifacts_wanted=False)
    Job.objects.update(files_deleted_at=files_deleted_at)

    job.refresh_from_db()
    with pytest.raises(OutputNotStored, match=words):
        outputs.get_output(actor=member, job=job)


def test_files_are_listed_and_sent_whatever_their_names(world: World, job, member):
    world.turn()
    world.turn()
    names = ["50%20 #1?", '<b> "x".txt', "two\nlines", "ünï 🙂"]
    for name in (*names, os.fsdecode(b"z\xff")):
        world.driver_of("train").leave("train", name, os.fsencode(name))
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    artifacts.store_artifacts()

    address, browser = f"/experiments/{Experiment.objects.get().pk}/", browser_of(member)
    page = browser.get(address).content.decode()
    links = [link for link in re.findall(f'href="({address}artifacts/[^"]+)"', page) if "%5C" not in link]
    sent = [b"".join(browser.get(link).streaming_content).decode() for link in links]
    download = Client().get(f"/api/v1{links[2]}", headers=bearer(member))

    assert sent == names
    assert b"".join(download.streaming_content) == b"two\nlines"
    assert "z\\xff" in page  # nobody can ask for it by an address


def test_a_file_that_a_job_left_is_no_script_of_ours_by_page_or_api(world: World, job, member):
    world.turn()
    world.turn()
    for name in ("a.js", "a.css", "a.html", "a.png"):
        world.driver_of("train").leave("train", name, b"x")
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    artifacts.store_artifacts()

    address, browser = f"/experiments/{Experiment.objects.get().pk}/artifacts", browser_of(member)
    pages = [browser.get(f"{address}/{name}") for name in ("a.js", "a.css", "a.html", "a.png")]
    told = [Client().get(f"/api/v1{address}/{name}", headers=bearer(member)) for name in ("a.js", "a.css", "a.html")]
    picture = Client().get(f"/api/v1{address}/a.png", headers=bearer(member))

    assert {answer["Content-Type"] for answer in pages + told} == {"application/octet-stream"}
    assert picture["Content-Type"] == "image/png"
    answers = {(answer["Content-Security-Policy"], answer["X-Content-Type-Options"]) for answer in [*told, picture]}
    assert answers == {("default-src 'none'; sandbox", "nosniff")}


def test_the_page_says_why_files_cannot_be_stored_now(world: World, job, member):
    world.turn()
    world.turn()
    world.driver_of("train").leave("train", "report.txt", b"fine")
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    folder = Path(Store.objects.get().location)
    folder.rename(folder.with_name("away"))
    folder.touch()

    artifacts.store_artifacts()

    page = flat(browser_of(member).get(f"/experiments/{Experiment.objects.get().pk}/").content.decode())
    away = escape(f"The folder of the store '{Store.objects.get().name}' is not there.")
    assert f"The platform could not keep the outputs of train: {away}" in page
    assert str(folder) not in page
    assert "They are being stored." in page


@pytest.mark.parametrize(("exit_code", "leaves"), [(0, False), (3, True)])
def test_nothing_is_stored_of_one_that_failed_or_left_nothing(world: World, job, member, exit_code, leaves):
    world.turn()
    world.turn()
    if leaves:
        world.driver_of("train").leave("train", "half.bin", b"weights")
    world.driver_of("train").finish("train", exit_code=exit_code)
    world.turn()
    jobs.follow_jobs()

    assert not Experiment.objects.filter(artifacts_wanted=True).exists()
    page = flat(browser_of(member).get(f"/experiments/{Experiment.objects.get().pk}/").content.decode())
    assert ("is stored when it succeeds." if leaves else "It wrote no file to") in page


def test_a_checkpoint_that_it_tells_of_is_noted_and_is_no_recording(world: World, member, project):
    submissions.submit_job(actor=member, project=project, submission=replace(WANTED, checkpoints=True))
    world.turn()
    world.turn()
    at_ms = int(clock.now().timestamp() * 1000) - 40_000
    lines = [f'::nearline {{"kind": "checkpoint", "key": "c", "value": {step}, "at": {at_ms}}}' for step in (800, 900)]
    world.driver_of("train").print("train", "\n".join([*lines, ""]))
    jobs.follow_jobs()
    harvest.read_running()

    row = Checkpoint.objects.get()
    assert (row.step, int(row.saved_at.timestamp() * 1000)) == (900, at_ms)
    assert Placement.objects.get().saved_at_s == at_ms // 1000
    assert not lists.find(actor=member, is_recorded=True).exists()


def test_the_experiment_of_a_deleted_job_says_so_and_asks_for_no_log(world: World, job, member):
    world.turn()
    world.turn()
    world.driver_of("train").finish("train")
    world.turn()
    jobs.follow_jobs()
    browser, row = browser_of(member), Experiment.objects.get()
    before = browser.get(f"/experiments/{row.pk}/").content.decode()
    job.refresh_from_db()
    submissions.delete_job(actor=member, job=job)

    page = browser.get(f"/experiments/{row.pk}/").content.decode()

    assert "/jobs/train/" in before
    assert "/jobs/train/" not in page
    assert "The job was deleted, and its log with it." in page


def test_a_job_that_prints_nothing_is_listed_only_with_all(world: World, job, member):
    world.turn()
    world.turn()
    world.driver_of("train").finish("train", exit_code=3)
    world.turn()
    jobs.follow_jobs()

    assert state() == "failed"
    assert Experiment.objects.get().reason == "The command exited with code 3."
    assert not lists.find(actor=member, is_recorded=True).exists()
    assert lists.find(actor=member, where="state = failed").count() == 1


def test_a_job_that_is_cancelled_before_it_ran_ends_its_experiment(world: World, job, member):
    job_services.cancel_job(actor=member, job=job)
    world.turn()
    jobs.follow_jobs()

    assert (state(), Experiment.objects.get().started_at) == ("cancelled", None)


def test_its_page_leads_to_the_job_and_shows_its_command(client, world: World, job, member):
    client.force_login(User.objects.get(pk=member.user_id))

    page = client.get(f"/experiments/{Experiment.objects.get().pk}/").content.decode()

    assert sources.describe(Experiment.objects.get()).command == "python train.py"
    assert 'href="/jobs/train/"' in page
    assert "python train.py" in page
    assert "Others of this run" not in page


def test_only_members_of_its_project_see_it(world: World, job):
    assert not experiments.list_experiments(actor=Actor(user_id=None, name="stranger")).exists()
