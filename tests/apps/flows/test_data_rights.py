"""Whose data a run may read: the right to cache is that of who starts it, as it is for a job."""

import pytest

from accounts.errors import PermissionDenied
from accounts.models import Membership, Project
from accounts.permissions import Role
from accounts.selectors import actor_of
from datasets.models import CachedCommit
from flows.models import Run
from flows.services import flows, runs
from tests.factories.datasets import commit_files, make_dataset
from tests.factories.flows import World

pytestmark = pytest.mark.django_db

SHARED = """
flow: digits
steps:
  - {name: train, command: "true", data: [{dataset: team-q/scans@main}]}
  - {name: report, after: [train], command: "true"}
"""
OWN_COPY = SHARED.replace("@main}", "@main, cached: false}")


@pytest.fixture
def other(world: World, site_admin) -> Project:
    """Another project, with a dataset."""
    other = Project.objects.create(name="team-q")
    commit_files(site_admin, make_dataset(site_admin, other, "scans"), {"a": b"one"})
    return other


def act_as(member, other: Project, role: Role | None):
    """Give the member another role in the other project."""
    Membership.objects.filter(project=other, user=member.user_id).delete()
    membership = Membership(project=other, user_id=member.user_id, role=role or "")
    if role is not None:
        membership.save()
    return actor_of(membership.user)


def test_who_may_only_read_another_projects_data_starts_no_run_that_caches_it(member, project, other):
    viewer = act_as(member, other, Role.VIEWER)
    version = flows.save_version(actor=viewer, project=project, text=SHARED)

    with pytest.raises(PermissionDenied, match="does not allow you to cache commits"):
        runs.start_run(actor=viewer, version=version, parameters={})
    assert (Run.objects.count(), CachedCommit.objects.count()) == (0, 0)

    assert runs.start_run(actor=act_as(member, other, Role.MEMBER), version=version, parameters={}).number == 1


def test_who_may_only_read_another_projects_data_lets_a_run_read_a_copy_of_its_own(world, member, project, other):
    assert world.start(act_as(member, other, Role.VIEWER), project, OWN_COPY).number == 1
