"""Periodic work and lists cost the same however much has ended: what is over is read again by nobody but who asks."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count

import pytest
from django.db import connection

from accounts.models import User
from compute.models import Job
from compute.workers import launches, logs
from core import clock, tasks
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit, CacheSite
from flows.models import Run
from tests.factories.datasets import commit_files, make_dataset
from tests.factories.flows import World
from tests.factories.history import copy_run

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite counts the steps of its statements")

# What looks at the recent past by design, in bounded pieces.
_LEARNS = {"compute.forecast", "scheduler.learn_packing"}
# Not the page of jobs, which counts them in an index, nor that of quotas, which draws what ended lately.
LISTS = [
    "/api/v1/runs",
    "/api/v1/runs?project={project}",
    "/api/v1/flows?project={project}",
    "/api/v1/compute/jobs",
    "/api/v1/compute/jobs?project={project}",
    "/api/v1/compute/jobs?project={project}&state=failed",
    "/api/v1/experiments?project={project}",
    "/api/v1/scheduler/queues",
    "/",
    "/flows/",
    "/flows/{project}/two/",
    "/experiments/",
    "/compute/",
    "/activity/",
]
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


@pytest.fixture
def costs_of_all() -> Callable[[], dict[str, int]]:
    """Return the steps of SQLite's machine that each periodic task takes, each time ten seconds later, of one hour."""
    names = sorted(name for name, task in tasks.registered().items() if task.every_s)
    start, turns = clock.now().replace(minute=0, second=0) + timedelta(hours=1), count(1)

    def measure() -> dict[str, int]:
        with clock.frozen_at(start + timedelta(seconds=10 * next(turns))):
            tasks.run("scheduler.end_overdue", {})  # takes in what was added
            return {name: steps_of(partial(tasks.run, name, {})) for name in names if name not in _LEARNS}

    return measure


@pytest.mark.usefixtures("db")
def test_no_periodic_task_reads_more_because_more_runs_have_ended(tmp_path, project, member, monkeypatch, costs_of_all):
    monkeypatch.setattr(launches, "LEASE", timedelta(hours=3))  # none is renewed
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


def test_no_periodic_task_reads_more_because_more_cached_commits_are_gone(tmp_path, project, member, db, costs_of_all):
    World(tmp_path)
    commit = commit_files(member, make_dataset(member, project), {"a": b"one"})
    config = {"size_bytes": 10**9, "rate_bytes_s": 10**6}
    site = CacheSite.objects.create(
        name="near", kind="simulated", root="simulated://near", capacity_bytes=10**9, config=config
    )

    def add_gone(count: int) -> None:
        sizes = {"files_total": 1, "bytes_total": 3, "reserved_bytes": 3}
        for _ in range(count):
            CachedCommit.objects.create(
                site=site, dataset=commit.dataset, commit=commit, state=CacheState.GONE, **sizes
            )

    add_gone(10)
    for _ in range(3):
        costs_of_all()

    few = costs_of_all()
    add_gone(100)
    many = costs_of_all()

    assert {name: (few[name], many[name]) for name in few if few[name] != many[name]} == {}


def test_storing_a_log_reads_no_more_because_more_runs_have_ended(tmp_path, project, member, db):
    world = World(tmp_path)
    over = world.start(member, project, _FLOW)
    world.finish_all(over)
    over.refresh_from_db()
    cost_of_storing(over)
    copy_run(over, 100)

    few = cost_of_storing(over)
    copy_run(over, 1000)
    many = cost_of_storing(over)

    assert many == few


def test_no_list_reads_more_because_more_runs_have_ended(tmp_path, project, member, db, client):
    world = World(tmp_path)
    over = world.start(member, project, _FLOW)
    world.finish_all(over)
    over.refresh_from_db()
    client.force_login(User.objects.get(pk=member.user_id))
    paths = [path.format(project=project.name) for path in LISTS]
    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
    copy_run(over, 200)

    few = {path: steps_of(partial(client.get, path)) for path in paths}
    copy_run(over, 1000)
    many = {path: steps_of(partial(client.get, path)) for path in paths}

    assert {path: (few[path], many[path]) for path in paths if many[path] > few[path] * 1.1} == {}


def cost_of_storing(run: Run) -> int:
    """Return the steps that it takes to store the logs of the jobs of a run that has ended."""
    Job.objects.filter(attempt__run=run).update(log_stored_at=None)
    steps = steps_of(logs.store_logs)
    assert not Job.objects.filter(log_stored_at=None).exists()
    return steps


def steps_of(work: Callable[[], object]) -> int:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.ensure_connection()
    connection.connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.connection.set_progress_handler(None, 1)
    return steps
