"""Quotas and fair shares are per pool: what happens in one does not change what is fair in another."""

import pytest

from accounts.errors import PermissionDenied
from accounts.services import projects
from scheduler.errors import InvalidPool, PoolHasWork
from scheduler.models import DEFAULT_POOL_ID, Node, Pool, PoolResource, Queue, Workload
from scheduler.selectors.queues import list_queues
from scheduler.services import pool_members, pools, queues, resource_nodes, workloads
from scheduler.workers import cycle, strays
from tests.factories.scheduler import enqueue, report, report_nodes, run_cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


@pytest.fixture
def teams(project, site_admin):
    """Return two projects with a quota of one GPU each."""
    teams = [project, projects.create_project(actor=site_admin, name="team-b")]
    for team in teams:
        pool_members.ensure_queue(project_id=team.pk)
    for queue in Queue.objects.all():
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=1000)
    return teams


def running(team) -> int:
    return Workload.objects.filter(project=team, state="placed").count()


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

    farm = pools.create_pool(actor=site_admin, name="farm", resource_ids=["res_cloud"])
    enqueue(teams[0], "job", gpus=1, resource="res_cloud")

    assert dict(Node.objects.values_list("name", "pool_id")) == {"n1": DEFAULT_POOL_ID, "c1": farm.pk}
    assert Workload.objects.get().queue.pool_id == farm.pk
    assert sorted(queue.label for queue in list_queues(actor=site_admin)) == ["team-a", "team-b"]


def test_a_limit_of_a_department_bounds_the_projects_below_it(teams, site_admin):
    report_nodes(report("n1", 4))
    department = Queue.objects.create(pool_id=DEFAULT_POOL_ID, name="research", gpu_limit_milli=3000)
    Queue.objects.filter(project__in=teams).update(parent=department)
    enqueue(teams[0], "a1", "a2", gpus=1)
    enqueue(teams[1], "b1", "b2", gpus=1)

    run_cycles()

    assert running(teams[0]) + running(teams[1]) == 3
    reason = Workload.objects.get(state="pending").why
    assert (
        reason
        == "its project is at its limit: it needs 1 GPU, the limit of research is 3 GPUs, and its jobs hold 3 GPUs"
    )


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
    assert pools_of_resources() == {"res_lab": "default"}


