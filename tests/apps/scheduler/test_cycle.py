"""A cycle on the database: load, decide, apply by compare-and-set."""

from datetime import UTC, datetime, timedelta

import pytest

from core import clock, leases, tasks
from core.local_queue import LocalQueue
from core.models import Lease
from scheduler import signals
from scheduler.models import Node, Placement, Queue, Workload
from scheduler.services import resource_nodes, workloads
from scheduler.workers import cycle
from scheduler.workers.cycle import CycleReport, SessionCache
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def news():
    batches: list[list[str]] = []

    def hear(*, workload_ids: list[str], **_: object) -> None:
        batches.append(workload_ids)

    signals.workload_placed.connect(hear, weak=False)
    yield batches
    signals.workload_placed.disconnect(hear)


def test_a_waiting_workload_gets_its_room(project):
    report_nodes(report("n1", 2))
    (workload,) = enqueue(project, "job", gpus=1)

    with clock.frozen_at(NOON):
        assert cycle.run_once() == CycleReport(placed=1)

    workload.refresh_from_db()
    assert (workload.state, workload.placed_at, workload.reason) == ("placed", NOON, "")
    assert (workload.placements.get().node.name, workload.placements.get().gpus) == ("n1", [[0, 1000]])


def test_fractions_share_a_device_over_several_cycles(project):
    report_nodes(report("n1", 2))
    for name in ("a", "b", "c"):
        enqueue(project, name, gpus=0.4)
        cycle.run_once()

    assert list(Placement.objects.order_by("pk").values_list("gpus", flat=True)) == [[[0, 400]], [[0, 400]], [[1, 400]]]


def test_one_who_waits_is_told_why(project):
    report_nodes(report("n1", 1))
    _, second = enqueue(project, "first", "second", gpus=1)

    assert cycle.run_once() == CycleReport(placed=1, waiting=1)

    second.refresh_from_db()
    assert (second.state, second.why_code) == ("pending", "no_room")
    assert second.why == "needs 1 GPU on lab; most free on one node is 0 GPUs (n1)"


def test_a_reason_that_did_not_change_is_not_written_again(project, django_assert_num_queries):
    report_nodes(report("n1", 1))
    enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    # waiting?, take the lease, what there is, queues, reservations?, answers, give the lease back
    with django_assert_num_queries(8):
        cycle.run_once()


def test_a_cycle_reads_in_a_fixed_number_of_queries_however_many_wait(project, django_assert_num_queries):
    report_nodes(*[report(f"n{i}", 1) for i in range(5)])
    enqueue(project, *[f"job-{i}" for i in range(200)], gpus=1)
    cycle.run_once()

    with django_assert_num_queries(8):
        cycle.run_once()


def test_a_cycle_with_nobody_waiting_asks_once(django_assert_num_queries):
    with django_assert_num_queries(1):
        assert cycle.run_once() == CycleReport()


def test_room_that_is_given_back_goes_to_who_waits(project):
    report_nodes(report("n1", 1))
    first, second = enqueue(project, "first", "second", gpus=1)
    cycle.run_once()

    workloads.release_many([first.pk])
    cycle.run_once()

    second.refresh_from_db()
    assert (second.state, second.reason, second.reason_code) == ("placed", "", "")


def test_news_is_sent_once_a_batch_after_the_commit(project, news, django_capture_on_commit_callbacks):
    report_nodes(report("n1", cpu=200, memory_gib=200))
    ids = [workload.pk for workload in enqueue(project, *[f"job-{i:03}" for i in range(130)])]

    with django_capture_on_commit_callbacks(execute=True):
        cycle.run_once()

    assert [len(batch) for batch in news] == [100, 30]
    assert sorted(news[0] + news[1]) == sorted(ids)


