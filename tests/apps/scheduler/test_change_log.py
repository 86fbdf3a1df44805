"""The database notes each change of what cycles read, whoever makes it."""

import pytest
from django.db import transaction

from core import clock
from scheduler.models import Change, Node, Placement, Pool, Queue, Reservation, Workload
from scheduler.selectors.changes import ChangeReader, News
from scheduler.services import queues, workloads
from scheduler.workers import change_log, cycle
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(project):
    """Return a workload that is placed."""
    report_nodes(report("n1", 1))
    enqueue(project, "job", gpus=1)
    cycle.run_once()
    return Workload.objects.get()


@pytest.fixture
def reader(job):
    """Return a reader that has read what there is."""
    reader = ChangeReader()
    assert reader.read() == News(is_all=True)
    return reader


def test_each_change_is_told_once(project, reader):
    report_nodes(report("n1", 1), report("n2", 1))
    node = Node.objects.get(name="n2")
    assert reader.read() == News(node_ids={node.pk})

    (job,) = enqueue(project, "another", gpus=1)
    assert reader.read() == News(workload_ids={job.pk}, new_ids={job.pk})

    cycle.run_once()
    assert reader.read() == News(workload_ids={job.pk})

    workloads.release_many([job.pk])
    assert reader.read() == News(gone_ids={job.pk})
    assert reader.read() == News()


def test_what_bypasses_the_services_is_told_too(job):
    reader = ChangeReader()
    reader.read()

    Placement.objects.update(evicting_since=clock.now())
    assert reader.read() == News(workload_ids={job.pk})
    Reservation.objects.create(workload=job, node=Node.objects.get())
    assert reader.read() == News(workload_ids={job.pk}, has_reservations=True)
    Workload.objects.all().delete()
    assert reader.read() == News(gone_ids={job.pk}, has_reservations=True)


def test_other_queues_and_rules_are_told(site_admin, project, reader):
    queue = Queue.objects.get(project=project)
    queues.set_quota(actor=site_admin, queue=queue, gpu_limit_milli=1000)
    assert reader.read() == News(has_queues=True)

    Pool.objects.update(claim_delay_s=60)
    assert reader.read() == News(has_queues=True)


def test_what_no_cycle_reads_is_not_told(job):
    reader = ChangeReader()
    reader.read()

    Placement.objects.update(is_claimed=True)
    Workload.objects.update(price_per_hour=2)
    Queue.objects.update(used_gpu_s=7)

    assert reader.read() == News()


def test_what_was_read_and_rolled_back_makes_all_of_it_unknown(job):
    reader = ChangeReader()
    reader.read()

    with transaction.atomic():
        Placement.objects.update(saved_at_s=1)
        assert reader.read() == News(workload_ids={job.pk})
        transaction.set_rollback(True)

    assert reader.read() == News(is_all=True)


def test_who_missed_changes_that_were_collected_reads_everything(job, monkeypatch):
    reader, other = ChangeReader(), ChangeReader()
    reader.read()
    other.read()
    for second in range(3):
        Placement.objects.update(saved_at_s=second)
    other.read()

    monkeypatch.setattr(change_log, "_KEPT", 1)
    change_log.collect()

    assert Change.objects.count() == 1
    assert reader.read() == News(is_all=True)
    assert other.read() == News()
