"""Queues: made with their project, changed by site admins."""

import math

import pytest

from accounts.errors import PermissionDenied
from accounts.models import AuditEntry
from accounts.services import projects
from scheduler.errors import InvalidQuota, QueueNotFound
from scheduler.models import Queue
from scheduler.selectors import queues as selectors
from scheduler.services import pool_members, queues
from scheduler.workers import cycle
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def test_a_new_project_has_a_queue_without_gpus_of_its_own(site_admin):
    project = projects.create_project(actor=site_admin, name="team-b")

    queue = Queue.objects.get(project=project)
    assert (queue.gpu_quota_milli, queue.cpu_quota_millicores, queue.over_quota_weight) == (0, None, None)


def test_a_queue_is_made_once(project):
    assert pool_members.ensure_queue(project_id=project.pk) == pool_members.ensure_queue(project_id=project.pk)
    assert Queue.objects.count() == 1


def test_a_site_admin_sets_a_quota(site_admin, project):
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))

    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=4000, over_quota_weight=2.5)

    queue.refresh_from_db()
    assert (queue.gpu_quota_milli, queue.over_quota_weight, queue.cpu_quota_millicores) == (4000, 2.5, None)
    entry = AuditEntry.objects.get(action="scheduler.set_quota")
    assert (entry.actor_name, entry.facts) == ("root", {"gpu_quota_milli": 4000, "over_quota_weight": 2.5})


def test_a_member_may_not_set_a_quota(member, project):
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))

    with pytest.raises(PermissionDenied):
        queues.set_quota(actor=member, queue=queue, gpu_quota_milli=4000)

    queue.refresh_from_db()
    assert queue.gpu_quota_milli == 0


@pytest.mark.parametrize(
    "quota",
    [
        {"gpu_quota_milli": -1},
        {"gpu_quota_milli": None},
        {"over_quota_weight": math.nan},
        {"over_quota_weight": math.inf},
        {"memory_quota_bytes": 2**70},
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(site_admin, project, quota):
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))

    with pytest.raises(InvalidQuota):
        queues.set_quota(actor=site_admin, queue=queue, **quota)

    queue.refresh_from_db()
    assert (queue.gpu_quota_milli, queue.memory_quota_bytes, queue.over_quota_weight) == (0, None, None)


def test_a_list_shows_what_is_held_and_who_waits(member, project):
    report_nodes(report("n1", 1))
    enqueue(project, "a", "b", gpus=1)
    cycle.run_once()

    (queue,) = selectors.list_queues(actor=member)

    assert (queue.gpu_held_milli, queue.cpu_held_millicores) == (1000, 1000)
    assert (queue.placed_workloads, queue.waiting_workloads) == (1, 1)


def test_a_stranger_finds_no_queue(make_actor, project):
    pool_members.ensure_queue(project_id=project.pk)
    stranger = make_actor(None)

    assert list(selectors.list_queues(actor=stranger)) == []
    with pytest.raises(QueueNotFound):
        selectors.get_queue(actor=stranger, project=project.name)
