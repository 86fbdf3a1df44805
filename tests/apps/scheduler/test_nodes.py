"""What a driver's report makes of the nodes that are known."""

from dataclasses import replace

import pytest

from accounts.errors import PermissionDenied
from core import tasks
from scheduler.models import Gpu, Node, Placement
from scheduler.services import nodes, resource_nodes, workloads
from scheduler.workers import cycle
from tests.factories.queues import RecordedQueue
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def names_and_readiness() -> dict[str, bool]:
    return dict(Node.objects.values_list("name", "is_ready"))


def test_a_drained_node_takes_nothing_new_and_keeps_what_it_has(project, site_admin):
    report_nodes(report("n1", 2))
    enqueue(project, "before", gpus=1)
    cycle.run_once()
    nodes.set_drained(actor=site_admin, node=Node.objects.get(), is_drained=True)
    [late] = enqueue(project, "after", gpus=1)

    cycle.run_once()
    report_nodes(report("n1", 2))

    late.refresh_from_db()
    assert (late.state, late.why_code) == ("pending", "drained")
    assert late.why == "drained: lab takes no new work on n1 until an admin opens it again"
    assert Placement.objects.get().workload.name == "before"
    assert Node.objects.get().is_drained


def test_an_opened_node_is_used_again(project, site_admin):
    report_nodes(report("n1", 2))
    node = nodes.set_drained(actor=site_admin, node=Node.objects.get(), is_drained=True)
    enqueue(project, "job", gpus=1)
    cycle.run_once()

    nodes.set_drained(actor=site_admin, node=node, is_drained=False)
    cycle.run_once()

    assert Placement.objects.get().workload.name == "job"


def test_only_a_site_admin_drains(member):
    report_nodes(report("n1"))

    with pytest.raises(PermissionDenied):
        nodes.set_drained(actor=member, node=Node.objects.get(), is_drained=True)
    assert not Node.objects.get().is_drained


def test_a_node_takes_no_more_pods_than_its_driver_says_however_small_they_are(project):
    report_nodes(replace(report("n1"), max_pods=2))
    waiting = enqueue(project, "a", "b", "c")

    cycle.run_once()

    for workload in waiting:
        workload.refresh_from_db()
    assert [workload.state for workload in waiting] == ["placed", "placed", "pending"]
    assert waiting[2].why == ("needs capacity for 1 pod on lab; most free on one node is capacity for 0 pods (n1)")
    report_nodes(replace(report("n1"), max_pods=3))
    cycle.run_once()
    assert Placement.objects.count() == 3


def test_a_first_report_creates_nodes_and_devices():
    report_nodes(report("n1", 2, cpu=8), report("n2"))

    assert names_and_readiness() == {"n1": True, "n2": True}
    devices = Gpu.objects.order_by("index").values_list("node__name", "index", "uuid", "model")
    assert list(devices) == [("n1", 0, "GPU-n1-0", "V100"), ("n1", 1, "GPU-n1-1", "V100")]
    assert Node.objects.filter(is_simulated=True, resource_name="lab", cpu_millicores=8000).count() == 2


def test_a_report_that_says_nothing_new_writes_nothing(django_assert_num_queries):
    report_nodes(report("n1", 2), report("n2"))

    with django_assert_num_queries(4):  # savepoint, nodes, devices, release
        report_nodes(report("n1", 2), report("n2"))

    assert set(Node.objects.values_list("revision", flat=True)) == {1}


def test_a_change_is_taken_over_and_counted():
    report_nodes(report("n1", 2, cpu=8))

    report_nodes(report("n1", 1, cpu=4))

    node = Node.objects.get()
    assert (node.cpu_millicores, node.gpus.count(), node.revision) == (4000, 1, 2)


def test_an_empty_node_that_is_gone_is_forgotten():
    report_nodes(report("n1"), report("n2"))

    report_nodes(report("n2"))

    assert names_and_readiness() == {"n2": True}


def test_a_node_that_is_gone_under_its_workloads_stays_and_is_not_ready(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    cycle.run_once()

    report_nodes()
    report_nodes()

    assert names_and_readiness() == {"n1": False}
    assert Placement.objects.get().workload == workload

    workloads.release_many([workload.pk])
    report_nodes()

    assert names_and_readiness() == {}


def test_a_node_that_comes_back_is_ready_again(project):
    report_nodes(report("n1"))
    enqueue(project, "job")
    cycle.run_once()
    report_nodes()

    report_nodes(report("n1"))

    assert names_and_readiness() == {"n1": True}


def test_the_nodes_of_another_resource_are_left_alone():
    report_nodes(report("n1"), resource="res_lab")

    report_nodes(report("n1"), resource="res_farm")
    report_nodes(resource="res_farm")

    assert list(Node.objects.values_list("resource_id", "name")) == [("res_lab", "n1")]


def test_a_resource_that_does_not_answer_keeps_its_nodes_but_takes_nothing(project):
    report_nodes(report("n1"))

    resource_nodes.mark_unreachable(resource_id="res_lab")

    enqueue(project, "job")
    assert cycle.run_once().placed == 0
    assert names_and_readiness() == {"n1": False}


def test_a_report_of_nodes_enqueues_a_cycle(django_capture_on_commit_callbacks):
    queue = RecordedQueue()
    before = tasks.install(queue)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            report_nodes(report("n1"))
        with django_capture_on_commit_callbacks(execute=True):
            report_nodes(report("n1"))
    finally:
        tasks.install(before)

    assert queue.messages == [("scheduler.cycle", {})]
