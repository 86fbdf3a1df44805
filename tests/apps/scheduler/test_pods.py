"""Workloads of several pods: placed together or not at all, evicted together, and read back from the database."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError

from core import clock
from scheduler import signals
from scheduler.errors import InvalidRequest
from scheduler.models import Placement, Queue, Reservation, Workload
from scheduler.selectors import workloads as selectors
from scheduler.selectors.nodes import held_on, list_nodes
from scheduler.selectors.usage import gpus_over_time
from scheduler.selectors.workloads import list_pods, list_terminating
from scheduler.services import pool_members, queues, resource_nodes, workloads
from scheduler.services.workloads import PodSet, WorkloadRequest
from scheduler.workers import cycle
from scheduler.workers.cycle import CycleReport, SessionCache
from tests.factories.scheduler import GIB, NOON, enqueue, report, report_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


def enqueue_pods(project, name: str, *pod_sets: PodSet, **more) -> Workload:
    request = WorkloadRequest(project_id=project.pk, name=name, resource_id="res_lab", pod_sets=pod_sets, **more)
    (workload_id,) = workloads.enqueue_many([request])
    return Workload.objects.get(pk=workload_id)


def workers(count: int, *, least: int | None = None, gpus: float = 1, **more) -> PodSet:
    return PodSet(
        name="worker", count=count, min_count=least, cpu_millicores=1000, memory_bytes=GIB,
        gpu_milli=round(1000 * gpus), **more,
    )  # fmt: skip


def places(workload: Workload) -> dict[str, tuple[str, list[list[int]]]]:
    rows = Placement.objects.filter(workload=workload).select_related("node")
    return {row.pod: (row.node.name, row.gpus) for row in rows.order_by("pod")}


def state(workload: Workload) -> str:
    return Workload.objects.values_list("state", flat=True).get(pk=workload.pk)


@pytest.fixture
def owner(project, site_admin):
    """Return a project with a quota of four GPUs."""
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=4000)
    return project


def test_a_gang_is_placed_over_several_nodes_pod_by_pod(project, monkeypatch, django_capture_on_commit_callbacks):
    report_nodes(report("n1", 2), report("n2", 2))
    gang = enqueue_pods(project, "gang", PodSet(name="head", cpu_millicores=2000, memory_bytes=GIB), workers(4))
    placed_gangs: list[list[str]] = []
    monkeypatch.setattr(signals.gang_placed, "send", lambda sender, workload_ids: placed_gangs.append(workload_ids))

    with django_capture_on_commit_callbacks(execute=True):
        assert cycle.run_once() == CycleReport(placed=1)

    assert placed_gangs == [[gang.pk]]
    assert state(gang) == "placed"
    assert places(gang) == {
        "head-0": ("n1", []),
        "worker-0": ("n1", [[0, 1000]]),
        "worker-1": ("n1", [[1, 1000]]),
        "worker-2": ("n2", [[0, 1000]]),
        "worker-3": ("n2", [[1, 1000]]),
    }
    assert (gang.gpu_milli, gang.cpu_millicores, gang.memory_bytes) == (4000, 6000, 5 * GIB)


def test_nothing_of_a_gang_starts_before_all_of_it_can(project):
    report_nodes(report("n1", 2), report("n2", 1))
    gang = enqueue_pods(project, "gang", workers(4))

    assert cycle.run_once() == CycleReport(waiting=1)
    assert (state(gang), places(gang)) == ("pending", {})
    gang.refresh_from_db()
    assert (
        gang.why
        == "never fits: needs 4 pods of 1 GPU and 1 CPU and 1 GiB of memory at once; lab has capacity for 3 when it is empty"
    )

    report_nodes(report("n1", 2), report("n2", 2))
    assert cycle.run_once() == CycleReport(placed=1)


def test_nothing_of_a_gang_starts_when_one_of_its_nodes_has_changed_meanwhile(project, monkeypatch):
    report_nodes(report("n1", 2), report("n2", 2))
    gang = enqueue_pods(project, "gang", workers(4))
    decide = cycle.decide_moves

    def decide_late(*arguments):
        decisions = decide(*arguments)
        report_nodes(report("n1", 2), report("n2", 2, cpu=7))
        return decisions

    monkeypatch.setattr(cycle, "decide_moves", decide_late)

    assert cycle.run_once() == CycleReport(skipped=1)
    assert (state(gang), places(gang)) == ("pending", {})
    monkeypatch.undo()
    assert cycle.run_once() == CycleReport(placed=1)


def test_an_evicted_gang_gives_all_its_pods_up_at_once_and_comes_back_whole(owner, guest):
    report_nodes(report("n1", 2), report("n2", 2))
    gang = enqueue_pods(guest, "gang", workers(4))
    cycle.run_once()
    (claim,) = enqueue(owner, "claim", gpus=2)

    assert cycle.run_once() == CycleReport(reserved=1, evicted=1)

    assert list_terminating() == {gang.pk: "Another queue claims its share; guests holds more than it may keep."}
    assert set(Placement.objects.values_list("evicting_since", flat=True)) == {NOON}
    assert cycle.run_once() == CycleReport()
    assert workloads.requeue_many([gang.pk]) == [gang.pk]
    assert (state(gang), places(gang)) == ("pending", {})
    cycle.run_once()
    assert (state(claim), state(gang)) == ("placed", "pending")
    workloads.release_many([claim.pk])
    cycle.run_once()
    assert (state(gang), len(places(gang))) == ("placed", 4)


def test_a_gang_is_read_back_from_the_database_by_a_process_that_has_just_started(project, monkeypatch):
    report_nodes(report("n1", 2), report("n2", 2))
    gang = enqueue_pods(project, "gang", workers(4))
    cycle.run_once()
    (second,) = enqueue(project, "second", gpus=1)
    before = places(gang)

    monkeypatch.setattr(cycle, "_sessions", SessionCache())

    assert cycle.run_once() == CycleReport(waiting=1)
    assert (places(gang), places(second)) == (before, {})


def test_an_elastic_workload_starts_with_its_minimum_and_grows_as_capacity_becomes_free(project):
    report_nodes(report("n1", 2))
    elastic = enqueue_pods(project, "elastic", workers(3, least=1))

    assert cycle.run_once() == CycleReport(placed=1, waiting=1)
    assert list(places(elastic)) == ["worker-0", "worker-1"]

    report_nodes(report("n1", 3))
    assert cycle.run_once() == CycleReport(placed=1)
    assert list(places(elastic)) == ["worker-0", "worker-1", "worker-2"]


def test_an_elastic_workload_loses_pods_beyond_its_minimum_and_runs_on(owner, guest):
    report_nodes(report("n1", 4))
    elastic = enqueue_pods(guest, "elastic", workers(4, least=1))
    cycle.run_once()
    (claim,) = enqueue(owner, "claim", gpus=2)

    assert cycle.run_once().evicted == 1

    assert (state(elastic), list_terminating()) == ("placed", {})
    evicted = list_pods([elastic.pk])[elastic.pk].evicted_ids
    assert sorted(Placement.objects.filter(pk__in=evicted).values_list("pod", flat=True)) == ["worker-2", "worker-3"]
    workloads.requeue_pods(evicted)
    cycle.run_once()
    assert list(places(elastic)) == ["worker-0", "worker-1"]
    assert state(claim) == "placed"
    assert not Reservation.objects.exists()


def test_a_gang_of_which_a_pod_is_moved_stops_whole_and_comes_back_together(project):
    report_nodes(report("n1", 2), report("n2", 2))
    (first,) = enqueue(project, "first", gpus=1)
    cycle.run_once()
    gang = enqueue_pods(project, "gang", workers(2))
    cycle.run_once()
    workloads.release_many([first.pk])
    assert sorted(node for node, *_ in places(gang).values()) == ["n1", "n2"]
    (large,) = enqueue(project, "large", gpus=2)

    cycle.run_once()

    assert (state(gang), list_pods([gang.pk])) == ("leaving", {})
    workloads.requeue_many([gang.pk])
    cycle.run_once()
    assert (state(gang), state(large)) == ("placed", "placed")
    assert len({node for node, *_ in places(gang).values()}) == 1


def test_pods_that_are_not_evicted_are_not_requeued(project):
    report_nodes(report("n1", 2))
    gang = enqueue_pods(project, "gang", workers(2))
    cycle.run_once()

    workloads.requeue_pods(Placement.objects.values_list("pk", flat=True))

    assert len(places(gang)) == 2


def test_a_share_by_memory_is_counted_as_what_it_is_of_its_device(project):
    report_nodes(report("n1", 1))
    share = enqueue_pods(project, "share", PodSet(cpu_millicores=1000, memory_bytes=GIB, gpu_memory_bytes=8 * GIB))

    cycle.run_once()

    share.refresh_from_db()
    assert (places(share), share.gpu_milli) == ({"0": ("n1", [[0, 250]])}, 250)


def test_pods_run_on_nodes_with_one_of_their_labels_only(project):
    plain, labelled = report("n1", 1), report("n2", 1)
    resource_nodes.report_nodes(
        resource_id="res_lab", resource_name="lab", is_simulated=True,
        nodes=[plain, resource_nodes.NodeReport("n2", labelled.cpu_millicores, labelled.memory_bytes, labelled.gpus, labels={"zone": "b"})],
    )  # fmt: skip
    bound = enqueue_pods(project, "bound", workers(1, node_labels=[("zone", "b"), ("zone", "c")]))

    cycle.run_once()

    assert places(bound) == {"0": ("n2", [[0, 1000]])}


@pytest.mark.parametrize(
    "pod_sets",
    [
        [],
        [workers(0)],
        [workers(2, least=3)],
        [workers(1), workers(1)],
        [workers(1, gpus=1.5)],
        [workers(1, gpu_memory_bytes=GIB)],
    ],
)
def test_pods_that_make_no_sense_are_refused_and_nothing_is_enqueued(project, pod_sets):
    with pytest.raises(InvalidRequest):
        enqueue_pods(project, "bad", *pod_sets)

    assert not Workload.objects.exists()


def test_a_pod_is_placed_once(project):
    report_nodes(report("n1", 1))
    gang = enqueue_pods(project, "gang", workers(1))
    cycle.run_once()
    row = Placement.objects.get()

    with pytest.raises(IntegrityError):
        Placement.objects.create(workload=gang, pod=row.pod, node=row.node)


def test_what_the_pods_of_a_gang_hold_is_seen_on_their_nodes_and_in_the_history(project, site_admin, move):
    report_nodes(report("n1", 1), report("n2", 1))
    gang = enqueue_pods(project, "gang", workers(2))
    cycle.run_once()
    queue = Queue.objects.get(project=project)
    past = {"until": NOON + timedelta(minutes=2), "span": timedelta(minutes=2), "points": 3}

    for node in list_nodes(actor=site_admin):
        held = held_on(node)
        assert (held.cpu_millicores, held.memory_bytes, dict(held.gpu_milli)) == (1000, GIB, {0: 1000})
    assert gpus_over_time([queue], **past) == {queue.pk: [2000, 2000, 2000]}
    move(NOON + timedelta(minutes=1))
    workloads.release_many([gang.pk])
    move(NOON + timedelta(minutes=2))
    assert gpus_over_time([queue], **past) == {queue.pk: [2000, 0, 0]}
    assert clock.now() == NOON + timedelta(minutes=2)


def test_the_api_names_a_node_where_all_pods_are_on_one(project, site_admin):
    from scheduler.api.schemas import WorkloadOut

    report_nodes(report("n1", 2), report("n2", 2))
    together = enqueue_pods(project, "together", workers(2))
    cycle.run_once()
    apart = enqueue_pods(project, "apart", workers(1), PodSet(name="big", cpu_millicores=8000, memory_bytes=GIB))
    cycle.run_once()
    shown = {row.name: row for row in selectors.list_workloads(actor=site_admin)}

    assert WorkloadOut.resolve_node(shown["together"]) == "n1"
    assert WorkloadOut.resolve_gpus(shown["together"]) == [[0, 1000], [1, 1000]]
    assert {state(together), state(apart)} <= {"placed", "pending"}


def test_missing_bytes_are_told_to_the_engine_and_may_change_while_it_waits(project):
    report_nodes(report("n1", 0))
    waiting = enqueue_pods(project, "waits", workers(1), missing_bytes={"res_lab": 5 * GIB})
    cycle.run_once()

    workloads.set_missing_bytes({waiting.pk: {"res_lab": 0}})

    (view,) = cycle.SnapshotReader().read().values()
    assert view.jobs[waiting.pk].pods[0].request.missing_bytes == (("res_lab", 0),)
    waiting.refresh_from_db()
    assert (waiting.missing_bytes, waiting.revision) == ({"res_lab": 0}, 1)
    workloads.set_missing_bytes({waiting.pk: {"res_lab": 0}})
    waiting.refresh_from_db()
    assert waiting.revision == 1


def test_only_those_pods_stay_together_that_are_to(project):
    racks = {"n1": "a", "n2": "b", "n3": "b"}
    report_nodes(*(replace(report(name, 1), labels={"rack": rack}) for name, rack in racks.items()))
    launcher = PodSet(name="launcher", cpu_millicores=1000, memory_bytes=GIB)
    gang = enqueue_pods(project, "gang", workers(2, required_level="rack"), launcher)
    wide = enqueue_pods(project, "wide", workers(3, required_level="rack"), launcher)

    cycle.run_once()

    assert {pod: node for pod, (node, _) in places(gang).items() if pod != "launcher-0"} == {
        "worker-0": "n2",
        "worker-1": "n3",
    }
    assert (state(gang), state(wide)) == ("placed", "pending")
