"""What an idle installation asks of its database: in no minute more than 1.75 statements a second."""

from datetime import timedelta

from django.db import connection

from config.leader import HeldLeases, Schedule
from core import clock, tasks
from tests.factories.flows import World
from tests.factories.scheduler import NOON

MOST_A_MINUTE = 105
_FLOW = "flow: one\nsteps:\n  - name: only\n    command: 'true'\n    compute: [this-machine.small]\n"


class Statements:
    """Counts statements by the task that they belong to, but those that begin or end a transaction."""

    def __init__(self) -> None:
        self.by_task: dict[str, int] = {}
        self.task = ""

    def __call__(self, execute, sql, params, many, context):
        if not sql.startswith(("BEGIN", "SAVEPOINT", "RELEASE")):
            self.by_task[self.task] = self.by_task.get(self.task, 0) + 1
        return execute(sql, params, many, context)


def pass_minute(held: HeldLeases, schedule: Schedule, minute: int, move) -> dict[str, int]:
    """Do what a leader does in a minute; return how many statements each task took."""
    statements = Statements()
    with connection.execute_wrapper(statements):
        for second in range(60 * minute + 1, 60 * minute + 61):
            move(NOON + timedelta(seconds=second))
            statements.task = "leases"
            held.take(float(second))
            assert held.is_leader
            assert held.has_host
            statements.task = "questions"
            for task in schedule.take_due(float(second)):
                statements.task = task.name
                tasks.run(task.name, {})
    return statements.by_task


def test_no_idle_minute_takes_more_than_105_statements(db, tmp_path, project, member):
    world = World(tmp_path)
    run = world.start(member, project, _FLOW)
    world.finish_all(run)
    held = HeldLeases("test")
    with clock.frozen_at(NOON) as move:
        held.take(0.0)
        schedule = Schedule(held)
        for task in schedule.take_due(0.0):
            tasks.run(task.name, {})
        minutes = [pass_minute(held, schedule, minute, move) for minute in range(16)]

    worst = max(minutes, key=lambda counts: sum(counts.values()))
    assert worst["questions"] == 60
    assert "leases" not in worst
    assert sum(worst.values()) <= MOST_A_MINUTE, worst
