"""Quotas and fair shares are per pool: what happens in one does not change what is fair in another."""

import pytest

from accounts.errors import PermissionDenied
from accounts.services import projects
from scheduler.errors import InvalidPool
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, PoolResource, Queue, Workload
from scheduler.selectors.queues import list_queues
from scheduler.services import pools, queues, workloads
from scheduler.workers import cycle
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


@pytest.fixture
def teams(project, site_admin):
    """Return two projects with a quota of one GPU each."""
    teams = [project, projects.create_project(actor=site_admin, name="team-b")]
    for team in teams:
        queues.ensure_queue(project_id=team.pk)
    for queue in Queue.objects.all():
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=1000)
    return teams


def running(team) -> int:
    return Workload.objects.filter(project=team, state="placed").count()


def run_cycles() -> None:
    while cycle.run_once().placed or workloads.requeue_many(workloads.list_terminating()):
        pass


def test_a_second_idle_resource_in_a_pool_of_its_own_leaves_shares_as_they_are(teams, site_admin):
    first, second = teams
    report_nodes(report("n1", 2), report("n2", 2))
    pools.create_pool(actor=site_admin, name="cloud", resource_ids=["res_cloud"])
    report_nodes(report("c1", 8), report("c2", 8), resource="res_cloud")
    enqueue(first, "a1", "a2", "a3", "a4", gpus=1)
    run_cycles()
    assert running(first) == 4

    enqueue(second, "b1", "b2", "b3", "b4", gpus=1)
    run_cycles()

    assert (running(first), running(second)) == (2, 2)


def test_a_project_gets_its_share_of_each_pool(teams, site_admin):
    first, second = teams
    pools.create_pool(actor=site_admin, name="cloud", resource_ids=["res_cloud"])
    report_nodes(report("n1", 2))
    report_nodes(report("c1", 4), resource="res_cloud")
    enqueue(first, "a1", "a2", gpus=1)
    enqueue(first, "ca1", "ca2", "ca3", "ca4", gpus=1, resource="res_cloud")
    run_cycles()

    enqueue(second, "cb1", "cb2", gpus=1, resource="res_cloud")
    run_cycles()

    held = Workload.objects.filter(state="placed").values_list("resource_id", "project__name").order_by("resource_id")
    assert sorted(held) == [
        ("res_cloud", "team-a"), ("res_cloud", "team-a"), ("res_cloud", "team-b"), ("res_cloud", "team-b"),
        ("res_lab", "team-a"), ("res_lab", "team-a"),
    ]  # fmt: skip


def test_nodes_and_queues_are_in_the_default_pool_unless_their_resource_is_in_another(teams, site_admin):
    report_nodes(report("n1", 1))
    report_nodes(report("c1", 1), resource="res_cloud")

    cloud = pools.create_pool(actor=site_admin, name="cloud", resource_ids=["res_cloud"])
    enqueue(teams[0], "job", gpus=1, resource="res_cloud")

    assert dict(Node.objects.values_list("name", "pool_id")) == {"n1": DEFAULT_POOL_ID, "c1": cloud.pk}
    assert Workload.objects.get().queue.pool_id == cloud.pk
    assert sorted(queue.label for queue in list_queues(actor=site_admin)) == ["team-a", "team-b"]


def test_a_limit_of_a_department_bounds_the_projects_below_it(teams, site_admin):
    report_nodes(report("n1", 4))
    department = Queue.objects.create(pool_id=DEFAULT_POOL_ID, name="research", gpu_limit_milli=3000)
    Queue.objects.filter(project__in=teams).update(parent=department)
    enqueue(teams[0], "a1", "a2", gpus=1)
    enqueue(teams[1], "b1", "b2", gpus=1)

    run_cycles()

    assert running(teams[0]) + running(teams[1]) == 3
    reason = Workload.objects.get(state="pending").reason
    assert reason == "its project is at its limit: needs 1 GPU but of research's limit of 3 GPUs its work holds 3 GPUs"


def test_a_pool_is_made_by_site_admins_only(teams, make_actor):
    member = make_actor()

    with pytest.raises(PermissionDenied):
        pools.create_pool(actor=member, name="cloud", resource_ids=["res_cloud"])

    assert list(Pool.objects.values_list("pk", flat=True)) == [DEFAULT_POOL_ID]


@pytest.mark.parametrize(("name", "resource"), [("default", "res_cloud"), ("", "res_cloud"), ("cloud", "res_lab")])
def test_a_pool_with_a_taken_name_or_with_resources_at_work_is_refused(teams, site_admin, name, resource):
    report_nodes(report("n1", 1))
    enqueue(teams[0], "job", gpus=1)

    with pytest.raises(InvalidPool):
        pools.create_pool(actor=site_admin, name=name, resource_ids=[resource])

    assert list(Pool.objects.values_list("name", flat=True)) == ["default"]
    assert not PoolResource.objects.exists()
