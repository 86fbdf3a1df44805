from datetime import timedelta
from pathlib import Path

import pytest

from compute.models import Job
from compute.workers import launches, observe
from core import clock, leases
from core.models import Failure
from experiments.models import Experiment
from flows.engine import planner
from flows.models import Attempt, Run, RunEvent, Step
from flows.services import runs
from flows.workers import advance, handover, snapshots
from tests.factories.flows import World, newest_attempt, state_of, states

CHAIN = """
flow: chain
steps:
  - {name: a, command: "true"}
  - {name: b, command: "true", after: [a]}
  - {name: c, command: "true", after: [b]}
"""


def test_a_chain_runs_step_by_step_to_its_end(world: World, member, project):
    run = world.start(member, project, CHAIN)

    world.turn()
    assert states(run) == {"a": "queued", "b": "pending", "c": "pending"}
    world.turn()
    assert states(run) == {"a": "running", "b": "pending", "c": "pending"}
    world.finish(run, "a")
    assert states(run) == {"a": "succeeded", "b": "queued", "c": "pending"}
    world.finish_all(run)

    assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
    assert state_of(run) == "succeeded"
    assert Attempt.objects.filter(run=run).count() == Job.objects.count() == 3


def test_that_a_job_has_begun_is_no_work_until_its_attempt_has_been_queued_for_a_second(world: World, member, project):
    def has_work() -> bool:
        return any(rows.exists() for rows in advance.find_work())

    with clock.frozen_at(clock.now()) as move:
        run = world.start(member, project, CHAIN)
        world.turn()
        world.turn()
        Attempt.objects.update(state="queued")  # as if nobody had looked

        assert not has_work()
        move(clock.now() + timedelta(seconds=1))
        assert has_work()
        world.turn()
        assert states(run)["a"] == "running"


def test_events_are_numbered_without_gaps(world: World, member, project):
    run = world.start(member, project, CHAIN)

    world.finish_all(run)

    events = list(RunEvent.objects.filter(run=run).order_by("seq"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events][:4] == ["run.created", "run.running", "step.queued", "step.running"]
    assert events[-1].kind == "run.succeeded"
    assert Run.objects.get(pk=run.pk).event_seq == len(events)


def test_job_names_follow_from_the_run_and_the_step(world: World, member, project):
    run = world.start(member, project, "flow: f\nsteps: [{name: my_step, command: c, grid: {x: [1, 2]}}]")

    world.turn()

    stem = run.pk.replace("_", "-")
    assert sorted(Attempt.objects.values_list("job_name", flat=True)) == [f"{stem}-my-step-0-1", f"{stem}-my-step-1-1"]


def test_a_failed_step_fails_the_run_while_other_branches_go_on(world: World, member, project):
    run = world.start(
        member,
        project,
        "flow: f\nsteps: [{name: bad, command: c}, {name: after_bad, command: c, after: [bad]},"
        " {name: good, command: c}, {name: after_good, command: c, after: [good]}]",
    )
    world.turn()
    world.turn()

    world.finish(run, "bad", exit_code=3)
    assert states(run) == {"bad": "failed", "after_bad": "skipped", "good": "running", "after_good": "pending"}
    world.finish_all(run)

    assert states(run) == {"bad": "failed", "after_bad": "skipped", "good": "succeeded", "after_good": "succeeded"}
    found = Run.objects.get(pk=run.pk)
    assert (found.state, found.reason) == ("failed", "bad: The command exited with code 3.")
    assert Step.objects.get(run=run, key="bad").reason == "The command exited with code 3."
    assert Step.objects.get(run=run, key="after_bad").reason == "'bad' failed."


def test_user_errors_are_retried_within_their_budget_only(world: World, member, project):
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c, retries: {user_error: 1}}]")
    world.turn()
    world.turn()

    world.finish(run, "a", exit_code=1)
    assert states(run) == {"a": "backoff"}
    Step.objects.filter(run=run).update(not_before=None)
    Run.objects.filter(pk=run.pk).update(wake_at=run.created_at)
    world.turn()
    world.turn()
    world.finish(run, "a", exit_code=1)

    assert states(run) == {"a": "failed"}
    assert list(Attempt.objects.order_by("number").values_list("state", "failure")) == [
        ("failed", "user_error"),
        ("failed", "user_error"),
    ]


def test_a_lost_job_is_retried_without_being_asked_to(world: World, member, project):
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c}]")
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name
    world.driver_of(name).lose(name)
    world.turn()

    step = Step.objects.get(run=run)
    assert (step.state, step.failures) == ("backoff", {"infrastructure": 1})
    assert step.reason.endswith("Try 2 of 4 starts in 1.0 s.")


