"""From the end of a job to the start of the next one in one pass, which may die at any statement."""

from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from datetime import timedelta

import pytest
from django.db import connection

from compute.models import Job, JobEvent
from compute.workers import observe
from config import recovery
from core import clock, tasks
from core.local_queue import LocalQueue
from flows.models import Attempt, Run, RunEvent, Step
from flows.workers import known_runs
from scheduler.models import Placement, Workload
from tests.factories.flows import World, newest_attempt, state_of, states

CHAIN = """
flow: chain
steps:
  - name: a
    command: "true"
  - name: b
    command: "true"
    after: [a]
"""

LONG_CHAIN = f"{CHAIN}  - {{name: c, command: 'true', after: [b]}}\n  - {{name: d, command: 'true', after: [c]}}\n"

# What a step that another one follows costs in one pass, once the process knows flow and nodes. It only ever goes down.
STATEMENTS = 22
# More once a second: failures, resource, templates, project and its queue, and all queues.
STATEMENTS_EACH_SECOND = 6
LEASES_END_AFTER = timedelta(seconds=31)


class Killed(BaseException):
    """The process died."""


class Statements:
    """Counts the statements of a block but those that begin a transaction, and kills it before one that writes."""

    def __init__(self, kill_before_write: int | None = None) -> None:
        self.all = self.writes = 0
        self._kill_at = kill_before_write

    def __call__(self, execute, sql, params, many, context):
        self.all += not sql.startswith("BEGIN")  # PostgreSQL's driver begins transactions itself
        if not sql.startswith("SELECT"):
            if self.writes == self._kill_at:
                raise Killed
            self.writes += 1
        return execute(sql, params, many, context)


@contextmanager
def own_threads():
    """Give this process threads for the tasks of a hand-over, which never run by themselves here."""
    tasks.install_threads(LocalQueue())
    try:
        yield
    finally:
        tasks.install_threads(None)


def pass_over(world: World, run: Run, statements: Statements, *, step: str = "a") -> None:
    """End the job of a step, and do what a process does that sees it."""
    driver = world.drivers["this-machine"]
    driver.finish(newest_attempt(run, step).job_name)
    with ExitStack() as stack:
        stack.enter_context(own_threads())
        stack.enter_context(connection.execute_wrapper(statements))
        stack.enter_context(tasks.hand_over())
        observe.observe_each([world.resources["this-machine"].pk])


def start_chain(world: World, member, project, text: str = CHAIN) -> Run:
    run = world.start(member, project, text)
    while states(run)["a"] != "running":
        world.turn()
    return run


@pytest.mark.django_db(transaction=True)
def test_the_process_that_sees_a_job_end_starts_the_next_one(world: World, member, project):
    run = start_chain(world, member, project)
    statements = Statements()

    pass_over(world, run, statements)

    assert states(run) == {"a": "succeeded", "b": "queued"}
    following = newest_attempt(run, "b").job_name
    assert Job.objects.get(name=following).state == "starting"
    assert world.drivers["this-machine"].jobs.started[following] == 1


@pytest.mark.django_db(transaction=True)
def test_a_hand_over_takes_the_same_few_statements_each_time(world: World, member, project, monkeypatch):
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)  # all within one second
    run = start_chain(world, member, project, LONG_CHAIN)
    counts = []

    for step in ("a", "b", "c"):
        statements = Statements()
        pass_over(world, run, statements, step=step)
        counts.append(statements.all)

    assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded", "d": "queued"}
    assert counts[1:] == [STATEMENTS, STATEMENTS]


@pytest.mark.django_db(transaction=True)
def test_steps_that_were_read_ahead_are_read_anew_once_another_process_has_changed_them(
    world: World, member, project, monkeypatch
):
    run = start_chain(world, member, project, LONG_CHAIN)
    pass_over(world, run, Statements(), step="a")
    known_before = OrderedDict(known_runs._known)
    pass_over(world, run, Statements(), step="b")
    monkeypatch.setattr(known_runs, "_known", known_before)  # as in a process that did not see that

    pass_over(world, run, Statements(), step="c")

    assert states(run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded", "d": "queued"}
    assert [step.attempt_count for step in Step.objects.filter(run=run)] == [1, 1, 1, 1]


@pytest.mark.django_db(transaction=True)
def test_what_people_set_up_is_read_once_a_second(world: World, member, project, monkeypatch):
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    run = start_chain(world, member, project, LONG_CHAIN)
    pass_over(world, run, Statements())
    monkeypatch.setattr(clock, "monotonic", lambda: now + 1.0)
    statements = Statements()

    pass_over(world, run, statements, step="b")

    assert statements.all == STATEMENTS + STATEMENTS_EACH_SECOND


@pytest.mark.django_db(transaction=True)
def test_a_pass_that_dies_at_any_write_is_finished_by_the_periodic_tasks_and_nothing_is_done_twice(
    world: World, member, project
):
    complete = Statements()
    pass_over(world, start_chain(world, member, project), complete)
    with clock.frozen_at(clock.now()) as move:
        for cut in range(complete.writes):
            run = start_chain(world, member, project)
            with pytest.raises(Killed):
                pass_over(world, run, Statements(cut))
            recovery.void_leases()
            move(clock.now() + LEASES_END_AFTER)  # in the full installation they run out by themselves

            world.finish_all(run)

            assert state_of(run) == "succeeded", cut
            assert states(run) == {"a": "succeeded", "b": "succeeded"}, cut
            jobs = Job.objects.filter(attempt__run=run)
            assert sorted(jobs.values_list("state", flat=True)) == ["succeeded", "succeeded"], cut
            assert Attempt.objects.filter(run=run).count() == Workload.objects.filter(job__in=jobs).count() == 2, cut
            assert not Placement.objects.filter(workload__job__in=jobs).exists(), cut
            for job in jobs:
                sequence = list(JobEvent.objects.filter(job=job).order_by("seq").values_list("seq", "state"))
                assert [number for number, _ in sequence] == list(range(1, len(sequence) + 1)), cut
                assert max(Counter(state for _, state in sequence).values()) == 1, cut
            numbers = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
            assert numbers == list(range(1, len(numbers) + 1)), cut
            assert find_work_left() == [], cut


def find_work_left() -> list[str]:
    """Return the periodic tasks that would find something to do, but those that have nothing to do with a pass."""
    others = {"compute.store_logs", "compute.watch", "scheduler.learn_packing"}
    asked = [task for name, task in tasks.registered().items() if task.find_work is not None and name not in others]
    return [task.name for task in asked if any(query.exists() for query in task.find_work())]
