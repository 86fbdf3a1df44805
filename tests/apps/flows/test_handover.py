"""What a step hands to the next ones is what its artifacts say, whatever a job did to the files meanwhile."""

from datetime import timedelta
from pathlib import Path

import pytest

from compute.adapters import drivers
from compute.adapters.local.driver import LocalDriver
from compute.adapters.local.shim_spawner import find_refusal
from compute.adapters.local.views import Views
from compute.models import Job, Resource
from compute.workers import observe
from core import clock
from experiments.models import Experiment
from experiments.workers import artifacts
from flows.models import Attempt, Run
from flows.services import bundles, flows, runs
from flows.workers import advance
from tests.apps.flows.test_bundles import pack
from tests.factories.flows import World, bring_code, newest_attempt, state_of, states

FLOW = """
flow: f
steps:
- {name: prep, command: c, outputs: ['*.txt']}
- {name: a, command: c, after: [prep]}
- {name: b, command: c, after: [prep]}
"""
GRID = """
flow: g
steps:
- {name: train, command: c, grid: {n: [1, 2]}}
- {name: pick, command: c, after: [train]}
"""


def output_of(world: World, run: Run, step: str, index: int = 0) -> Path:
    name = newest_attempt(run, step, index).job_name
    return world.driver_of(name).open_output(name).host_folder


def input_of(run: Run, step: str, index: int = 0) -> Path:
    """Return the folder that a step was handed; of a grid that of one try."""
    return Path(newest_attempt(run, step).job.spec["inputs"][index]["source"]["path"])


def begin(world: World, actor, project, text: str = FLOW) -> Run:
    run = world.start(actor, project, text)
    world.turn()
    world.turn()
    return run


def finish_prep(world: World, run: Run) -> Path:
    """Let `prep` write its model and end, and its children start; return its output folder."""
    folder = output_of(world, run, "prep")
    (folder / "model.txt").write_text("weights")
    (folder / "cache.bin").write_text("not stored")
    world.finish(run, "prep")
    world.turn()
    return folder


def failure_of(run: Run, step: str) -> tuple[str, str]:
    attempt = newest_attempt(run, step)
    return attempt.state, attempt.failure


@pytest.fixture
def run(world: World, member, project) -> Run:
    return begin(world, member, project)


def test_a_step_that_changes_its_input_fails_and_is_told_which_file(world: World, run):
    folder = finish_prep(world, run)

    (folder / "model.txt").write_text("corrupted")
    world.finish(run, "a")

    assert failure_of(run, "a") == ("failed", "input_changed")
    assert newest_attempt(run, "a").reason.startswith(
        "Its input 'prep' was changed while this step could read it: model.txt."
    )
    assert newest_attempt(run, "a").job.state == "succeeded"
    assert not Experiment.objects.get(source_id=newest_attempt(run, "a").pk).artifacts_wanted


def test_a_sibling_that_read_meanwhile_fails_too_and_a_retry_reads_what_is_stored(world: World, run, member):
    folder = finish_prep(world, run)
    (folder / "model.txt").write_text("corrupted")
    world.finish(run, "a")
    world.finish(run, "b")
    world.turn()
    assert (failure_of(run, "b"), state_of(run)) == (("failed", "input_changed"), "failed")

    runs.retry_run(actor=member, run=run)
    world.turn()
    world.turn()

    assert (input_of(run, "a") / "model.txt").read_text() == "weights"
    world.finish_all(run)
    assert states(run) == {"prep": "succeeded", "a": "succeeded", "b": "succeeded"}


def test_a_file_system_whose_clock_is_minutes_ahead_faults_no_step(world: World, member, project):
    with clock.frozen_at(clock.now() - timedelta(minutes=5)):
        run = begin(world, member, project)
        finish_prep(world, run)
        world.finish_all(run)

    assert states(run) == {"prep": "succeeded", "a": "succeeded", "b": "succeeded"}


def test_a_sibling_that_still_runs_when_the_input_is_put_right_does_not_count(world: World, member, project):
    run = begin(world, member, project, FLOW.replace("name: a,", "name: a, retries: {user_error: 1},"))
    folder = finish_prep(world, run)
    (folder / "model.txt").write_text("corrupted")
    world.finish(run, "a", exit_code=1)
    Attempt.objects.filter(run=run).update(remind_at=None)
    run.steps.filter(state="backoff").update(not_before=None)
    Run.objects.filter(pk=run.pk).update(wake_at=run.created_at)
    world.turn()
    assert (folder / "model.txt").read_text() == "weights"

    world.finish(run, "b")

    assert failure_of(run, "b") == ("failed", "input_changed")
    assert "put right while this step ran" in newest_attempt(run, "b").reason


def test_a_file_that_only_looks_changed_is_read_and_counts(world: World, run):
    folder = finish_prep(world, run)

    (folder / "model.txt").chmod(0o600)
    (folder / "model.txt").touch()
    world.finish_all(run)

    assert state_of(run) == "succeeded"


def test_a_file_that_was_added_or_removed_is_a_change(world: World, run, member):
    folder = finish_prep(world, run)
    (folder / "planted.txt").write_text("new")
    (folder / "model.txt").unlink()

    world.finish(run, "a")

    assert "model.txt, planted.txt." in newest_attempt(run, "a").reason
    world.finish(run, "b")
    world.turn()
    runs.retry_run(actor=member, run=run)
    world.turn()
    assert sorted(path.name for path in folder.iterdir()) == ["cache.bin", "model.txt"]