def test_a_condition_that_does_not_hold_skips_the_step_and_its_children(world: World, member, project):
    run = world.start(
        member,
        project,
        "flow: f\nsteps: [{name: train, command: c}, {name: deploy, command: c, after: [train],"
        " when: train.accuracy >= 0.9}, {name: tell, command: c, after: [deploy]}]",
    )
    world.turn()
    world.turn()

    world.finish(run, "train", prints='::nearline {"kind": "metric", "key": "accuracy", "value": 0.85}\n')
    world.turn()

    assert states(run) == {"train": "succeeded", "deploy": "skipped", "tell": "skipped"}
    assert Step.objects.get(key="deploy").reason == (
        "Its condition does not hold: train.accuracy is 0.85, so train.accuracy >= 0.9 does not hold."
    )
    assert state_of(run) == "succeeded"


def test_a_condition_that_holds_lets_the_step_start_and_children_see_the_metric(world: World, member, project):
    run = world.start(
        member,
        project,
        "flow: f\nsteps: [{name: train-it, command: c}, {name: deploy, command: c, after: [train-it],"
        " when: train-it.accuracy >= 0.9 and train-it.stage == 'final', env: {MINE: x}}]",
    )
    world.turn()
    world.turn()

    world.finish(run, "train-it", prints="cnvrg_tag_stage: final\ncnvrg_linechart_accuracy value: 0.95\n")

    assert states(run) == {"train-it": "succeeded", "deploy": "queued"}
    spec = newest_attempt(run, "deploy").job.spec
    expected = {
        "NEARLINE_TRAIN_IT_ACCURACY": "0.95",
        "CNVRG_TRAIN_IT_STAGE": "final",
        "MINE": "x",
        "NEARLINE_STEP": "deploy",
    }
    assert expected.items() <= spec["env"].items()
    (mount,) = spec["inputs"]
    assert mount["name"] == "train-it"
    assert mount["source"]["path"].endswith(newest_attempt(run, "train-it").job_name)


def test_a_grid_multiplies_and_its_child_reads_all_outputs(world: World, member, project):
    run = world.start(
        member,
        project,
        "flow: f\nparameters: {epochs: {type: int, default: 2}}\nsteps: ["
        "{name: train, command: 'train --C ${{ parameters.C }} -n ${{ parameters.epochs }}', grid: {C: [0.1, 1, 10]}},"
        " {name: pick, command: c, after: [train]}]",
        epochs="5",
    )

    world.turn()
    world.turn()
    for index in range(3):
        name = newest_attempt(run, "train", index).job_name
        folder = world.driver_of(name).open_output(name).host_folder
        (folder / "deep").mkdir()
        (folder / "deep" / "model").write_text(f"model {index}")
        world.driver_of(name).finish(name)
    world.turn()

    commands = Attempt.objects.filter(step__key="train").order_by("step__index").values_list("job__spec", flat=True)
    assert [spec["command"] for spec in commands] == ["train --C 0.1 -n 5", "train --C 1 -n 5", "train --C 10 -n 5"]
    assert Experiment.objects.get(step_key="train", step_index=2).parameters == {"C": 10, "epochs": 5}
    found = {
        f"{mount['name']}/{path.relative_to(mount['source']['path']).as_posix()}": path.read_text()
        for mount in newest_attempt(run, "pick").job.spec["inputs"]
        for path in Path(mount["source"]["path"]).rglob("model")
    }
    assert found == {f"train/{index}/deep/model": f"model {index}" for index in range(3)}


def test_cancelling_stops_what_runs_and_starts_nothing_more(world: World, member, project):
    run = world.start(member, project, CHAIN)
    world.turn()
    world.turn()

    runs.cancel_run(actor=member, run=run)
    world.turn()
    world.turn()
    world.turn()

    assert states(run) == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}
    assert state_of(run) == "cancelled"
    assert Job.objects.count() == 1


@pytest.mark.parametrize("limit", ["idle_limit", "time_limit"])
def test_a_step_that_a_limit_ended_has_failed_in_time_and_is_tried_again_as_often_as_that_is(
    world: World, member, project, limit
):
    run = world.start(
        member, project, CHAIN.replace('name: a, command: "true"', "name: a, command: c, retries: {timeout: 1}")
    )

    def reach_limit() -> Attempt:
        world.turn()
        world.turn()
        attempt = newest_attempt(run, "a")
        Job.objects.filter(pk=attempt.job_id).update(
            state="stopping", reason_code=limit, reason="Stopped: it was idle."
        )
        launches.stop_ending_jobs()
        world.turn()
        attempt.refresh_from_db()
        return attempt

    first = reach_limit()
    assert (first.state, first.failure, first.job.state) == ("failed", "timeout", "cancelled")
    assert (states(run)["a"], state_of(run)) == ("backoff", "running")

    Step.objects.filter(run=run, key="a").update(not_before=None)
    Run.objects.filter(pk=run.pk).update(wake_at=run.created_at)
    reach_limit()
    world.turn()

    assert states(run) == {"a": "failed", "b": "skipped", "c": "skipped"}
    run.refresh_from_db()
    assert (run.state, run.reason) == ("failed", "a: Stopped: it was idle.")
    assert Experiment.objects.filter(run_id=run.pk, state="failed").count() == 2