def attach_cloud(gpus: int = 16) -> None:
    report_nodes(*[report(f"c{n}", 8) for n in range(gpus // 8)], resource="res_cloud")


def test_a_second_resource_leaves_shares_as_they_are_without_a_word_about_pools(teams):
    first, second = teams
    report_nodes(report("n1", 2), report("n2", 2))
    attach_cloud()
    enqueue(first, "a1", "a2", "a3", "a4", gpus=1)
    run_cycles()
    assert running(first) == 4

    enqueue(second, "b1", "b2", "b3", "b4", gpus=1)
    run_cycles()

    assert (running(first), running(second)) == (2, 2)


def test_an_owner_gets_a_pool_back_from_a_project_without_quota_beside_a_second_resource(teams, site_admin):
    owner, other = teams
    attach_cloud()
    report_nodes(report("n1", 4))
    set_quota_in("lab", owner, 4000, site_admin)
    set_quota_in("default", owner, 0, site_admin)
    set_quota_in("default", other, 0, site_admin)
    enqueue(other, "b1", "b2", "b3", "b4", gpus=1)
    run_cycles()

    enqueue(owner, "a1", "a2", "a3", "a4", gpus=1)
    run_cycles()

    assert (running(owner), running(other)) == (4, 0)


def set_quota_in(pool: str, project, gpu_quota_milli: int, site_admin) -> None:
    queue = Queue.objects.get(pool__name=pool, project=project)
    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=gpu_quota_milli)


def test_a_resource_without_a_template_raises_no_share(teams):
    report_nodes(report("n1", 2), report("n2", 2))
    before = enqueue(teams[0], "a1", "a2", "a3", "a4", "a5", "a6", gpus=1)
    shares = cycle.fair_shares(DEFAULT_POOL_ID)
    attach_cloud()

    assert len(before) == 6
    assert cycle.fair_shares(DEFAULT_POOL_ID) == shares


def test_the_shares_of_one_pool_leave_out_the_others(teams):
    report_nodes(report("n1", 2))
    attach_cloud()
    enqueue(teams[0], "a1", "a2", gpus=1)
    enqueue(teams[1], "b1", gpus=1, resource="res_cloud")

    shares = cycle.fair_shares(DEFAULT_POOL_ID)

    here = dict(Queue.objects.filter(pool=DEFAULT_POOL_ID).values_list("project__name", "pk"))
    assert shares == {here["team-a"]: 2000, here["team-b"]: 0}


def pools_of_resources() -> dict[str, str]:
    return dict(PoolResource.objects.values_list("resource_id", "pool__name"))


def test_the_first_resource_with_gpus_is_in_the_default_pool_and_each_further_one_in_its_own(teams):
    report_nodes(report("machine"), resource="res_machine")
    report_nodes(report("n1", 2))
    attach_cloud()
    report_nodes(report("x1", 1), resource="res_x")

    assert pools_of_resources() == {"res_lab": "default", "res_cloud": "cloud", "res_x": "x"}
    assert dict(Node.objects.values_list("name", "pool__name")) == {
        "machine": "default", "n1": "default", "c0": "cloud", "c1": "cloud", "x1": "x",
    }  # fmt: skip


def test_a_resource_whose_first_gpu_appears_late_moves_into_its_pool_with_its_nodes_and_its_work(teams):
    report_nodes(report("n1", 2))
    report_nodes(report("c1"), resource="res_cloud")
    (job,) = enqueue(teams[0], "job", gpus=1, resource="res_cloud")

    report_nodes(report("c1"), report("c2", 1), resource="res_cloud")
    cycle.run_once()

    job.refresh_from_db()
    assert (job.state, job.queue.pool.name) == ("placed", "cloud")
    assert set(Node.objects.filter(resource_id="res_cloud").values_list("pool__name", flat=True)) == {"cloud"}


def test_a_resource_attached_again_under_its_name_finds_its_pool_with_the_quotas(teams, site_admin):
    report_nodes(report("n1", 2))
    report_nodes(report("c1", 2), resource="res_cloud")
    set_quota_in("cloud", teams[0], 2000, site_admin)
    report_nodes(resource="res_cloud")

    resource_nodes.report_nodes(
        resource_id="res_new", resource_name="cloud", is_simulated=True, nodes=[report("c1", 2)]
    )

    assert Queue.objects.get(pool=Node.objects.get(name="c1").pool, project=teams[0]).gpu_quota_milli == 2000


def test_every_project_has_a_queue_in_every_pool(teams, site_admin):
    report_nodes(report("n1", 2))
    attach_cloud()

    projects.create_project(actor=site_admin, name="team-c")

    for pool in Pool.objects.all():
        assert sorted(queue.label for queue in pool.queues.all()) == ["team-a", "team-b", "team-c"]


def test_work_that_runs_and_waits_moves_with_its_resource_after_it_was_said_what_happens(teams, site_admin):
    report_nodes(report("n1", 2))
    enqueue(teams[0], "a1", gpus=1)
    enqueue(teams[1], "firm", gpus=2, is_preemptible=False)
    cycle.run_once()
    pool = pools.create_pool(actor=site_admin, name="mine", resource_ids=[])

    with pytest.raises(PoolHasWork) as refusal:
        pools.move_resources(actor=site_admin, pool=pool, resource_ids=["res_lab"])
    assert refusal.value.message == (
        "There is work on these resources. 1 job runs on, with 1 GPU. "
        "Beyond the quotas of the new pool, preemptible work can be evicted. 1 job waits in the new pool, no later in line. "
        "1 of them must not be preempted: they start once their project has a quota there."
    )
    assert set(Workload.objects.values_list("queue__pool__name", flat=True)) == {"default"}

    pools.move_resources(actor=site_admin, pool=pool, resource_ids=["res_lab"], moves_work=True)
    set_quota_in("mine", teams[1], 2000, site_admin)
    run_cycles()

    assert set(Workload.objects.values_list("queue__pool__name", flat=True)) == {"mine"}
    assert (running(teams[0]), running(teams[1])) == (0, 1)


def test_work_enqueued_while_its_resource_moved_follows_it(teams, site_admin):
    report_nodes(report("n1", 2))
    pools.create_pool(actor=site_admin, name="mine", resource_ids=["res_lab"])
    (job,) = enqueue(teams[0], "late", gpus=1)
    Workload.objects.update(queue=Queue.objects.get(pool=DEFAULT_POOL_ID, project=teams[0]))

    strays.requeue_strays()
    cycle.run_once()

    job.refresh_from_db()
    assert (job.state, job.queue.pool.name) == ("placed", "mine")


def test_an_empty_pool_is_deleted_and_the_history_of_its_work_stays(teams, site_admin):
    report_nodes(report("n1", 2))
    attach_cloud()
    (job,) = enqueue(teams[0], "old", resource="res_cloud")
    cloud = Pool.objects.get(name="cloud")
    with pytest.raises(InvalidPool, match=r"^Not empty: the pool 'cloud' has 2 nodes and 1 live job\.$"):
        pools.delete_pool(actor=site_admin, pool=cloud)
    workloads.release_many([job.pk])
    report_nodes(resource="res_cloud")

    pools.delete_pool(actor=site_admin, pool=cloud)

    assert list(Pool.objects.values_list("name", flat=True)) == ["default"]
    assert Workload.objects.get(pk=job.pk).queue.pool_id == DEFAULT_POOL_ID


def test_the_default_pool_stays(teams, site_admin):
    with pytest.raises(InvalidPool):
        pools.delete_pool(actor=site_admin, pool=Pool.objects.get(pk=DEFAULT_POOL_ID))

    assert Pool.objects.count() == 1
