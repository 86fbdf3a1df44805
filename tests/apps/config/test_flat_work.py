"""Periodic work costs the same however much has ended: what is over is never read again to find what is not."""

import pytest
from django.db import connection

from compute.models import Job
from core import tasks
from experiments.models import Experiment
from flows.models import Attempt, Run, Step
from scheduler.models import Workload
from tests.factories.flows import World

pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="SQLite counts the steps of its statements; PostgreSQL cannot"
)

# What looks at the recent past by design, in bounded pieces.
_LEARNS = {"scheduler.learn_packing", "experiments.store_artifacts"}
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
    add_history(over, 10)

    few = costs_of_all()
    add_history(over, 100)
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


def add_history(run: Run, count: int) -> None:
    """Add copies of a run that has ended, with all its rows."""
    first = Run.objects.filter(flow=run.flow).count() + 1
    for number in range(first, first + count):
        steps, attempts, jobs, workloads = {}, {}, {}, {}
        new_run = copy(run, number=number)
        for row in Workload.objects.filter(job__attempt__run=run):
            workloads[row.pk] = copy(row, name=f"{row.name}-{number}")
        for row in Job.objects.filter(attempt__run=run):
            jobs[row.pk] = copy(row, name=f"{row.name}-{number}", workload=workloads[row.workload_id])
        for row in Step.objects.filter(run=run):
            steps[row.pk] = copy(row, run=new_run)
        for row in Attempt.objects.filter(run=run):
            name = f"{row.job_name}-{number}"
            attempts[row.pk] = copy(row, run=new_run, step=steps[row.step_id], job=jobs[row.job_id], job_name=name)
        for row in Experiment.objects.filter(run_id=run.pk):
            copy(row, run_id=new_run.pk, source_id=attempts[row.source_id].pk, job_id=jobs[row.job_id].pk)


def copy(row, **changes):
    fields = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if not field.generated}
    del fields["id"]
    for name, value in changes.items():
        fields.pop(f"{name}_id", None)
        fields[name] = value
    made = type(row)(**fields)
    made.save(force_insert=True)
    return made