def test_success_that_comes_after_a_cancel_is_kept(world: World, member, project):
    run = world.start(member, project, CHAIN)
    world.turn()
    world.turn()
    name = newest_attempt(run, "a").job_name

    runs.cancel_run(actor=member, run=run)
    world.driver_of(name).finish(name)
    world.turn()
    world.turn()

    assert states(run) == {"a": "succeeded", "b": "cancelled", "c": "cancelled"}
    assert state_of(run) == "cancelled"


def test_a_retry_runs_what_did_not_succeed_again_and_keeps_the_rest(world: World, member, project):
    run = world.start(member, project, CHAIN)
    world.turn()
    world.turn()
    world.finish(run, "a")
    world.turn()
    world.finish(run, "b", exit_code=1)
    assert states(run) == {"a": "succeeded", "b": "failed", "c": "skipped"}

    runs.retry_run(actor=member, run=Run.objects.get(pk=run.pk))
    assert state_of(run) == "running"
    world.finish_all(run)

    assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
    assert Attempt.objects.filter(step__key="a").count() == 1
    assert [attempt.number for attempt in Attempt.objects.filter(step__key="b").order_by("number")] == [1, 2]


def test_attempts_that_end_at_once_are_looked_at_in_parts_by_one_call(world: World, member, project, monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_NEWS", 2)
    monkeypatch.setattr(snapshots._attempts_with_news, "_reads", {})
    settled, inspect = [], handover.inspect_ended

    def note(run, attempts, jobs):
        settled.append(len(jobs))
        return inspect(run, attempts, jobs)

    monkeypatch.setattr(handover, "inspect_ended", note)
    run = world.start(member, project, "flow: f\nsteps: [{name: a, command: c, grid: {x: [1, 2, 3, 4, 5]}}]")
    world.turn()
    world.turn()
    for name in world.running():
        world.driver_of(name).finish(name)
    settled.clear()

    observe.observe_all()
    advance.advance_run(run.pk)

    assert settled == [2, 2, 1]
    assert state_of(run) == "succeeded"


def test_two_workers_at_once_do_no_harm(world: World, member, project):
    run = world.start(member, project, CHAIN)
    rows = Run.objects.filter(pk=run.pk)
    token = leases.take(rows, for_s=5)

    advance.advance_run(run.pk)

    assert states(run) == {"a": "pending", "b": "pending", "c": "pending"}
    leases.release(rows, token)
    advance.advance_run(run.pk)
    assert states(run)["a"] == "queued"


def test_a_worker_that_was_overtaken_while_it_planned_leaves_no_failure(world: World, member, project, monkeypatch):
    run, plan, overtaken = world.start(member, project, CHAIN), planner.plan, []

    def plan_slowly(snapshot, now):
        transitions = plan(snapshot, now)
        if not overtaken:
            overtaken.append(run.pk)
            Run.objects.filter(pk=run.pk).update(lease_expires_at=now)
            advance.advance_each([run.pk])
        return transitions

    monkeypatch.setattr(planner, "plan", plan_slowly)

    advance.advance_each([run.pk])

    assert overtaken == [run.pk]
    assert states(run) == {"a": "queued", "b": "pending", "c": "pending"}
    assert Attempt.objects.count() == Job.objects.count() == 1
    assert not Failure.objects.exists()
    numbers = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_worker_that_lost_its_lease_writes_nothing(world: World, member, project):
    from core import clock
    from flows.errors import LeaseLost
    from flows.workers import apply

    run = world.start(member, project, CHAIN)
    row, now = snapshots.get_run(run.pk), clock.now()
    loaded = snapshots.load(row, now, snapshots.read_news(row, now), snapshots.Ended())
    transitions = planner.plan(loaded.snapshot, clock.now())

    with pytest.raises(LeaseLost):
        apply.apply(loaded, transitions, token="of somebody else", now=clock.now())

    assert Attempt.objects.count() == Job.objects.count() == 0
    assert RunEvent.objects.filter(run=run).count() == 1
