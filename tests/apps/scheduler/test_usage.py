"""What queues held and waited for is sampled exactly, summed up, read over time, and deleted when it is old."""

from datetime import timedelta

import pytest

from accounts.errors import ProjectNotFound
from accounts.permissions import Actor, Level
from accounts.services import projects
from scheduler.models import PoolSample, QueueSample
from scheduler.selectors import usage as selectors
from scheduler.selectors.usage import Consumption
from scheduler.services import workloads
from scheduler.services.workloads import PodSet, WorkloadRequest
from scheduler.workers import cycle, usage
from tests.factories.scheduler import GIB, NOON, enqueue, report, report_nodes
from tests.interleaving import happens_after

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def sampled(project, move):
    """Let four GPUs be there, and one sample be taken at noon."""
    report_nodes(report("n1", 4))
    usage.sample()
    return project


def held(level: int = 0) -> list[tuple[float, float]]:
    """Return what each sample of a level says that was held and waited for, in seconds of one GPU."""
    rows = QueueSample.objects.filter(level=level).order_by("ends_at")
    return [(row.held_gpu_s, row.pending_gpu_s) for row in rows]


def consumed(actor, **filters) -> list[Consumption]:
    return selectors.list_consumption(actor=actor, since=NOON - HOUR, **filters)


def test_a_sample_counts_each_placement_from_its_start_to_its_end_to_the_second(sampled, move):
    (first, second) = enqueue(sampled, "first", "second", gpus=1)
    move(NOON + timedelta(seconds=10))
    cycle.run_once()
    move(NOON + timedelta(seconds=40))
    workloads.release_many([first.pk])
    move(NOON + MINUTE)
    usage.sample()
    move(NOON + 2 * MINUTE)
    usage.sample()
    workloads.release_many([second.pk])
    move(NOON + 3 * MINUTE)
    usage.sample()

    assert held() == [(30 + 50, 0), (60, 0)]


def test_two_leaders_at_once_take_one_sample(sampled, move):
    (workload,) = enqueue(sampled, "first", gpus=1)
    cycle.run_once()
    move(NOON + MINUTE)

    def sample_later():
        move(NOON + MINUTE + timedelta(seconds=1))
        usage.sample()

    with happens_after("MAX(", sample_later):
        usage.sample()

    assert held() == [(60, 0)]
    workload.queue.refresh_from_db()
    assert workload.queue.used_gpu_s == 60
    usage.sample()
    assert held() == [(60, 0), (1, 0)]


def test_what_was_evicted_and_the_pods_of_gangs_are_counted_too(sampled, move):
    (alone,) = enqueue(sampled, "alone", gpus=1)
    pods = PodSet(cpu_millicores=1000, memory_bytes=GIB, gpu_milli=1000, name="w", count=2)
    gang = WorkloadRequest(
        project_id=sampled.pk, name="gang", resource_id="res_lab", pod_sets=[pods], price_per_hour=7200.0
    )
    (gang_id,) = workloads.enqueue_many([gang])
    cycle.run_once()
    type(alone).objects.filter(pk=alone.pk).update(state="leaving")
    move(NOON + timedelta(seconds=20))
    workloads.requeue_many([alone.pk])
    workloads.withdraw_many([alone.pk])
    move(NOON + timedelta(seconds=30))
    workloads.release_many([gang_id])
    move(NOON + MINUTE)
    usage.sample()

    assert held() == [(20 + 2 * 30, 0)]
    assert QueueSample.objects.get().price == pytest.approx(2.0 * 30)


def test_what_waits_counts_for_all_of_a_sample(sampled, move):
    enqueue(sampled, "large", gpus=8)
    move(NOON + MINUTE)
    usage.sample()

    assert held() == [(0, 8 * 60)]


def test_a_queue_that_holds_nothing_and_waits_for_nothing_leaves_no_sample(sampled, move):
    move(NOON + MINUTE)
    usage.sample()

    assert not QueueSample.objects.exists()
    capacity = PoolSample.objects.filter(level=0).order_by("ends_at").values_list("capacity_gpu_s", flat=True)
    assert list(capacity) == [4 * 60, 4 * 60]


