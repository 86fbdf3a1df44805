"""Departments, limits and rules of queues: set by admins, and what the next cycle does with them."""

from datetime import timedelta

import pytest

from accounts.services import projects
from scheduler.engine.snapshot import NEARLINE
from scheduler.engine.states import WorkloadState
from scheduler.errors import InvalidQuota, QueueNotFound
from scheduler.models import DEFAULT_POOL_ID, Pool, Queue, Workload
from scheduler.selectors.workloads import list_overdue
from scheduler.services import pool_members, queues, resource_nodes
from scheduler.services.resource_nodes import NodeReport
from scheduler.workers import cycle
from scheduler.workers.cycle import SessionCache
from tests.factories.api import call
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


@pytest.fixture
def teams(project, site_admin):
    pool_members.ensure_queue(project_id=project.pk)
    return [project, projects.create_project(actor=site_admin, name="team-b")]


def rule(site_admin, team, **changes) -> None:
    queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=team), **changes)


def states() -> dict[str, str]:
    return dict(Workload.objects.values_list("name", "state"))


def test_interactive_work_is_stopped_for_good_once_it_has_run_for_as_long_as_it_may(teams, site_admin, move):
    report_nodes(report("n1", 4))
    rule(site_admin, teams[0], gpu_quota_milli=2000, interactive_run_at_most_s=3600)
    enqueue(teams[0], "notebook", gpus=1, is_preemptible=False)
    enqueue(teams[0], "training", gpus=1)
    cycle.run_once(only_if_waiting=False)

    move(NOON + timedelta(seconds=3599))
    cycle.run_once(only_if_waiting=False)
    assert states() == {"notebook": "placed", "training": "placed"}

    move(NOON + timedelta(seconds=3600))
    cycle.run_once(only_if_waiting=False)

    assert states() == {"notebook": "leaving", "training": "placed"}
    stopped = Workload.objects.get(name="notebook")
    assert stopped.reason == "The limit of 1 h for interactive work of team-a is reached: it has run for 1 h."
    assert list_overdue() == {stopped.pk: "time_limit"}


def test_a_time_limit_of_a_department_holds_for_its_projects_without_one(teams, site_admin, move):
    report_nodes(report("n1", 4))
    department = Queue.objects.create(pool_id=DEFAULT_POOL_ID, name="research", training_run_at_most_s=60)
    for team in teams:
        rule(site_admin, team, department="research")
    rule(site_admin, teams[1], training_run_at_most_s=600)
    enqueue(teams[0], "a", gpus=1)
    enqueue(teams[1], "b", gpus=1)
    cycle.run_once(only_if_waiting=False)

    move(NOON + timedelta(seconds=60))
    cycle.run_once(only_if_waiting=False)

    assert department.children.count() == 2
    assert states() == {"a": "leaving", "b": "placed"}


def test_training_goes_only_to_nodes_with_a_label_that_the_project_rules(teams, site_admin, move):
    gpus = report("n1", 1).gpus
    resource_nodes.report_nodes(
        resource_id="res_lab",
        resource_name="lab",
        is_simulated=True,
        nodes=[
            NodeReport("n1", 8000, 2**35, gpus, labels={"type": "v100"}),
            NodeReport("n2", 8000, 2**35, gpus, labels={"type": "a100"}),
        ],
    )
    rule(site_admin, teams[0], training_node_labels=["type=a100"])
    enqueue(teams[0], "first", "second", gpus=1)

    cycle.run_once()

    assert states() == {"first": "placed", "second": "pending"}
    assert Workload.objects.get(name="first").placements.get().node.name == "n2"


def test_work_is_not_reclaimed_before_it_has_run_for_the_minimum(teams, site_admin, move):
    owner, borrower = teams
    report_nodes(report("n1", 2))
    rule(site_admin, owner, gpu_quota_milli=2000)
    rule(site_admin, borrower, reclaim_min_runtime_s=300)
    enqueue(borrower, "b1", "b2", gpus=1)
    cycle.run_once()
    enqueue(owner, "a1", "a2", gpus=1)

    move(NOON + timedelta(seconds=299))
    cycle.run_once()
    assert set(states().values()) == {"placed", "pending"}

    move(NOON + timedelta(seconds=300))
    cycle.run_once()

    assert states() == {"b1": "leaving", "b2": "leaving", "a1": "pending", "a2": "pending"}


