"""A worker that dies between any two statements: whatever it left, the next one makes the run come out right."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection

from compute.models import Job
from core import clock
from flows.models import Attempt, RunEvent
from flows.workers import advance
from tests.factories.flows import World, state_of, states

FLOW = """
flow: f
steps:
  - {name: a, command: c}
  - {name: b, command: c, after: [a], grid: {n: [1, 2]}}
"""


class Killed(BaseException):
    """Death takes no questions."""


@contextmanager
def dying_before(statement: int):
    """Let nothing reach the database from the n-th statement on, as if the process were gone."""
    count = 0

    def execute(run, sql, params, many, context):
        nonlocal count
        if sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            return run(sql, params, many, context)
        count += 1
        if count >= statement:
            raise Killed
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


@pytest.mark.parametrize("first", range(1, 60, 6))
def test_death_before_any_statement_leaves_nothing_half_done(world: World, member, project, first):
    for statement in range(first, first + 6):
        with clock.frozen_at(clock.now()) as move:
            run = world.start(member, project, FLOW)
            for turn in range(60):
                # The dead worker's lease runs out before another looks.
                move(clock.now() + timedelta(seconds=6))
                if turn % 2 == 0:
                    try:
                        with dying_before(statement):
                            advance.advance_run(run.pk)
                    except Killed:
                        continue
                world.turn()
                for name in world.running():
                    world.driver_of(name).finish(name)
                if state_of(run) == "succeeded":
                    break

        assert set(states(run).values()) == {"succeeded"}
        assert Attempt.objects.filter(run=run).count() == Job.objects.filter(attempt__run=run).count() == 3
        assert set(world.drivers["this-machine"].jobs.started.values()) == {1}
        seqs = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1))