def test_nothing_is_placed_while_another_cycle_holds_the_lease(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    leases.take_named("scheduler.cycle", holder="another", for_s=30)

    assert cycle.run_once() == CycleReport()

    workload.refresh_from_db()
    assert workload.state == "pending"


def test_the_lease_of_a_cycle_that_died_is_taken_over(project):
    report_nodes(report("n1"))
    enqueue(project, "job")
    with clock.frozen_at(NOON):
        leases.take_named("scheduler.cycle", holder="dead", for_s=30)
    with clock.frozen_at(NOON + timedelta(seconds=31)):
        assert cycle.run_once().placed == 1


@pytest.fixture
def handing_over():
    """Let this thread hand over, so that cycles know what it has enqueued; another cycle has run before."""
    leases.take_named("scheduler.cycle", holder="before", for_s=0)
    tasks.install_threads(LocalQueue())
    try:
        with tasks.hand_over():
            yield
    finally:
        tasks.install_threads(None)


@pytest.mark.usefixtures("handing_over")
def test_a_limit_holds_for_what_is_enqueued_after_it_whichever_thread_has_set_it(project):
    report_nodes(report("n1", 2))
    enqueue(project, "before", gpus=1)
    assert cycle.run_once().placed == 1

    Queue.objects.filter(project=project).update(gpu_limit_milli=1000)
    enqueue(project, "after", gpus=1)

    assert cycle.run_once().placed == 0


@pytest.mark.usefixtures("handing_over")
def test_what_was_just_enqueued_is_placed_by_one_transaction_that_takes_and_ends_the_lease(
    project, django_assert_num_queries
):
    report_nodes(report("n1"))
    cycle.run_once(only_if_waiting=False)
    (workload,) = enqueue(project, "job")

    # what there is and the lease, queues; the lease, whose job it is, workload, placement; and the test's savepoint
    with django_assert_num_queries(8):
        assert cycle.run_once() == CycleReport(placed=1)

    workload.refresh_from_db()
    assert workload.state == "placed"
    lease = Lease.objects.get()
    assert lease.lease_token.startswith("cycle_")
    assert not lease.is_leased_at(clock.now())


@pytest.mark.usefixtures("handing_over")
def test_what_was_just_enqueued_waits_while_another_cycle_holds_the_lease(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    leases.take_named("scheduler.cycle", holder="another", for_s=30)

    assert cycle.run_once() == CycleReport(skipped=1)

    workload.refresh_from_db()
    assert workload.state == "pending"
    assert Lease.objects.get().lease_token == "another"


@pytest.mark.usefixtures("handing_over")
def test_what_was_just_enqueued_waits_if_another_cycle_had_the_lease_since_the_view_was_read(project, monkeypatch):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")

    outcome = run_while(monkeypatch, lambda: leases.take_named("scheduler.cycle", holder="another", for_s=0))

    assert outcome == CycleReport(skipped=1)
    workload.refresh_from_db()
    assert workload.state == "pending"


def run_while(monkeypatch, happening) -> CycleReport:
    """Run a cycle, and let something happen between its load and its application."""
    decide = cycle.decide_moves

    def decide_late(session):
        decisions = decide(session)
        happening()
        return decisions

    monkeypatch.setattr(cycle, "decide_moves", decide_late)
    return cycle.run_once()


def test_a_workload_that_left_meanwhile_is_skipped(project, monkeypatch):
    report_nodes(report("n1"))
    terminating, staying = enqueue(project, "leaving", "staying")

    outcome = run_while(monkeypatch, lambda: workloads.withdraw_many([terminating.pk]))

    assert outcome == CycleReport(placed=1, skipped=1)
    assert Placement.objects.get().workload == staying


def test_a_node_that_changed_meanwhile_takes_nothing_until_the_next_cycle(project, monkeypatch):
    report_nodes(report("n1", cpu=8))
    enqueue(project, "job")

    outcome = run_while(monkeypatch, lambda: report_nodes(report("n1", cpu=4)))

    assert outcome == CycleReport(skipped=1)
    assert not Placement.objects.exists()


def test_a_node_that_vanished_meanwhile_takes_nothing(project, monkeypatch):
    report_nodes(report("n1"))
    enqueue(project, "job")

    outcome = run_while(monkeypatch, report_nodes)

    assert outcome == CycleReport(skipped=1)
    assert not Node.objects.exists()


def test_a_cycle_that_lost_its_lease_applies_nothing(project, monkeypatch):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")

    outcome = run_while(monkeypatch, lambda: Lease.objects.update(lease_token="another", lease_expires_at=clock.now()))

    assert outcome == CycleReport(skipped=1)
    workload.refresh_from_db()
    assert workload.state == "pending"


def test_two_cycles_at_once_place_nothing_twice(project, monkeypatch):
    report_nodes(report("n1", 1))
    enqueue(project, "a", "b", gpus=1)

    def second_cycle() -> None:
        Lease.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))
        monkeypatch.undo()
        monkeypatch.setattr(cycle, "_sessions", SessionCache())  # that of another process
        assert cycle.run_once().placed == 1

    assert run_while(monkeypatch, second_cycle).placed == 0
    assert Placement.objects.count() == 1


def test_unreachable_says_so(project):
    report_nodes(report("n1"))
    resource_nodes.mark_unreachable(resource_id="res_lab")
    (workload,) = enqueue(project, "job")

    cycle.run_once()

    workload.refresh_from_db()
    assert workload.why_code == "resource_unreachable"
    assert workload.why == "resource unreachable: lab does not answer, its only node is ready"


def test_the_devices_of_a_lab_are_never_given_out_twice(project):
    report_nodes(report("n1", 8, cpu=64), report("n2", 8, cpu=64))
    enqueue(project, *[f"half-{i}" for i in range(20)], gpus=0.5)
    enqueue(project, *[f"pair-{i}" for i in range(10)], gpus=2)

    cycle.run_once()

    used: dict[tuple[str, int], int] = {}
    for node_id, gpus in Placement.objects.values_list("node_id", "gpus"):
        for index, milli in gpus:
            used[node_id, index] = used.get((node_id, index), 0) + milli
    assert max(used.values()) == 1000
    assert sum(used.values()) == 16000
    assert Workload.objects.filter(state="pending").count() == 7


def test_room_is_kept_for_a_workload_of_a_whole_node_that_has_waited_for_long(project):
    report_nodes(report("n1", 2))
    with clock.frozen_at(NOON):
        enqueue(project, "first", gpus=1)
        cycle.run_once()
        enqueue(project, "big", gpus=2)
    later = NOON + timedelta(minutes=15)

    with clock.frozen_at(later):
        (small,) = enqueue(project, "small", gpus=1)
        assert cycle.run_once() == CycleReport(waiting=2)

    small.refresh_from_db()
    big = Workload.objects.get(name="big")
    assert small.why == "the capacity on n1 is reserved for a big job whose turn comes first"
    assert (
        big.why == "needs 2 GPUs on lab; most free on one node is 1 GPU (n1); what gets free on n1 is reserved for it"
    )
