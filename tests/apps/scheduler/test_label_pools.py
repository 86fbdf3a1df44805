"""Pools by node label: parts of one resource have quotas and fair shares of their own."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from django.db import OperationalError, connection, transaction

from accounts.errors import PermissionDenied
from accounts.services import projects
from scheduler.errors import InvalidPool, PoolHasWork
from scheduler.models import Node, Pool, PoolResource, Queue, Reservation, Workload
from scheduler.selectors.pools import view_pools
from scheduler.selectors.queues import find_queue
from scheduler.selectors.resource_pools import ResourcePools
from scheduler.selectors.snapshots import SnapshotReader
from scheduler.services import pool_members, pools, queues, resource_nodes, workloads
from scheduler.workers import apply, cycle, strays
from tests.factories.scheduler import enqueue, report, report_nodes, request, run_cycles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


def node(name: str, gpus: int = 0, **labels: str) -> resource_nodes.NodeReport:
    return replace(report(name, gpus), labels=labels)


@pytest.fixture
def teams(project, site_admin):
    """Return two projects."""
    teams = [project, projects.create_project(actor=site_admin, name="team-b")]
    for team in teams:
        pool_members.ensure_queue(project_id=team.pk)
    return teams


@pytest.fixture
def divided(teams, site_admin):
    """Let a resource have a pool of its A100 and one of its H100, four GPUs each, beside a node without GPUs."""
    report_nodes(*CLUSTER)
    for model in ("a100", "h100"):
        pools.create_pool(actor=site_admin, name=model, resource_ids=["res_lab"], label=f"gpu={model}")
    for queue in Queue.objects.exclude(pool__name="default"):
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=1000)


CLUSTER = (
    node("a1", 2, gpu="a100"),
    node("a2", 2, gpu="a100"),
    node("h1", 2, gpu="h100"),
    node("h2", 2, gpu="h100"),
    node("c1"),
)


def running(team, pool: str) -> int:
    return Workload.objects.filter(project=team, state="placed", queue__pool__name=pool).count()


def nodes_by_pool() -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for pool, name in Node.objects.values_list("pool__name", "name"):
        names.setdefault(pool, set()).add(name)
    return names


def queue_of(job: Workload) -> str:
    job.refresh_from_db()
    return job.queue.pool.name


@pytest.mark.usefixtures("divided")
def test_two_pools_of_one_resource_have_fair_shares_of_their_own(teams):
    first, second = teams
    enqueue(first, "a1", "a2", "a3", "a4", gpus=1, pool="a100")
    enqueue(first, "ah1", "ah2", "ah3", "ah4", gpus=1, pool="h100")
    run_cycles()
    assert (running(first, "a100"), running(first, "h100")) == (4, 4)

    enqueue(second, "b1", "b2", "b3", "b4", gpus=1, pool="a100")
    run_cycles()

    assert (running(first, "a100"), running(second, "a100")) == (2, 2)
    assert (running(first, "h100"), running(second, "h100")) == (4, 0)


@pytest.mark.usefixtures("divided")
def test_quotas_of_two_pools_of_one_resource_differ(teams, site_admin):
    owner, other = teams
    for pool, quota in (("a100", 4000), ("h100", 0)):
        queue = Queue.objects.get(pool__name=pool, project=owner)
        queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=quota)
    Queue.objects.filter(project=other).update(gpu_quota_milli=0)
    for pool in ("a100", "h100"):
        enqueue(other, *(f"{pool}-b{number}" for number in range(4)), gpus=1, pool=pool)
    run_cycles()

    for pool in ("a100", "h100"):
        enqueue(owner, *(f"{pool}-a{number}" for number in range(4)), gpus=1, pool=pool)
    run_cycles()

    assert [(running(owner, pool), running(other, pool)) for pool in ("a100", "h100")] == [(4, 0), (2, 2)]


@pytest.mark.usefixtures("divided")
def test_the_snapshot_of_a_pool_has_its_nodes_and_its_work_alone(teams):
    enqueue(teams[0], "on-a", gpus=1, pool="a100")
    enqueue(teams[0], "on-c")

    views = SnapshotReader().read()

    seen = {
        Pool.objects.get(pk=pool_id).name: (
            sorted(each.name for each in view.nodes),
            sorted(job.name for job in view.jobs.values()),
        )
        for pool_id, view in views.items()
    }
    assert seen == {"default": (["c1"], ["on-c"]), "a100": (["a1", "a2"], ["on-a"]), "h100": (["h1", "h2"], [])}


@pytest.mark.usefixtures("divided")
def test_a_node_that_is_labelled_otherwise_changes_pools_with_the_work_on_it(teams):
    (here, there) = enqueue(teams[0], "one", "two", gpus=2, pool="a100")
    run_cycles()
    held = {job.pk: Node.objects.get(placements__workload=job).name for job in (here, there)}
    moved = "a1"
    revision = Node.objects.get(name=moved).revision

    report_nodes(node(moved, 2, gpu="h100"), *CLUSTER[1:])

    assert nodes_by_pool() == {"default": {"c1"}, "a100": {"a2"}, "h100": {"a1", "h1", "h2"}}
    assert {held[job.pk]: queue_of(job) for job in (here, there)} == {"a1": "h100", "a2": "a100"}
    assert Node.objects.get(name=moved).revision > revision
    assert set(Workload.objects.values_list("state", flat=True)) == {"placed"}


@pytest.mark.usefixtures("divided")
def test_a_gang_keeps_its_nodes_together_until_it_has_ended(teams):
    (gang,) = enqueue(teams[0], "gang", gpus=2, pool="a100", count=2)
    run_cycles()
    relabelled = (node("a1", 2, gpu="h100"), *CLUSTER[1:])

    report_nodes(*relabelled)
    assert (queue_of(gang), nodes_by_pool()["a100"]) == ("a100", {"a1", "a2"})

    workloads.release_many([gang.pk])
    report_nodes(*relabelled)
    assert nodes_by_pool()["a100"] == {"a2"}


@pytest.mark.usefixtures("divided")
def test_a_gang_that_goes_to_another_pool_as_it_grows_gets_no_node_of_the_one_it_left(teams, monkeypatch):
    report_nodes(CLUSTER[0], *CLUSTER[2:])
    (gang,) = enqueue(teams[0], "gang", gpus=2, pool="a100", count=2, min_count=1)
    run_cycles()
    report_nodes(*CLUSTER)
    decide = cycle.decide_moves

    def decide_late(session):
        moves = decide(session)
        if moves:
            report_nodes(node("a1", 2, gpu="h100"), *CLUSTER[1:])
        return moves

    monkeypatch.setattr(cycle, "decide_moves", decide_late)
    cycle.run_once()

    held = Node.objects.filter(placements__workload=gang)
    assert (queue_of(gang), list(held.values_list("name", "pool__name"))) == ("h100", [("a1", "h100")])


@pytest.mark.usefixtures("divided")
def test_work_that_waits_in_another_pool_now_is_not_placed_where_it_was(teams, monkeypatch):
    (job,) = enqueue(teams[0], "job", gpus=2, pool="a100")
    decide = cycle.decide_moves

    def decide_late(session):
        moves = decide(session)
        Workload.objects.update(queue=Queue.objects.get(pool__name="h100", project=teams[0]))
        return moves

    monkeypatch.setattr(cycle, "decide_moves", decide_late)
    cycle.run_once()

    assert (queue_of(job), job.state) == ("h100", "pending")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("divided")
def test_a_job_is_not_placed_on_a_node_that_is_changing_pools(teams):
    (job,) = enqueue(teams[0], "job", gpus=2, pool="a100")
    place = Node.objects.get(name="a1")

    def place_it() -> int:
        try:
            with transaction.atomic():
                connection.cursor().execute("SET LOCAL lock_timeout = '1ms'")
                return apply._placeable.update({"state": "placed"}, job.pk, job.queue_id, place.pk, place.revision)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Node.objects.select_for_update().get(pk=place.pk)
            with pytest.raises(OperationalError, match="lock timeout"):
                pool.submit(place_it).result()
        assert pool.submit(place_it).result() == 1


@pytest.mark.usefixtures("divided")
def test_a_report_is_taken_where_a_gang_is_in_two_pools(teams):
    enqueue(teams[0], "gang", gpus=2, pool="a100", count=2)
    run_cycles()
    Node.objects.filter(name="a1").update(pool=Pool.objects.get(name="h100"))

    report_nodes(node("a1", 2, gpu="h100"), CLUSTER[1], node("h1", 2, gpu="a100"), *CLUSTER[3:])

    assert nodes_by_pool() == {"default": {"c1"}, "a100": {"a2", "h1"}, "h100": {"a1", "h2"}}


@pytest.mark.usefixtures("divided")
def test_a_gang_goes_along_where_all_of_its_nodes_do(teams, site_admin):
    (gang,) = enqueue(teams[0], "gang", gpus=2, pool="a100", count=2)
    run_cycles()

    pools.move_resources(
        actor=site_admin,
        pool=Pool.objects.get(name="h100"),
        resource_ids=["res_lab"],
        label="gpu=a100",
        moves_work=True,
    )

    assert (queue_of(gang), nodes_by_pool()["h100"]) == ("h100", {"a1", "a2", "h1", "h2"})


def test_a_label_moves_with_its_work_after_it_was_said_what_happens(teams, site_admin, divided):
    enqueue(teams[0], "runs", gpus=2, pool="a100")
    run_cycles()
    enqueue(teams[0], "waits", gpus=2, pool="a100")
    enqueue(teams[0], "stays", gpus=2, pool="h100")
    mine = pools.create_pool(actor=site_admin, name="mine")

    def move(*, moves_work: bool) -> None:
        pools.move_resources(
            actor=site_admin, pool=mine, resource_ids=["res_lab"], label="gpu=a100", moves_work=moves_work
        )

    with pytest.raises(PoolHasWork) as refusal:
        move(moves_work=False)
    assert refusal.value.message == (
        "There is work on these resources. 1 job runs on, with 2 GPUs. "
        "Beyond the quotas of the new pool, preemptible work can be evicted. 1 job waits in the new pool, no later in line."
    )

    move(moves_work=True)

    assert {job.name: job.queue.pool.name for job in Workload.objects.all()} == {
        "runs": "mine", "waits": "mine", "stays": "h100",
    }  # fmt: skip
    assert nodes_by_pool()["mine"] == {"a1", "a2"}


def test_what_waits_where_a_node_for_it_stays_waits_on_there_and_the_rest_follows(teams, site_admin):
    report_nodes(*CLUSTER)
    stays, follows = enqueue(teams[0], "stays", "follows", gpus=2)
    Workload.objects.filter(pk=follows.pk).update(pod_sets=[follows.pod_sets[0] | {"node_labels": [["gpu", "h100"]]}])
    pool = pools.create_pool(actor=site_admin, name="h100")

    with pytest.raises(PoolHasWork) as refusal:
        pools.move_resources(actor=site_admin, pool=pool, resource_ids=["res_lab"], label="gpu=h100")
    assert refusal.value.message == (
        "There is work on these resources. 1 job waits in the new pool, no later in line. "
        "1 job waits on in its pool, for the nodes that stay there."
    )
    pools.move_resources(actor=site_admin, pool=pool, resource_ids=["res_lab"], label="gpu=h100", moves_work=True)

    assert (queue_of(stays), queue_of(follows)) == ("default", "h100")


def test_what_waits_for_gpus_does_not_stay_where_only_nodes_without_any_are_left(teams, site_admin):
    report_nodes(*CLUSTER[:2], CLUSTER[4])
    gpus, none = enqueue(teams[0], "gpus", gpus=2), enqueue(teams[0], "none")

    pools.create_pool(actor=site_admin, name="a100", resource_ids=["res_lab"], label="gpu=a100", moves_work=True)

    assert (queue_of(gpus[0]), queue_of(none[0])) == ("a100", "default")


@pytest.mark.usefixtures("divided")
def test_a_reservation_on_a_node_that_leaves_the_pool_is_given_up(teams):
    (job,) = enqueue(teams[0], "waits", gpus=2, pool="a100")
    Reservation.objects.create(workload=job, node=Node.objects.get(name="a1"))

    report_nodes(node("a1", 2, gpu="h100"), *CLUSTER[1:])

    assert (Reservation.objects.count(), queue_of(job)) == (0, "a100")


def test_a_label_that_is_taken_out_gives_its_nodes_and_work_back_to_the_rest(teams, site_admin, divided):
    runs, waits = enqueue(teams[0], "runs", "waits", gpus=2, pool="a100")
    run_cycles()
    pool = Pool.objects.get(name="a100")

    pools.take_out_label(actor=site_admin, pool=pool, resource_ids=["res_lab"], label="gpu=a100", moves_work=True)

    assert nodes_by_pool() == {"default": {"a1", "a2", "c1"}, "h100": {"h1", "h2"}}
    assert {queue_of(runs), queue_of(waits)} == {"default"}
    pools.delete_pool(actor=site_admin, pool=pool)


def test_a_label_that_no_node_has_is_taken_and_counts_once_a_node_has_it(teams, site_admin):
    report_nodes(*CLUSTER[:2])
    pool = pools.create_pool(actor=site_admin, name="rare", resource_ids=["res_lab"], label="gpu=b200")
    (view,) = view_pools([pool])
    assert [(each.resource, each.label, each.nodes) for each in view.labels] == [("lab", "gpu=b200", 0)]

    report_nodes(*CLUSTER[:2], node("b1", 8, gpu="b200"))

    (view,) = view_pools([pool])
    assert [(each.resource, each.label, each.nodes) for each in view.labels] == [("lab", "gpu=b200", 1)]
    assert (view.resources, view.whole, view.gpu_milli) == (("lab",), (), 8000)


def test_a_resource_that_moves_takes_what_no_label_claims(teams, site_admin, divided):
    mine = pools.create_pool(actor=site_admin, name="mine", resource_ids=["res_lab"])

    assert nodes_by_pool() == {"mine": {"c1"}, "a100": {"a1", "a2"}, "h100": {"h1", "h2"}}
    assert [(view.pool.name, view.whole) for view in view_pools([mine])] == [("mine", ("lab",))]


def test_the_labels_of_a_resource_that_was_detached_are_not_listed(teams, site_admin, divided):
    report_nodes()

    assert [view.labels for view in view_pools(Pool.objects.all())] == [(), (), ()]


@pytest.mark.parametrize("label", ["gpu", "gpu==a100", "gpu=a 100"])
def test_what_is_no_label_is_refused_and_no_pool_is_made(teams, site_admin, label):
    report_nodes(*CLUSTER)

    with pytest.raises(InvalidPool):
        pools.create_pool(actor=site_admin, name="mine", resource_ids=["res_lab"], label=label)
    with pytest.raises(InvalidPool):
        pools.create_pool(actor=site_admin, name="mine", label="gpu=a100")

    assert not Pool.objects.filter(name="mine").exists()


def test_a_label_that_is_not_in_the_pool_is_not_taken_out(teams, site_admin, divided):
    pool = Pool.objects.get(name="a100")

    for label in ("gpu=h100", ""):
        with pytest.raises(InvalidPool):
            pools.take_out_label(actor=site_admin, pool=pool, resource_ids=["res_lab"], label=label)

    assert PoolResource.objects.count() == 3


def test_labels_are_moved_by_site_admins_only(teams, make_actor, divided):
    member, pool = make_actor(), Pool.objects.get(name="a100")

    with pytest.raises(PermissionDenied):
        pools.move_resources(actor=member, pool=pool, resource_ids=["res_lab"], label="gpu=h100")
    with pytest.raises(PermissionDenied):
        pools.take_out_label(actor=member, pool=pool, resource_ids=["res_lab"], label="gpu=a100")

    assert nodes_by_pool()["a100"] == {"a1", "a2"}


def test_work_that_names_no_pool_is_in_the_first_that_could_run_it_the_rest_before_labels(teams, divided):
    plain, whole, labelled, too_large = (
        workloads.enqueue_many([request(teams[0], name, gpus, **more)])[0]
        for name, gpus, more in (
            ("plain", 0, {}),
            ("whole", 2, {}),
            ("labelled", 1, {"node_labels": [("gpu", "h100")]}),
            ("too-large", 8, {}),
        )
    )

    pools_of = dict(Workload.objects.values_list("pk", "queue__pool__name"))
    assert [pools_of[pk] for pk in (plain, whole, labelled, too_large)] == ["default", "a100", "h100", "default"]
    report_nodes(*CLUSTER[2:4])
    (job,) = enqueue(teams[0], "later")
    assert (job.queue.pool.name, ResourcePools().find("res_lab").name) == ("h100", "h100")


@pytest.mark.usefixtures("divided")
def test_a_gang_that_names_no_pool_is_in_the_first_that_could_run_all_of_it(teams):
    report_nodes(*CLUSTER, node("h3", 2, gpu="h100"))

    jobs = [enqueue(teams[0], f"gang-{count}", gpus=2, count=count)[0] for count in (2, 3, 4)]
    (elastic,) = enqueue(teams[0], "elastic", gpus=2, count=4, min_count=3)

    assert [queue_of(job) for job in [*jobs, elastic]] == ["a100", "h100", "a100", "h100"]


def test_a_gang_that_waits_does_not_stay_where_too_few_nodes_for_it_are_left(teams, site_admin):
    report_nodes(*CLUSTER, node("h3", 2, gpu="h100"))
    small, large = (enqueue(teams[0], f"gang-{count}", gpus=2, count=count)[0] for count in (2, 3))

    pools.create_pool(actor=site_admin, name="h100", resource_ids=["res_lab"], label="gpu=h100", moves_work=True)

    assert (queue_of(small), queue_of(large)) == ("default", "h100")


def test_a_queue_is_looked_up_at_once_where_the_pool_is_named_or_the_resource_whole(teams, divided):
    report_nodes(report("x1"), resource="res_x")

    def look_up(resource: str, pool: str) -> str | None:
        pk = find_queue(project_id=teams[0].pk, resource_id=resource, pool=pool)
        return pk and Queue.objects.get(pk=pk).pool.name

    assert [look_up("res_lab", "h100"), look_up("res_x", "h100"), look_up("res_lab", "")] == ["h100", "default", None]


def test_work_that_names_a_pool_of_other_resources_is_in_the_first_of_its_own(teams, site_admin, divided):
    pools.create_pool(actor=site_admin, name="other")

    (job,) = enqueue(teams[0], "job", pool="other")

    assert job.queue.pool.name == "default"


def test_requests_for_several_pools_go_to_the_queue_of_each(teams, divided):
    made = [request(team, f"{team.name}-{pool}", 1, pool=pool) for team in teams for pool in ("a100", "h100", "")]

    ids = workloads.enqueue_many(made)

    jobs = [Workload.objects.select_related("queue__pool").get(pk=pk) for pk in ids]
    assert [(job.queue.project_id, job.queue.pool.name) for job in jobs] == [
        (team.pk, pool) for team in teams for pool in ("a100", "h100", "a100")
    ]


def test_work_whose_node_moved_as_it_was_placed_follows_it(teams, divided):
    (job,) = enqueue(teams[0], "job", gpus=1, pool="a100")
    run_cycles()
    Workload.objects.filter(pk=job.pk).update(queue=Queue.objects.get(pool__name="h100", project=teams[0]))

    strays.requeue_strays()

    assert queue_of(job) == "a100"
    assert not any(rows.exists() for rows in strays.find_strays())


def test_the_pool_of_the_rest_that_is_deleted_leaves_it_to_the_default_pool(teams, site_admin, divided):
    mine = pools.create_pool(actor=site_admin, name="mine", resource_ids=["res_lab"])
    report_nodes(*CLUSTER[:4])

    pools.delete_pool(actor=site_admin, pool=mine)
    report_nodes(*CLUSTER)

    assert nodes_by_pool()["default"] == {"c1"}


def test_a_report_of_a_divided_resource_that_says_nothing_new_writes_nothing(teams, divided, django_assert_num_queries):
    report_nodes(*CLUSTER)

    with transaction.atomic(), django_assert_num_queries(6):
        report_nodes(*CLUSTER)
