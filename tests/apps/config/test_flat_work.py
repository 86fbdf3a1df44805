"""Periodic work costs the same however much has ended: what is over is never read again to find what is not."""

import pytest
from django.db import connection

from core import tasks
from tests.factories.flows import World
from tests.factories.history import copy_run

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite counts the steps of its statements")

# What looks at the recent past by design, in bounded pieces.
_LEARNS = {"scheduler.learn_packing"}
_FLOW = """flow: two
steps:
  - name: first
    command: "true"
    compute: [this-machine.small]
  - name: second
    command: "true"
    after: [first]
    compute: [this-machine.small]
"""


def test_no_periodic_task_reads_more_because_more_runs_have_ended(tmp_path, project, member, db):
    world = World(tmp_path)
    over = world.start(member, project, _FLOW)
    world.finish_all(over)
    over.refresh_from_db()
    world.start(member, project, _FLOW)
    world.turn()
    for _ in range(3):
        costs_of_all()
    copy_run(over, 10)

    few = costs_of_all()
    copy_run(over, 100)
    many = costs_of_all()

    assert many == few


def costs_of_all() -> dict[str, int]:
    """Return the steps of SQLite's machine that each periodic task takes."""
    names = sorted(name for name, task in tasks.registered().items() if task.every_s)
    return {name: cost_of(name) for name in names if name not in _LEARNS}


def cost_of(name: str) -> int:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, 1)
    try:
        tasks.run(name, {})
    finally:
        connection.connection.set_progress_handler(None, 1)
    return steps