def test_what_is_not_stored_cannot_be_put_right_so_steps_fail_until_its_own_step_is_retried(world: World, run, member):
    folder = finish_prep(world, run)
    (folder / "cache.bin").write_text("corrupted")
    world.finish_all(run)
    assert states(run) == {"prep": "succeeded", "a": "failed", "b": "failed"}

    runs.retry_run(actor=member, run=run)
    world.finish_all(run)
    assert states(run)["a"] == "failed"

    runs.retry_run(actor=member, run=run, step="prep")
    world.finish_all(run)
    assert state_of(run) == "succeeded"


def test_outputs_that_change_before_they_are_stored_are_not_stored(world: World, run):
    folder = output_of(world, run, "prep")
    (folder / "model.txt").write_text("weights")
    name = newest_attempt(run, "prep").job_name
    world.driver_of(name).finish(name)
    observe.observe_all()
    advance.advance_all()
    (folder / "model.txt").write_text("corrupted")
    artifacts.store_artifacts()

    assert not Job.objects.filter(output_files__gt=0).exists()
    assert Experiment.objects.get(step_key="prep").artifacts_error == (
        "Changed after the step had ended, so not kept: model.txt."
    )


def test_a_link_among_the_outputs_of_a_grid_that_leads_elsewhere_is_a_change(world: World, member, project):
    run = begin(world, member, project, GRID)
    for index in (0, 1):
        (output_of(world, run, "train", index) / "model.txt").write_text(f"weights {index}")
        world.finish(run, "train", index)
    world.turn()
    (input_of(run, "pick", 0) / "model.txt").unlink()
    (input_of(run, "pick", 0) / "model.txt").symlink_to(input_of(run, "pick", 1) / "model.txt")

    world.finish(run, "pick")
    world.turn()

    assert "0/model.txt" in newest_attempt(run, "pick").reason
    runs.retry_run(actor=member, run=run)
    world.turn()
    world.turn()
    assert (input_of(run, "pick", 0) / "model.txt").read_text() == "weights 0"


def test_the_output_of_one_try_of_a_grid_is_watched_too(world: World, member, project):
    run = begin(world, member, project, GRID)
    for index in (0, 1):
        (output_of(world, run, "train", index) / "model.txt").write_text(f"weights {index}")
        world.finish(run, "train", index)
    world.turn()

    (output_of(world, run, "train", 1) / "model.txt").write_text("corrupted")
    world.finish(run, "pick")

    assert failure_of(run, "pick") == ("failed", "input_changed")


def test_code_that_a_job_changed_fails_the_step_and_is_put_right(world: World, member, project):
    bundle = bundles.save_bundle(actor=member, project=project, data=pack(("train.py", b"print(1)")))
    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=bundle.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()
    world.turn()
    folder = bring_code(run, "prep")

    (folder / "train.py").chmod(0o644)
    (folder / "train.py").write_text("print(666)")
    world.finish(run, "prep")

    assert "Its code was changed while this step could read it: train.py." in newest_attempt(run, "prep").reason
    assert (bring_code(run, "prep") / "train.py").read_text() == "print(1)"


def test_code_that_a_job_changed_on_this_host_fails_no_step_that_ran_elsewhere(world: World, member, project, tmp_path):
    world.add_resource("far", tmp_path / "far", kind="ssh")
    bundle = bundles.save_bundle(actor=member, project=project, data=pack(("train.py", b"print(1)")))
    text = FLOW.replace("{name: a, command: c", "{name: a, command: c, compute: [far.small]")
    version = flows.save_version(actor=member, project=project, text=text, bundle=bundle.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()
    world.turn()
    world.finish(run, "prep")
    world.turn()
    folder = bring_code(run, "a")
    (folder / "train.py").chmod(0o644)
    (folder / "train.py").write_text("print(666)")

    world.finish(run, "a")
    world.finish(run, "b")

    assert (states(run)["a"], failure_of(run, "b")) == ("succeeded", ("failed", "input_changed"))


@pytest.mark.skipif(bool(find_refusal()), reason=f"this kernel makes no sandbox: {find_refusal()}")
def test_a_job_that_writes_to_its_input_is_refused_by_the_kernel_and_its_sibling_reads_the_artifact(
    world: World, member, project, tmp_path
):
    driver = LocalDriver(tmp_path / "jobs", Views(hidden=[tmp_path]))
    drivers.install(Resource.objects.get(name="this-machine"), driver)
    text = FLOW.replace("{name: prep, command: c", "{name: prep, command: echo weights > $NEARLINE_OUTPUT/model.txt")
    text = text.replace("{name: a, command: c", "{name: a, command: echo corrupted > $NEARLINE_INPUT/prep/model.txt")
    text = text.replace("{name: b, command: c", "{name: b, command: cat $NEARLINE_INPUT/prep/model.txt; sleep 0.1")

    run = world.start(member, project, text)
    while Run.objects.get(pk=run.pk).finished_at is None:
        world.turn()
        driver.wait_for_news(0.05)

    assert states(run) == {"prep": "succeeded", "a": "failed", "b": "succeeded"}
    assert failure_of(run, "a") == ("failed", "user_error")
    log = driver.read_log(newest_attempt(run, "a").job_name, 0, 1000).data
    assert b"Read-only file system" in log
    assert driver.read_log(newest_attempt(run, "b").job_name, 0, 1000).data == b"weights\n"
    driver.close()
