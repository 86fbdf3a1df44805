"""Two projects that share a pool: one with a quota, one that borrows."""

import pytest

from accounts.services import projects
from scheduler.models import Queue
from scheduler.services import pool_members, queues


@pytest.fixture
def owner(site_admin, project):
    """Return the project that has a quota of two GPUs."""
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=2000)
    return project


@pytest.fixture
def guest(site_admin, db):
    """Return a project without a quota."""
    return projects.create_project(actor=site_admin, name="guests")
