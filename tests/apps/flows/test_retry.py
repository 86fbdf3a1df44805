"""Trying again: all that did not succeed, or one step and everything after it."""

import pytest

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from compute.adapters import drivers
from compute.adapters.output_folder import OutputFolder
from compute.adapters.scripted import ScriptedDriver
from compute.adapters.stored_outputs import SentOutput
from compute.models import Job
from core import clock
from flows.errors import NothingToRetry, OutputsGone, RunNotFinished, StepNotFound
from flows.models import Attempt, Run, RunEvent, Step
from flows.services import runs
from tests.factories.api import call
from tests.factories.flows import World, newest_attempt
from tests.interleaving import happens_after

FLOW = """
flow: four
steps:
  - {name: prepare, command: "true"}
  - {name: train, after: [prepare], command: "true", grid: {lr: [0.1, 0.01]}}
  - {name: judge, after: [train], command: "true"}
  - {name: aside, command: "true"}
"""


@pytest.fixture
def finished(world: World, member, project) -> Run:
    run = world.start(member, project, FLOW)
    world.finish_all(run)
    assert set(states(run).values()) == {"succeeded"}
    return Run.objects.get(pk=run.pk)


def states(run: Run) -> dict[str, str]:
    return {f"{step.key}{step.index}": step.state for step in Step.objects.filter(run=run)}


def tries(run: Run) -> dict[str, int]:
    return {f"{step.key}{step.index}": step.attempt_count for step in Step.objects.filter(run=run)}


def test_a_retry_from_a_step_runs_it_and_all_after_it_and_keeps_the_rest(world: World, member, finished):
    runs.retry_run(actor=member, run=finished, step="train")
    world.turn()
    assert states(finished) == {
        "prepare0": "succeeded", "train0": "queued", "train1": "queued", "judge0": "pending", "aside0": "succeeded",
    }  # fmt: skip

    world.finish_all(finished)

    assert tries(finished) == {"prepare0": 1, "train0": 2, "train1": 2, "judge0": 2, "aside0": 1}
    assert Run.objects.values_list("state", "retry_key", "retry_requested_at").get() == ("succeeded", "", None)


def test_one_try_of_a_grid_can_be_named(world: World, member, finished):
    runs.retry_run(actor=member, run=finished, step="train", index=1)
    world.finish_all(finished)

    assert tries(finished) == {"prepare0": 1, "train0": 1, "train1": 2, "judge0": 2, "aside0": 1}


def test_what_comes_after_reads_the_new_outputs_and_the_kept_ones(world: World, member, finished):
    runs.retry_run(actor=member, run=finished, step="train", index=1)
    world.turn()
    world.turn()
    world.finish(finished, "train", 1)
    world.turn()

    job = Job.objects.get(attempt__step__key="judge", attempt__number=2)
    first = job.__class__.objects.get(attempt__step__key="judge", attempt__number=1)
    assert [mount["name"] for mount in job.spec["inputs"]] == ["train/0", "train/1"]
    is_same = [new == old for new, old in zip(job.spec["inputs"], first.spec["inputs"], strict=True)]
    assert is_same == [True, False]


