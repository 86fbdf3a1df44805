"""Workloads come, and give their capacity back."""

from datetime import UTC, datetime

import pytest
from django.db import transaction

from core import clock
from scheduler.errors import InvalidRequest
from scheduler.models import Placement, Queue, Workload
from scheduler.selectors.workloads import ClaimedPlacement, find_unclaimed
from scheduler.services import pool_members, workloads
from scheduler.workers import cycle
from tests.factories.scheduler import enqueue, report, report_nodes, request

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def state_of(workload: Workload) -> str:
    return Workload.objects.get(pk=workload.pk).state


def test_a_request_waits_in_the_queue_of_its_project(project):
    with clock.frozen_at(NOON):
        (workload,) = enqueue(project, "job", gpus=0.5)

    assert (workload.state, workload.gpu_milli, workload.enqueued_at) == ("pending", 500, NOON)
    assert workload.queue == Queue.objects.get(project=project)


def test_requests_of_one_call_keep_their_order(project):
    enqueue(project, "c", "a", "b")

    assert list(Workload.objects.order_by("enqueued_at").values_list("name", flat=True)) == ["c", "a", "b"]


def test_the_same_name_again_returns_the_same_workload(project):
    (first,) = enqueue(project, "job")

    again, other = enqueue(project, "job", "other")

    assert again == first
    assert other != first
    assert Workload.objects.count() == 2


def unclaimed() -> list[str]:
    (rows,) = find_unclaimed()
    return list(rows.order_by("pk").values_list("pk", flat=True))


def test_many_are_enqueued_in_few_queries(project, django_assert_max_num_queries):
    requests = [request(project, f"job-{i}") for i in range(300)]
    pool_members.ensure_queue(project_id=project.pk)

    with django_assert_max_num_queries(13):
        workloads.enqueue_many(requests)

    assert Workload.objects.count() == 300


@pytest.mark.parametrize("gpus", [1.5, -1])
def test_an_amount_of_gpu_that_is_neither_a_part_of_one_nor_whole_is_refused(project, gpus):
    with pytest.raises(InvalidRequest):
        workloads.enqueue_many([request(project, "good"), request(project, "bad", gpus)])

    assert not Workload.objects.exists()


def test_a_request_without_cpu_is_refused(project):
    with pytest.raises(InvalidRequest):
        workloads.enqueue_many([request(project, "bad", cpu_millicores=0)])

    assert not Workload.objects.exists()


def test_what_waits_can_be_withdrawn(project):
    (workload,) = enqueue(project, "job")

    with clock.frozen_at(NOON):
        assert workloads.withdraw_many([workload.pk]) == [workload.pk]

    workload.refresh_from_db()
    assert (workload.state, workload.released_at, workload.reason) == ("released", NOON, "")


def test_what_got_its_room_meanwhile_is_not_withdrawn(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    cycle.run_once()

    assert workloads.withdraw_many([workload.pk]) == []

    assert state_of(workload) == "placed"
    assert Placement.objects.count() == 1


def test_a_room_is_handed_over_once_to_the_transaction_that_commits(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    cycle.run_once()

    with transaction.atomic():
        workloads.claim_placements(unclaimed())
        transaction.set_rollback(True)

    (untaken,) = unclaimed()
    assert workloads.claim_placements([untaken]) == [ClaimedPlacement(workload.pk, "0", "n1", [], [])]
    assert workloads.claim_placements([untaken]) == []
    assert unclaimed() == []


def test_a_release_gives_the_room_back_once(project):
    report_nodes(report("n1"))
    (workload,) = enqueue(project, "job")
    cycle.run_once()

    assert workloads.release_many([workload.pk]) == [workload.pk]
    assert workloads.release_many([workload.pk]) == []

    assert state_of(workload) == "released"
    assert not Placement.objects.exists()


def test_a_release_also_ends_what_still_waits(project):
    (workload,) = enqueue(project, "job")

    assert workloads.release_many([workload.pk]) == [workload.pk]

    assert state_of(workload) == "released"
