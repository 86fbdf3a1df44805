"""Files of a run stay as long as it goes on or may well be retried, and then go together."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from compute.models import Job
from compute.workers import cleaning as job_cleaning
from compute.workers import logs
from core import clock
from flows.models import Run
from flows.services import runs
from flows.workers import cleaning, handover
from tests.factories.flows import World, newest_attempt, state_of

FLOW = """
flow: grid
steps:
  - {name: train, command: "true", grid: {lr: [0.1, 0.01]}}
  - {name: judge, after: [train], command: "true", retries: {user_error: 0}}
"""
AGES = timedelta(days=30)


@pytest.fixture(autouse=True)
def _home_of_its_own(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path / "home")


@pytest.fixture
def run(world: World, member, project) -> Run:
    """A run whose grid has succeeded, and whose last step runs."""
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    for index in (0, 1):
        world.finish(run, "train", index)
    world.turn()
    return run


def folder_of(run: Run) -> Path:
    """Return a folder in which the last step finds an output of the grid."""
    mount = newest_attempt(run, "judge").job.spec["inputs"][0]
    return Path(mount["source"]["path"])


def test_outputs_stay_as_long_as_the_run_goes_on_however_old_they_are(run):
    with clock.frozen_at(clock.now() + AGES):
        deleted = (job_cleaning.delete_old_files(), cleaning.delete_run_folders())

    assert deleted == (0, 0)
    assert folder_of(run).is_dir()
    assert not Job.objects.exclude(files_deleted_at=None).exists()


def test_outputs_stay_for_two_weeks_after_the_end_of_the_run_so_that_it_can_be_retried(world, run, member):
    with clock.frozen_at(clock.now() + AGES) as move_to:
        world.finish(run, "judge", exit_code=1)
        world.turn()
        move_to(clock.now() + timedelta(days=13))
        deleted = (job_cleaning.delete_old_files(), cleaning.delete_run_folders())
        runs.retry_run(actor=member, run=Run.objects.get())

    assert deleted == (0, 0)
    assert state_of(run) == "running"


def test_then_the_files_of_all_its_jobs_go_and_with_them_its_own(world, run):
    world.finish_all(run)
    before = folder_of(run)
    with clock.frozen_at(clock.now() + AGES):
        logs.store_logs()
        still_there = cleaning.delete_run_folders()
        deleted = (job_cleaning.delete_old_files(), cleaning.delete_run_folders())
        again = (job_cleaning.delete_old_files(), cleaning.delete_run_folders())

    assert (still_there, deleted, again) == (0, (3, 1), (0, 0))
    assert (before.exists(), handover.run_folder(run.pk).exists()) == (False, False)


def test_the_folder_of_a_run_that_is_gone_goes_too(world, run):
    folder = handover.run_folder(run.pk)
    Run.objects.all().delete()

    assert cleaning.delete_run_folders() == 1
    assert not folder.exists()
