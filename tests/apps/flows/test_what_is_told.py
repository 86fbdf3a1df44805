"""What people are told of steps: one name, times by the jobs' own clock, and why something failed."""

from datetime import timedelta

import pytest

from accounts.models import AuditEntry
from accounts.permissions import Actor
from compute.models import Job, Resource, ResourceState
from compute.services import jobs
from core import clock
from core.times import Times
from experiments.models import Experiment
from experiments.selectors import lists
from experiments.services import annotations
from flows.models import Run, RunEvent, Step
from flows.selectors import runs as selectors
from flows.services import flows, runs
from scheduler.models import Workload
from tests.factories.flows import World, newest_attempt

FLOW = """
flow: digits
steps:
  - {name: train, command: "true", grid: {C: [1, 10]}}
  - {name: report, after: [train], command: "true"}
"""
CRASH = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
ValueError: bad label
"""


def test_a_step_has_one_name_in_jobs_experiments_queues_and_events(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()

    label = "digits #1 · train C=10"
    attempt = newest_attempt(run, "train", 1)
    job = Job.objects.get(name=attempt.job_name)
    assert [str(step) for step in Step.objects.filter(run=run)] == ["train C=1", "train C=10", "report"]
    assert (job.label, str(Workload.objects.get(name=job.name))) == (label, label)
    assert Experiment.objects.get(source_id=attempt.pk).title == label
    events = selectors.list_events(actor=member, run=run).filter(step_index=1)
    assert {event.step for event in events} == {"train C=10"}
    jobs.cancel_job(actor=member, job=job)
    assert AuditEntry.objects.get(action="compute.cancel_job").target_name == label


def test_a_later_attempt_of_a_step_is_numbered(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.finish_all(run)

    runs.retry_run(actor=member, run=run, step="report")
    world.turn()

    assert Job.objects.get(name=newest_attempt(run, "report").job_name).label == "digits #1 · report (attempt 2)"


def test_what_was_noticed_late_ended_when_its_job_ended(world: World, member, project):
    start = clock.now()
    with clock.frozen_at(start) as move_to:
        run = world.start(member, project, FLOW.replace("[1, 10]", "[1]"))
        world.turn()
        for step in ("train", "report"):
            move_to(clock.now() + timedelta(seconds=2))
            world.turn()
            name = newest_attempt(run, step).job_name
            move_to(clock.now() + timedelta(seconds=5))
            world.driver_of(name).finish(name)
            move_to(clock.now() + timedelta(seconds=60))
            for _ in range(3):
                world.turn()
        run = Run.objects.get(pk=run.pk)
        steps = selectors.list_steps(actor=member, run=run)

        ended = newest_attempt(run, "report").job.finished_at
        assert [step.times.ran_s for step in steps] == [5, 7]
        assert (run.state, run.finished_at, steps[1].finished_at) == ("succeeded", ended, ended)
        assert newest_attempt(run, "report").finished_at == ended


def test_the_time_before_a_retry_is_in_the_total_of_a_run_and_neither_waited_nor_ran(world: World, member, project):
    start = clock.now()
    with clock.frozen_at(start) as move_to:
        run = world.start(member, project, FLOW.replace("[1, 10]", "[1]"))
        world.turn()
        world.turn()
        move_to(start + timedelta(seconds=10))
        world.finish(run, "train", exit_code=1)
        world.turn()
        move_to(start + timedelta(seconds=1000))
        runs.retry_run(actor=member, run=run)
        world.finish_all(run)
        run = Run.objects.get(pk=run.pk)

        times = selectors.times_of(run, selectors.list_steps(actor=member, run=run))

    assert times == Times(waited_s=0, ran_s=10, total_s=1000)


def test_a_failed_run_says_which_step_failed_and_what_it_said_last(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    world.finish(run, "train", 1, exit_code=1, prints=f"{CRASH}bye\n")
    world.finish_all(run)

    why = "train C=10: The command exited with code 1: ValueError: bad label"
    assert Run.objects.get(pk=run.pk).reason == why
    assert RunEvent.objects.get(kind="run.failed").message == why
    attempt = selectors.list_steps(actor=member, run=run)[1].attempts[0]
    assert attempt.last_lines == CRASH.strip()


def test_of_many_failed_steps_the_first_few_are_told(world: World, member, project):
    run = world.start(member, project, FLOW.replace("[1, 10]", "[1, 2, 3, 4, 5]"))
    world.turn()
    world.turn()
    for index in range(5):
        world.finish(run, "train", index, exit_code=index + 1)
    world.finish_all(run)

    assert Run.objects.get(pk=run.pk).reason.splitlines() == [
        "train C=1: The command exited with code 1.",
        "train C=2: The command exited with code 2.",
        "train C=3: The command exited with code 3.",
        "2 more failed.",
    ]


def test_a_run_whose_jobs_were_cancelled_says_of_which_steps_and_by_whom(world: World, member, project):
    run = world.start(member, project, FLOW.replace("[1, 10]", "[1, 2, 3, 4, 5]"))
    world.turn()
    world.turn()
    for index in range(1, 5):
        job = newest_attempt(run, "train", index).job
        jobs.cancel_job(actor=member, job=job, reason="Diverges." if index == 1 else "")
        world.driver_of(job.name).finish(job.name, exit_code=143)
    world.finish_all(run)

    run.refresh_from_db()
    assert (run.state, run.reason.splitlines()) == (
        "cancelled",
        [
            "train C=2: member cancelled the job: Diverges.",
            "train C=3: member cancelled the job.",
            "train C=4: member cancelled the job.",
            "1 more was cancelled.",
        ],
    )
    assert RunEvent.objects.get(kind="run.cancelled").message == run.reason


def test_only_what_recorded_something_is_an_experiment_of_the_default_list(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    world.finish(run, "train", 0, prints="cnvrg_tag_accuracy: 0.9\n")
    name = newest_attempt(run, "train", 1).job_name
    (world.driver_of(name).open_output(name).host_folder / "model.bin").write_bytes(b"model")
    world.finish_all(run)

    def titles(**wish) -> list[str]:
        return [row.title for row in lists.find(actor=member, **wish)]

    recorded = ["digits #1 · train C=10", "digits #1 · train C=1"]
    assert sorted(titles(is_recorded=True)) == sorted(recorded)
    assert titles() == ["digits #1 · report", *titles(is_recorded=True)]
    report = Experiment.objects.get(title="digits #1 · report")
    annotations.set_tag(actor=member, experiment=report, key="best")
    assert sorted(titles(is_recorded=True)) == sorted(["digits #1 · report", *recorded])


def test_a_step_that_may_run_on_simulated_nodes_is_noted_when_the_flow_is_checked(world: World, member, project):
    world.add_resource("dgx", world.drivers["lab"].root / "dgx", kind="simulated")
    text = "flow: x\nsteps: [{name: a, command: c, compute: [dgx.small]}]\n"

    checked = flows.validate_spec(actor=member, project=project, text=text)

    assert checked.problems == ()
    [note] = checked.notes
    assert (note.code, note.is_note, note.step) == ("simulated", True, "a")
    assert note.message == "dgx.small is simulated: its nodes do not exist, so 'a' runs nothing there."


def test_a_step_whose_resource_does_not_answer_is_unknown_and_not_failed(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    Resource.objects.update(state=ResourceState.UNREACHABLE)

    [train, *_] = selectors.list_steps(actor=member, run=run)

    assert (train.state, train.state_shown, train.attempts[0].state_shown) == ("running", "unknown", "unknown")
    assert train.reason.endswith("does not answer. The job was running at the last contact, and may still be.")


def test_a_step_whose_job_waits_for_something_while_it_starts_says_so(world: World, member, project):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    Job.objects.update(state="starting", reason="The store does not answer.")

    [train, *_] = selectors.list_steps(actor=member, run=run)

    assert (train.state, train.reason) == ("running", "The store does not answer.")


@pytest.mark.parametrize("by", ["a member", "the platform"])
def test_a_run_that_is_cancelled_says_by_whom_and_so_do_its_steps_and_jobs(world: World, member, project, by):
    run = world.start(member, project, FLOW)
    world.turn()
    world.turn()
    who = member if by == "a member" else Actor.system("test")
    reason = "member cancelled the run." if by == "a member" else "The run was cancelled."
    runs.cancel_run(actor=who, run=run)
    at_once = run.reason
    world.turn()
    jobs_told = set(Job.objects.filter(state="stopping").values_list("reason", flat=True))
    for job in Job.objects.filter(state="stopping"):
        world.driver_of(job.name).finish(job.name, exit_code=143)
    world.finish_all(run)

    run.refresh_from_db()
    assert at_once == (reason if by == "a member" else "")
    assert (run.state, run.reason, jobs_told) == ("cancelled", reason, {reason})
    assert set(Step.objects.filter(run=run, state="cancelled").values_list("reason", flat=True)) == {reason}
    assert RunEvent.objects.get(run=run, kind="run.cancelled").message == reason
