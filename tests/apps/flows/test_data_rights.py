"""Whose data a run may read: the right to cache is that of who starts it, as it is for a job."""

import pytest

from accounts.errors import PermissionDenied
from accounts.models import Membership, Project, User
from accounts.permissions import Actor, Role
from accounts.selectors import actor_of
from datasets.errors import DatasetNotFound
from datasets.models import CachedCommit
from flows.models import Run
from flows.services import flows, runs
from tests.factories.datasets import commit_files, make_dataset
from tests.factories.flows import World, state_of

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


@pytest.fixture
def act_as(member, other):
    """Return a function that gives the member a role in the other project."""

    def act(role: Role | None) -> Actor:
        Membership.objects.filter(project=other, user=member.user_id).delete()
        if role is not None:
            Membership.objects.create(project=other, user_id=member.user_id, role=role)
        return actor_of(User.objects.get(pk=member.user_id))

    return act


def test_who_may_only_read_another_projects_data_starts_no_run_that_caches_it(act_as, project):
    viewer = act_as(Role.VIEWER)
    version = flows.save_version(actor=viewer, project=project, text=SHARED)

    with pytest.raises(PermissionDenied, match="does not allow you to cache commits"):
        runs.start_run(actor=viewer, version=version, parameters={})
    assert (Run.objects.count(), CachedCommit.objects.count()) == (0, 0)

    assert runs.start_run(actor=act_as(Role.MEMBER), version=version, parameters={}).number == 1


def test_who_may_only_read_another_projects_data_lets_a_run_read_a_copy_of_its_own(world, act_as, project):
    assert world.start(act_as(Role.VIEWER), project, OWN_COPY).number == 1


@pytest.mark.parametrize(
    ("text", "role", "error"),
    [(SHARED, Role.VIEWER, PermissionDenied), (SHARED, None, DatasetNotFound), (OWN_COPY, None, DatasetNotFound)],
    ids=["cached-viewer", "cached-stranger", "copied-stranger"],
)
def test_who_lost_the_right_to_a_runs_data_does_not_try_its_steps_again(world, act_as, project, *, text, role, error):
    run = world.start(act_as(Role.MEMBER), project, text)
    runs.cancel_run(actor=act_as(Role.MEMBER), run=run)
    world.turn()

    with pytest.raises(error):
        runs.retry_run(actor=act_as(role), run=run)

    assert state_of(run) == "cancelled"


def test_a_step_that_reads_no_data_is_tried_again_by_who_lost_the_right_to_what_others_read(world, act_as, project):
    run = world.start(act_as(Role.MEMBER), project, OWN_COPY)
    runs.cancel_run(actor=act_as(Role.MEMBER), run=run)
    world.turn()

    runs.retry_run(actor=act_as(None), run=run, step="report")

    assert state_of(run) == "running"
