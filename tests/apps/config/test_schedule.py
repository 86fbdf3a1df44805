"""The leader runs periodic tasks that have work, and asks about all of them in one statement."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from config.leader import HeldLeases, Schedule
from core import clock, leases, tasks
from core.models import Lease
from tests.factories.scheduler import NOON, enqueue

ASKED = {name for name, task in tasks.registered().items() if task.find_work is not None}


@pytest.fixture
def held(db) -> HeldLeases:
    """The leases of a leader, taken at second 0."""
    taken = HeldLeases("test")
    taken.take(0.0)
    return taken


@pytest.fixture
def schedule(held) -> Schedule:
    """A schedule that has run everything once, at second 0."""
    made = Schedule(held)
    made.take_due(0.0)
    return made


def names(due) -> set[str]:
    return {task.name for task in due}


def test_at_first_every_periodic_task_is_run(held):
    every = {name for name, task in tasks.registered().items() if task.every_s}

    assert names(Schedule(held).take_due(0.0)) == every
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

    assert (runs, most) == (Counter(ASKED - {"compute.observe"}), 6)


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


def test_the_question_renews_the_leases_too_and_knows_all_the_same_what_has_work(held, schedule, project):
    with clock.frozen_at(NOON) as move, CaptureQueriesContext(connection) as asked:
        for second in range(1, 31):
            move(NOON + timedelta(seconds=second))
            held.take(float(second))
            schedule.take_due(float(second))
            assert all(row.is_leased_at(clock.now() + timedelta(seconds=4)) for row in Lease.objects.all())
        enqueue(project, "waits")
        due = [schedule.take_due(30.0 + second) for second in range(1, 6)]

    renewals = [query for query in asked if query["sql"].startswith("UPDATE")]
    assert len(renewals) == 8
    assert all("scheduler.cycle" in names(tasks_due) for tasks_due in due)


def test_who_has_lost_a_lease_is_told_what_has_work_and_leads_no_more(held, schedule, project):
    enqueue(project, "waits")
    Lease.objects.filter(pk="leader").update(lease_token="another")

    due = schedule.take_due(4.5)
    held.take(4.75)

    assert "scheduler.cycle" in names(due)
    assert (held.is_leader, held.has_host) == (False, True)


def test_a_standby_asks_twice_each_few_seconds(held):
    standby = HeldLeases("standby")

    with CaptureQueriesContext(connection) as asked:
        for step in range(1, 40):
            standby.take(0.25 * step)

    assert (standby.is_leader, standby.has_host) == (False, False)
    assert len(asked) == 6


def test_who_does_not_lead_runs_only_what_belongs_to_a_host(db):
    on_each_host = {name for name, task in tasks.registered().items() if task.on_each_host}
    leases.take_named("leader", holder="another", for_s=60)
    held = HeldLeases("test")
    held.take(0.0)

    assert (held.is_leader, held.has_host) == (False, True)
    assert names(Schedule(held).take_due(0.0)) == on_each_host
    assert {"compute.launch", "compute.observe", "datasets.reap", "flows.advance"} <= on_each_host
    assert on_each_host.isdisjoint({"scheduler.cycle", "datasets.collect_packs", "datasets.evict_idle"})
