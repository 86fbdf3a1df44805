"""A change of quotas that is tried: what it would do is what the next cycle then does, and trying does nothing."""

import random
from datetime import timedelta

import pytest

from accounts.errors import PermissionDenied
from accounts.services import projects
from core import clock
from scheduler.models import DEFAULT_POOL_ID, Placement, Pool, Queue, Reservation, Workload
from scheduler.services import pool_members, queues
from scheduler.workers import cycle, trials
from tests.factories.api import call
from tests.factories.scheduler import enqueue, report, report_nodes, run_cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


@pytest.fixture
def teams(project, site_admin):
    pool_members.ensure_queue(project_id=project.pk)
    return [project, *(projects.create_project(actor=site_admin, name=name) for name in ("team-b", "team-c"))]


def stored() -> tuple:
    """Return all that a trial must leave alone."""
    return tuple(list(model.objects.order_by("pk").values()) for model in (Queue, Workload, Placement))


def test_a_change_shows_sums_gains_and_who_would_be_stopped_in_which_order(teams, site_admin):
    first, second, _ = teams
    report_nodes(report("n1", 4))
    enqueue(first, "a1", "a2", "a3", "a4", gpus=1)
    run_cycles()
    enqueue(second, "b1", "b2", "b3", "b4", gpus=1)
    before = stored()

    change = {"queue": "team-b", "gpu_quota_milli": 6000}
    status, trial = call(site_admin, "POST", "/scheduler/quota-trials", {"changes": [change]})

    assert (status, trial["sum_text"]) == (200, "The quotas add up to 6 of 4 GPUs: over by 2.")
    assert {queue["name"]: (queue["fair_before_milli"], queue["gain_milli"]) for queue in trial["queues"]} == {
        "team-a": (2000, -2000),
        "team-b": (2000, 2000),
        "team-c": (0, 0),
    }
    assert [(job["name"], job["queue"], job["gpu_milli"], job["is_anyway"]) for job in trial["stops"]] == [
        ("a4", "team-a", 1000, True),
        ("a3", "team-a", 1000, True),
        ("a2", "team-a", 1000, False),
        ("a1", "team-a", 1000, False),
    ]
    assert [(job["name"], job["is_after_stops"], job["is_anyway"]) for job in trial["starts"]] == [
        ("b1", True, True),
        ("b2", True, True),
        ("b3", True, False),
        ("b4", True, False),
    ]
    assert stored() == before


@pytest.mark.parametrize("seed", range(25))
def test_what_is_predicted_is_what_the_next_cycle_does(teams, site_admin, move, seed):
    dice = random.Random(seed)
    report_nodes(*[report(f"n{number}", dice.choice([2, 4, 8])) for number in range(dice.randint(1, 3))])
    department = queues.create_department(
        actor=site_admin, pool=Pool.objects.get(pk=DEFAULT_POOL_ID), name="research", gpu_quota_milli=2000
    )
    for team in teams:
        queues.set_quota(actor=site_admin, queue=_queue(team), **_some_rules(dice, department.name))
    for step in range(3):
        for team in teams:
            names = [f"{team.name}-{step}-{number}" for number in range(dice.randint(0, 4))]
            for name in names:
                enqueue(team, name, gpus=dice.choice([0.5, 1, 1, 2]), is_preemptible=dice.random() < 0.8)
        if step < 2:
            run_cycles()
        move(clock.now() + timedelta(seconds=dice.choice([1, 60, 400])))
    changes = [(_queue(team), _some_rules(dice, department.name)) for team in dice.sample(teams, dice.randint(1, 3))]
    before = stored()

    trial = trials.try_quotas(actor=site_admin, pool=department.pool, changes=changes)
    assert stored() == before
    queues.set_quotas(actor=site_admin, changes=changes)
    states = dict(Workload.objects.values_list("pk", "state"))
    reserved_before = set(Reservation.objects.values_list("workload", flat=True))
    cycle.run_once(only_if_waiting=False)

    now = dict(Workload.objects.values_list("pk", "state"))
    assert {job.workload_id for job in trial.stops} == {
        pk for pk, state in now.items() if state == "leaving" and states[pk] != state
    }
    assert {job.workload_id for job in trial.starts if not job.is_after_stops} == {
        pk for pk, state in now.items() if state == "placed" and states[pk] != state
    }
    reserved = set(Reservation.objects.values_list("workload", flat=True)) - reserved_before
    assert {job.workload_id for job in trial.starts if job.is_after_stops} == {
        pk for pk in reserved if states[pk] == now[pk] == "pending"
    }
    assert {queue.id: queue.quota_after_milli for queue in trial.queues} == dict(
        Queue.objects.values_list("pk", "gpu_quota_milli")
    )


def _queue(team) -> Queue:
    return Queue.objects.select_related("project").get(project=team)


def _some_rules(dice: random.Random, department: str) -> queues.QueueSettings:
    rules = {
        "gpu_quota_milli": 1000 * dice.randint(0, 6),
        "over_quota_weight": dice.choice([None, 0, 1, 3]),
        "gpu_limit_milli": dice.choice([None, None, 2000, 4000]),
        "department": dice.choice([None, department]),
        "training_run_at_most_s": dice.choice([None, None, 60, 500]),
        "reclaim_min_runtime_s": dice.choice([None, 0, 300]),
    }
    return {name: rules[name] for name in dice.sample(sorted(rules), dice.randint(1, 6))}


def test_a_member_may_not_try(teams, member):
    change = {"queue": "team-a", "gpu_quota_milli": 6000}

    assert call(member, "POST", "/scheduler/quota-trials", {"changes": [change]}).status == 403
    with pytest.raises(PermissionDenied):
        trials.try_quotas(actor=member, pool=Pool.objects.get(pk=DEFAULT_POOL_ID), changes=[])


def test_a_queue_that_does_not_exist_cannot_be_tried(teams, site_admin):
    for change in ({"queue": "nobody"}, {"queue": "team-a", "is_department": True}):
        assert call(site_admin, "POST", "/scheduler/quota-trials", {"changes": [change]}).status == 404