def test_a_second_sample_of_the_same_moment_adds_nothing(sampled, move):
    enqueue(sampled, "job", gpus=1)
    cycle.run_once()
    move(NOON + MINUTE)
    usage.sample()
    usage.sample()

    assert held() == [(60, 0)]


def test_spans_that_are_over_are_summed_up_and_old_samples_are_deleted(sampled, move):
    enqueue(sampled, "job", gpus=2)
    cycle.run_once()
    for minutes in range(5, 35, 5):
        move(NOON + minutes * MINUTE)
        usage.sample()

    assert held(level=1) == [(2 * 900, 0), (2 * 900, 0)]
    move(NOON + DAY + 31 * MINUTE)
    usage.sample()
    assert [row.ends_at for row in QueueSample.objects.filter(level=0)] == [NOON + DAY + 31 * MINUTE]
    assert held(level=1) + held(level=0) == [(2 * 900, 0), (2 * 900, 0), (2 * (DAY + MINUTE).total_seconds(), 0)]


def test_consumption_is_exact_whatever_has_been_summed_up(sampled, site_admin, move):
    enqueue(sampled, "job", gpus=2, price_per_hour=3.0)
    cycle.run_once()
    for minutes in range(7, 120, 7):
        move(NOON + minutes * MINUTE)
        usage.sample()

    (found,) = consumed(site_admin)
    assert (found.project, found.pool) == (sampled.name, "default")
    assert found.gpu_s == pytest.approx(2 * 119 * 60)
    assert found.price == pytest.approx(3.0 * 119 / 60)
    with pytest.raises(ProjectNotFound):
        consumed(site_admin, project="other")


def test_a_member_sees_what_its_own_projects_consumed(sampled, site_admin, move):
    guests = projects.create_project(actor=site_admin, name="guests")
    enqueue(sampled, "job", gpus=1)
    enqueue(guests, "visitor", gpus=1)
    cycle.run_once()
    move(NOON + MINUTE)
    usage.sample()
    member = Actor(user_id=7, name="ana", levels={guests.pk: Level.READ})

    assert consumed(member) == [Consumption("guests", "default", 60.0, 0.0, has_simulated=True)]
    assert [each.project for each in consumed(site_admin)] == ["guests", sampled.name]


def test_a_pool_over_time_tells_its_capacity_what_all_held_and_the_lines_of_visible_projects(sampled, site_admin, move):
    guests = projects.create_project(actor=site_admin, name="guests")
    enqueue(sampled, "job", gpus=1)
    enqueue(guests, "visitor", gpus=2)
    enqueue(guests, "late", gpus=4)
    cycle.run_once()
    move(NOON + MINUTE)
    usage.sample()
    member = Actor(user_id=7, name="ana", levels={guests.pk: Level.READ})

    found = selectors.read_usage(actor=member, pool="default", past=HOUR)

    assert list(found.ends_at) == [NOON, NOON + MINUTE]
    assert (list(found.capacity), list(found.held)) == ([4, 4], [0, 3])
    (line,) = found.lines
    assert (line.project, list(line.held), list(line.pending)) == ("guests", [0, 2], [0, 4])
    assert list(line.quota) == [None, 0]


def test_a_longer_past_is_told_in_coarser_spans_up_to_the_present(sampled, site_admin, move):
    enqueue(sampled, "job", gpus=2)
    cycle.run_once()
    for minutes in range(1, 20):
        move(NOON + minutes * MINUTE)
        usage.sample()

    found = selectors.read_usage(actor=site_admin, pool="default", past=DAY)

    assert list(found.ends_at) == [NOON, NOON + 15 * MINUTE, NOON + 30 * MINUTE]
    assert [list(line.held) for line in found.lines] == [[0, 2, 2]]


def test_a_pool_without_samples_has_no_history(site_admin):
    assert list(selectors.read_usage(actor=site_admin, pool="default", past=HOUR).ends_at) == []


def test_a_sample_costs_no_more_statements_with_more_work(sampled, move, django_assert_max_num_queries):
    for workload in enqueue(sampled, *(f"job{n}" for n in range(4)), gpus=1):
        cycle.run_once()
        workloads.release_many([workload.pk])
    move(NOON + MINUTE)

    with django_assert_max_num_queries(20):
        usage.sample()