def test_what_failed_elsewhere_stays_failed(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    world.finish(run, "aside", exit_code=1)
    world.finish_all(run)

    runs.retry_run(actor=member, run=run, step="judge")
    world.finish_all(run)

    assert states(run)["aside0"] == "failed"
    assert tries(run)["judge0"] == 2
    assert Run.objects.get(pk=run.pk).reason == "aside: The command exited with code 1."


def test_who_may_only_look_may_not_retry(viewer, finished):
    entries, events = AuditEntry.objects.count(), RunEvent.objects.count()

    with pytest.raises(PermissionDenied):
        runs.retry_run(actor=viewer, run=finished, step="train")

    assert Run.objects.get().state == "succeeded"
    assert (AuditEntry.objects.count(), RunEvent.objects.count()) == (entries, events)


@pytest.mark.parametrize(("step", "index"), [("none", None), ("train", 2), ("prepare", 1)])
def test_a_step_that_is_not_there_is_refused(member, finished, step, index):
    with pytest.raises(StepNotFound):
        runs.retry_run(actor=member, run=finished, step=step, index=index)

    assert Run.objects.get().state == "succeeded"


def test_a_run_that_goes_on_is_not_retried(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()

    with pytest.raises(RunNotFinished):
        runs.retry_run(actor=member, run=run, step="train")

    assert Run.objects.get().retry_key == ""


def test_of_two_retries_at_once_one_is_refused(member, finished):
    def retry(step):
        return runs.retry_run(actor=member, run=Run.objects.get(pk=finished.pk), step=step)

    with happens_after("flows_step", lambda: retry("aside")), pytest.raises(RunNotFinished):
        retry("train")


def test_without_a_step_a_run_that_succeeded_has_nothing_to_retry(member, finished):
    with pytest.raises(NothingToRetry):
        runs.retry_run(actor=member, run=finished)


def test_outputs_that_were_tidied_away_and_are_not_stored_cannot_be_read_again(member, finished):
    Job.objects.filter(attempt__step__key="prepare").update(files_deleted_at=clock.now(), output_state="failed")

    with pytest.raises(OutputsGone) as refusal:
        runs.retry_run(actor=member, run=finished, step="train")

    assert refusal.value.details == {"step": "prepare"}
    assert Run.objects.get().state == "succeeded"
    runs.retry_run(actor=member, run=finished, step="prepare")
    assert Run.objects.get().retry_key == "prepare"
    assert Attempt.objects.filter(step__key="prepare").count() == 1


@pytest.fixture
def leave(world: World, member, project):
    """Returns a function that runs `prepare` at a place, which leaves two files, and `train`; then the files are gone.

    The place `far` keeps no folder: what its jobs left is read in the store alone.
    """

    def run_steps(place: str, outputs: str) -> Run:
        text = FLOW.replace("{name: prepare,", f"{{name: prepare, compute: [{place}.small], outputs: ['{outputs}'],")
        run = world.start(member, project, text)
        world.turn()
        world.turn()
        driver, name = world.drivers[place], newest_attempt(run, "prepare").job_name
        driver.leave(name, "model.txt", b"weights")
        driver.leave(name, "cache.bin", b"0")
        world.finish_all(run)
        Job.objects.update(files_deleted_at=clock.now())
        return Run.objects.get(pk=run.pk)

    root = world.drivers["lab"].root / "far"
    world.add_resource("far", root, kind="ssh")
    jobs = world.drivers["far"].jobs
    drivers.install(world.resources["far"], StoringDriver(root, world.drivers["far"].nodes, jobs))
    return run_steps


class StoringDriver(ScriptedDriver):
    """Keeps outputs where no job can mount them."""

    def open_output(self, name: str) -> SentOutput:
        return SentOutput(lambda: OutputFolder(self.root / name))


@pytest.mark.parametrize(("place", "outputs"), [("this-machine", "**"), ("far", "**"), ("far", "*.txt")])
def test_outputs_whose_files_were_tidied_away_are_read_in_the_store(world: World, member, leave, place, outputs):
    run = leave(place, outputs)

    runs.retry_run(actor=member, run=run, step="train")
    world.turn()

    kept = Job.objects.get(attempt__step__key="prepare")
    (mount,) = newest_attempt(run, "train").job.spec["inputs"]
    assert (mount["source"]["kind"], mount["source"]["root"]) == ("tree", kept.output_root)
    assert kept.output_files == (2 if outputs == "**" else 1)


def test_what_was_read_in_a_folder_and_is_stored_in_part_cannot_be_read_again(member, leave):
    run = leave("this-machine", "*.txt")

    with pytest.raises(OutputsGone):
        runs.retry_run(actor=member, run=run, step="train")


def test_where_nothing_was_left_nothing_is_missed(world: World, member, finished):
    Job.objects.update(files_deleted_at=clock.now())

    runs.retry_run(actor=member, run=finished, step="train")
    world.turn()

    assert newest_attempt(finished, "train").job.spec["inputs"] == []


def test_the_api_takes_the_step(world: World, member, finished):
    body = {"step": "train", "index": 1}

    answer = call(member, "POST", f"/runs/{finished.pk}/retry", body)

    assert (answer.status, answer.body["state"]) == (200, "running")
    assert Run.objects.values_list("retry_key", "retry_index").get() == ("train", 1)


def test_the_attempts_of_a_step_have_one_checkpoint_folder_and_one_run_anew_has_a_new_one(
    world: World, member, project
):
    text = "flow: f\nsteps: [{name: train, command: c, checkpoints: true, grace_period: 1m, retries: 1}]"
    run = world.start(member, project, text)
    world.turn()
    world.turn()
    world.finish(run, "train", exit_code=1)
    Step.objects.update(not_before=None)
    Run.objects.update(wake_at=run.created_at)
    world.turn()
    first, second = Job.objects.order_by("pk")
    assert first.checkpoint_id == second.checkpoint_id is not None
    assert (second.grace_period_s, second.spec["checkpoint"]) == (60, f"step:{Step.objects.get().pk}")

    world.finish_all(run)
    runs.retry_run(actor=member, run=Run.objects.get(pk=run.pk), step="train")
    world.turn()

    assert Job.objects.latest("pk").checkpoint_id != first.checkpoint_id