def test_an_unchanged_cycle_decides_nothing_while_work_runs_under_a_time_limit(teams, site_admin, move):
    report_nodes(report("n1", 2))
    rule(site_admin, teams[0], training_run_at_most_s=3600)
    enqueue(teams[0], "a", gpus=2)
    enqueue(teams[0], "b", gpus=1)
    sessions = SessionCache()
    cycle.run_once()
    with sessions.read(NEARLINE):
        pass

    move(NOON + timedelta(seconds=30))
    with sessions.read(NEARLINE) as inputs:
        assert not any(cycle_input.has_changes for cycle_input in inputs.values())


@pytest.mark.parametrize(
    "change",
    [
        {"training_node_labels": ["a100"]},
        {"gpu_limit_milli": -1},
        {"training_run_at_most_s": -5},
        {"training_idle_at_most_s": 59},
        {"interactive_idle_at_most_s": 2**40},
        {"interactive_idle_at_most_s": float("nan")},
        {"pool_rank": 0},
        {"pool_rank": 101},
        {"pool_rank": 1.5},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_and_nothing_changes(teams, site_admin, change):
    before = Queue.objects.filter(project=teams[0]).values().get()

    with pytest.raises(InvalidQuota):
        rule(site_admin, teams[0], **change)

    assert Queue.objects.filter(project=teams[0]).values().get() == before


def test_a_department_that_there_is_not_is_refused_and_nothing_changes(teams, site_admin):
    with pytest.raises(QueueNotFound, match="no department called 'nobody'"):
        rule(site_admin, teams[0], department="nobody")

    assert Queue.objects.get(project=teams[0]).parent is None


def test_a_department_has_no_place_in_an_order_of_pools(site_admin):
    pool_members.ensure_default_pool()
    pool = Pool.objects.get()

    with pytest.raises(InvalidQuota, match="A department takes no jobs"):
        queues.create_department(actor=site_admin, pool=pool, name="lab", pool_rank=1)

    assert not Queue.objects.exists()


def test_a_department_cannot_be_above_itself(teams, site_admin):
    call(site_admin, "POST", "/scheduler/departments", {"name": "research"})
    call(site_admin, "POST", "/scheduler/departments", {"name": "vision", "department": "research"})
    change = {"queue": "research", "is_department": True, "department": "vision"}

    assert call(site_admin, "PATCH", "/scheduler/queues", {"changes": [change]}).status == 400

    assert Queue.objects.get(name="research").parent is None


def test_an_admin_makes_a_department_and_puts_projects_below_it(teams, site_admin, member, make_actor):
    department = {"name": "research", "gpu_quota_milli": 4000, "gpu_limit_milli": 8000}
    assert call(site_admin, "POST", "/scheduler/departments", department).status == 201
    changes = [
        {"queue": "team-a", "department": "research", "gpu_quota_milli": 3000},
        {"queue": "team-b", "department": "research", "gpu_quota_milli": 1000},
    ]

    assert call(site_admin, "PATCH", "/scheduler/queues", {"changes": changes}).body["items"] == [
        {"queue": "team-a", "gpu_quota_milli": 3000},
        {"queue": "team-b", "gpu_quota_milli": 1000},
    ]

    (listed,) = call(member, "GET", "/scheduler/departments").body["items"]
    assert (listed["name"], listed["gpu_quota_milli"], listed["gpu_limit_milli"]) == ("research", 4000, 8000)
    assert call(make_actor(None), "GET", "/scheduler/departments").body["items"] == []
    assert call(member, "GET", "/scheduler/queues").body["items"][0]["department"] == "research"


def test_projects_of_a_deleted_department_are_below_the_one_above_it(teams, site_admin):
    call(site_admin, "POST", "/scheduler/departments", {"name": "research"})
    call(site_admin, "POST", "/scheduler/departments", {"name": "vision", "department": "research"})
    rule(site_admin, teams[0], department="vision")

    assert call(site_admin, "DELETE", "/scheduler/departments/vision").status == 204

    assert Queue.objects.get(project=teams[0]).parent.name == "research"


def test_of_several_changes_none_is_made_where_one_makes_no_sense(teams, site_admin):
    changes = [{"queue": "team-a", "gpu_quota_milli": 3000}, {"queue": "team-b", "department": "nobody"}]

    assert call(site_admin, "PATCH", "/scheduler/queues", {"changes": changes}).status == 404

    assert set(Queue.objects.values_list("gpu_quota_milli", flat=True)) == {0}
    assert WorkloadState.PENDING not in states().values()
