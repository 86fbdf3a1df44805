"""Whatever a job prints, and whatever fails for one run: all others go on, and its owner is told."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from accounts.errors import PermissionDenied, ProjectNotFound
from accounts.models import Membership, Project
from accounts.permissions import Role
from compute.engine.states import JobState
from compute.models import Job
from compute.workers import cleaning, observe
from core import clock
from core.models import Failure
from datasets.models import Store
from experiments.models import Experiment, MetricPoint
from experiments.workers import harvest
from flows.models import Run, Step
from flows.selectors import failures
from flows.services import runs
from flows.workers import advance
from tests.factories.browsers import browser_of
from tests.factories.flows import World, newest_attempt, state_of, states
from tests.markup import flat

FLOW = "flow: f\nsteps: [{name: a, command: c}, {name: b, command: c, after: [a], when: 'a.loss < 1" + "0" * 400 + "'}]"
ONE = "flow: g\nsteps: [{name: a, command: c, retries: 1}]"
HUGE = "9" * 400
POISON = (
    "cnvrg_linechart_loss value: '1' key: '²'\n"
    f"cnvrg_linechart_loss value: '1' key: '{'9' * 24}'\n"
    f'::nearline {{"kind":"metric","key":"a","value":{HUGE}}}\n'
    f'::nearline {{"kind":"metric","key":"a","value":{"9" * 5000}}}\n'
    '::nearline {"kind":"metric","key":"\\ud800","value":1}\n'
    '::nearline {"kind":"tag","key":"\\ud800","value":"\\ud800"}\n'
    '::nearline {"kind":"tag","key":"a","value":"\\u0000"}\n'
    '::nearline {"kind":"metric","key":"a","value":1,"at":"0001-01-01T00:00:00+23:59"}\n'
    '::nearline {"kind":"tag","key":"a","value":' + "[" * 50_000 + "]" * 50_000 + "}\n"
    "cnvrg_tag_nul: a\0b\n"
    "cnvrg_linechart_loss value: 0.5\n"
)


@pytest.fixture
def other(make_actor):
    """A member of another project, and that project."""
    project = Project.objects.create(name="team-b")
    actor = make_actor(None, name="bob")
    Membership.objects.create(project=project, user_id=actor.user_id, role=Role.MEMBER)
    return type(actor)(actor.user_id, actor.name, levels={project.pk: 2}), project


@pytest.fixture
def ask(make_actor):
    def ask(actor, path: str) -> str:
        client = browser_of(actor)
        response = client.get(path)
        assert response.status_code == 200, response.content
        return response.content.decode()

    return ask


def break_run(run: Run) -> None:
    """Let every attempt to advance a run raise, by what no plan can read."""
    Step.objects.filter(run=run).update(failures={"no such failure": 1})
    Run.objects.filter(pk=run.pk).update(retry_requested_at=clock.now())


def test_poison_lines_are_told_and_neither_this_run_nor_that_of_another_project_is_held_up(
    world: World, member, project, other, ask
):
    run = world.start(member, project, FLOW)
    theirs = world.start(*other, ONE)
    world.turn()
    world.turn()

    world.finish(run, "a", prints=POISON)
    world.finish(theirs, "a", exit_code=1, cause="exited")
    with clock.frozen_at(clock.now() + timedelta(seconds=5)):
        world.finish_all(theirs)
        world.finish_all(run)

    assert (state_of(run), state_of(theirs)) == ("succeeded", "succeeded")
    assert newest_attempt(theirs, "a").number == 2
    assert states(run) == {"a": "succeeded", "b": "succeeded"}
    experiment = Experiment.objects.get(step_key="a", run_id=run.pk)
    assert experiment.problems.count == 9
    assert [problem.reason for problem in experiment.problems.first] == [
        "its step is too large",
        "its value is too large for a number",
        "it is no JSON that can be read",
        "its key holds half of a character (a lone surrogate)",
        "its key holds half of a character (a lone surrogate)",
    ]
    assert list(MetricPoint.objects.values_list("key", "value")) == [("loss/²", 1.0), ("loss", 0.5)]
    assert not Failure.objects.exists()
    for path in (f"/runs/{run.pk}/?step=a&tab=log", f"/experiments/{experiment.pk}/"):
        page = ask(member, path)
        assert "9 log lines could not be read" in page
        assert "Its step is too large" in page


def test_a_log_that_cannot_be_read_holds_up_no_other_log_and_its_run_not_for_ever(world: World, member, project):
    bad, good = world.start(member, project, ONE), world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(bad, "a").job_name
    world.driver_of(name).jobs.logs[name] = None  # reading it raises what nobody foresees

    world.finish(bad, "a")
    world.finish(good, "a", prints="cnvrg_linechart_loss value: 1\n")
    world.turn()

    assert (state_of(bad), state_of(good)) == ("running", "succeeded")
    (failure,) = failures.list_failures(actor=member, run=bad)
    assert failure.message == "The platform could not read the log of 'a': an internal error (TypeError)."
    assert failures.list_failures(actor=member, run=good) == []

    with clock.frozen_at(clock.now()) as move:
        for _ in range(5):
            move(clock.now() + timedelta(minutes=1))
            world.turn()

    assert state_of(bad) == "succeeded"
    (problem,) = Experiment.objects.get(run_id=bad.pk).problems.first
    assert problem.reason.startswith("the log was given up after 5 tries: an internal error (TypeError), log id fail_")
    assert Failure.objects.get().kind == "experiments.read_late_log"


def test_a_record_that_cannot_be_written_leaves_those_of_others_written(world: World, member, project):
    bad, good = world.start(member, project, ONE), world.start(member, project, ONE)
    world.turn()
    world.turn()
    for run in (bad, good):
        name = newest_attempt(run, "a").job_name
        world.driver_of(name).print(name, "cnvrg_tag_split: patient\n")
    Experiment.objects.filter(run_id=bad.pk).update(tags=["no", "mapping"])

    harvest.read_running()

    assert Experiment.objects.get(run_id=good.pk).tags == {"split": "patient"}
    assert Failure.objects.get().item_id == Experiment.objects.get(run_id=bad.pk).pk


def test_a_job_that_prints_faster_than_we_read_is_read_in_pieces(world: World, member, project):
    run = world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    line = "cnvrg_tag_a: " + "x" * 1000 + "\n"
    world.driver_of(name).print(name, line * 9000)

    harvest.read_running()
    assert 2**20 <= Experiment.objects.get().log_offset < 3 * 2**20

    world.finish(run, "a", prints="cnvrg_tag_last: 1\n")
    assert Experiment.objects.get().tags["last"] == "1"


def test_a_run_that_cannot_be_advanced_says_so_and_others_go_on(world: World, member, project, ask):
    bad, good = world.start(member, project, ONE), world.start(member, project, ONE)
    world.turn()
    break_run(bad)

    advance.advance_all()
    world.finish_all(good)

    assert state_of(good) == "succeeded"
    (failure,) = failures.list_failures(actor=member, run=bad)
    assert failure.message == "The platform could not advance this run: an internal error (ValueError)."
    page = flat(ask(member, f"/runs/{bad.pk}/"))
    assert failure.message in page
    assert failure.log_id in page
    assert f'It tries again at<time datetime="{failure.next_try_at.isoformat(timespec="seconds")}' in page.replace(
        failure.next_try_at.isoformat(), failure.next_try_at.isoformat(timespec="seconds")
    )


def test_a_run_that_cannot_be_advanced_is_cancelled_all_the_same(world: World, member, project):
    run = world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    break_run(run)
    for _ in range(3):
        advance.advance_all()
        Failure.objects.update(next_try_at=clock.now())
    assert state_of(run) == "running"
    assert Failure.objects.get().attempts == 3

    Failure.objects.update(next_try_at=clock.now() + timedelta(minutes=10))
    runs.cancel_run(actor=member, run=run)
    advance.advance_all()
    observe.observe_all()

    run.refresh_from_db()
    assert (run.state, run.reason) == ("cancelled", "member cancelled the run; the platform could not advance it.")
    assert run.finished_at is not None
    assert states(run) == {"a": "cancelled"}
    assert newest_attempt(run, "a").state == "cancelled"
    assert Job.objects.get(name=name).state in {JobState.STOPPING, JobState.CANCELLED}
    assert not Failure.objects.exists()
    advance.advance_all()
    assert run.events.order_by("-seq")[0].kind == "run.cancelled"


def test_a_failing_run_that_nobody_cancelled_is_not_ended(world: World, member, project):
    run = world.start(member, project, ONE)
    break_run(run)

    advance.advance_all()

    assert state_of(run) == "pending"
    assert not run.events.filter(kind="run.cancelled").exists()


def test_outputs_that_cannot_be_kept_hold_up_no_others_and_their_run_not_for_ever(world: World, member, project):
    flow = ONE.replace("command: c", "command: c, outputs: ['*']")
    bad, good = world.start(member, project, flow), world.start(member, project, flow)
    world.turn()
    world.turn()
    for run in (bad, good):
        name = newest_attempt(run, "a").job_name
        (world.driver_of(name).open_output(name).host_folder / "report.txt").write_text("fine")
    for run in (bad, good):
        name = newest_attempt(run, "a").job_name
        world.driver_of(name).finish(name)
    observe.observe_all()
    advance.advance_all()
    Experiment.objects.filter(run_id=bad.pk).update(output_patterns=7, step_key="unknown")
    world.turn()
    world.turn()

    assert (state_of(bad), state_of(good)) == ("running", "succeeded")
    assert Job.objects.get(output_files=1).name == newest_attempt(good, "a").job_name
    (failure,) = failures.list_failures(actor=member, run=bad)
    assert failure.message.startswith("The platform could not keep the outputs of 'unknown': an internal error (")

    with clock.frozen_at(clock.now()) as move:
        for _ in range(5):
            move(clock.now() + timedelta(minutes=1))
            world.turn()

        assert state_of(bad) == "succeeded"
        late = Experiment.objects.get(run_id=bad.pk)
        assert "The outputs are not stored yet, after 5 tries" in late.artifacts_error
        assert late.artifacts_wanted

        move(clock.now() + timedelta(days=8))
        world.turn()
        lost = Experiment.objects.get(run_id=bad.pk)
        assert ("The outputs were given up after" in lost.artifacts_error, lost.artifacts_wanted) == (True, False)


def test_outputs_wait_for_a_store_that_is_away_and_so_does_their_run(world: World, member, project):
    run = world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    world.driver_of(name).leave(name, "report.txt", b"fine")
    folder = Path(Store.objects.get().location)
    away = folder.rename(folder.with_name("away"))
    folder.touch()
    world.driver_of(name).finish(name)

    with clock.frozen_at(clock.now()) as move:
        for _ in range(10):
            move(clock.now() + timedelta(minutes=10))
            world.turn()
        (failure,) = failures.list_failures(actor=member, run=run)
        assert (state_of(run), "Is its disk mounted?" in failure.message) == ("running", True)

        folder.unlink()
        away.rename(folder)
        move(clock.now() + timedelta(minutes=10))
        world.turn()
        world.turn()

    assert (state_of(run), Job.objects.get().output_files) == ("succeeded", 1)


def test_a_run_ends_without_outputs_that_cannot_be_stored_for_a_day_and_they_are_stored_later(
    world: World, member, project
):
    run = world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    world.driver_of(name).leave(name, "report.txt", b"fine")
    folder = Path(Store.objects.get().location)
    away = folder.rename(folder.with_name("away"))
    folder.touch()
    world.driver_of(name).finish(name)

    with clock.frozen_at(clock.now()) as move:
        world.turn()
        Failure.objects.filter(kind="experiments.store_outputs").update(attempts=149)
        for _ in range(2):
            move(clock.now() + timedelta(days=1))
            world.turn()
        late = Experiment.objects.get(run_id=run.pk)
        assert state_of(run) == "succeeded"
        assert late.artifacts_error.startswith("The outputs are not stored yet, after 150 tries: ")
        assert "They are tried again every 10 minutes" in late.artifacts_error
        page = browser_of(member).get(f"/experiments/{late.pk}/").content.decode()
        assert "<b>Not stored yet</b>" in page
        assert "They are being stored" not in page
        move(clock.now() + timedelta(days=99))
        cleaning.delete_old_files()

        folder.unlink()
        away.rename(folder)
        move(clock.now() + timedelta(minutes=10))
        world.turn()

    late.refresh_from_db()
    assert (late.artifacts_error, late.artifacts_wanted, Job.objects.get().output_files) == ("", False, 1)
    assert state_of(run) == "succeeded"


def test_what_people_are_told_about_failures_is_theirs_alone(world: World, member, project, other):
    run = world.start(member, project, ONE)
    break_run(run)
    advance.advance_all()

    with pytest.raises((PermissionDenied, ProjectNotFound)):
        failures.list_failures(actor=other[0], run=run)


def test_the_api_tells_what_fails_and_which_lines_could_not_be_read(world: World, member, project, ask):
    run = world.start(member, project, ONE)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    world.driver_of(name).print(name, "cnvrg_linechart_loss value: x\n")
    harvest.read_running()
    break_run(run)
    advance.advance_all()

    told = json.loads(ask(member, f"/api/v1/runs/{run.pk}"))

    (failure,) = told["failures"]
    assert failure["message"] == "The platform could not advance this run: an internal error (ValueError)."
    assert failure["attempts"] == 1
    assert failure["log_id"] == Failure.objects.get().pk
    problems = {
        "count": 1,
        "first": [{"reason": "its value is not a number", "line": "cnvrg_linechart_loss value: x"}],
    }
    assert told["steps"][0]["attempts"][0]["log_problems"] == problems
    experiment = Experiment.objects.get()
    assert json.loads(ask(member, f"/api/v1/experiments/{experiment.pk}"))["log_problems"] == problems
