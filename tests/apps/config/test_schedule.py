"""The leader runs periodic tasks that have work, and asks about all of them in one statement."""

from collections import Counter
from itertools import pairwise

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from config.leader import Schedule
from core import leases, tasks
from tests.factories.scheduler import enqueue

ASKED = {name for name, task in tasks.registered().items() if task.find_work is not None}


@pytest.fixture
def schedule(db) -> Schedule:
    """A schedule that has run everything once, at second 0."""
    leases.take_named("leader", holder="test", for_s=60)
    made = Schedule()
    made.take_due(0.0)
    return made


def names(due) -> set[str]:
    return {task.name for task in due}


def test_at_first_every_periodic_task_is_run(db):
    every = {name for name, task in tasks.registered().items() if task.every_s}

    assert names(Schedule().take_due(0.0)) == every
    assert {"flows.advance", "scheduler.cycle", "compute.observe"} <= ASKED


def test_without_work_none_of_them_is_run_and_the_database_is_asked_once(schedule):
    with CaptureQueriesContext(connection) as asked:
        due = schedule.take_due(1.0)

    assert names(due) & ASKED == set()
    assert len(asked) == 1


def test_the_database_is_asked_once_a_second_whatever_the_periods_are(schedule):
    with CaptureQueriesContext(connection) as asked:
        for step in range(1, 41):
            schedule.take_due(0.26 * step)

    assert len(asked) == 10


def test_a_task_with_work_is_run(schedule, project):
    enqueue(project, "waits")

    assert names(schedule.take_due(1.0)) & ASKED == {"scheduler.cycle"}


def test_in_ten_minutes_each_task_is_run_whether_it_has_work_or_not_and_few_of_them_in_any_minute(schedule):
    runs = Counter()
    most = 0
    for minute in range(10):
        due = [task for second in range(1, 61) for task in schedule.take_due(60.0 * minute + second)]
        at_rest = [task.name for task in due if task.name in ASKED - {"compute.observe"}]
        most = max(most, len(at_rest))
        runs.update(at_rest)

    assert (runs, most) == (Counter(ASKED - {"compute.observe"}), 5)


def test_resources_are_observed_once_a_minute_also_where_no_job_is_known(schedule):
    seconds = [second for second in range(1, 181) if "compute.observe" in names(schedule.take_due(float(second)))]

    assert len(seconds) in {3, 4}
    assert all(later - earlier <= 60 for earlier, later in pairwise([0, *seconds]))


def test_while_the_database_is_away_nothing_is_run_and_nothing_is_forgotten(schedule, project):
    enqueue(project, "waits")

    def be_away(execute, sql, params, many, context):
        raise OperationalError("the database is restarting")

    with connection.execute_wrapper(be_away):
        away = schedule.take_due(1.0)

    assert (away, "scheduler.cycle" in names(schedule.take_due(1.25))) == ([], True)


def test_who_does_not_lead_runs_only_what_belongs_to_a_host(db):
    on_each_host = {name for name, task in tasks.registered().items() if task.on_each_host}

    assert names(Schedule().take_due(0.0, is_leader=False)) == on_each_host
    assert {"compute.launch", "compute.observe", "datasets.reap", "flows.advance"} <= on_each_host
    assert on_each_host.isdisjoint({"scheduler.cycle", "datasets.collect_packs", "datasets.evict_idle"})
